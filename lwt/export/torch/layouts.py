"""Hugging Face's names and layouts for the weights of BERT, Marian and ViT.

A kernel ``[in out]`` is their ``weight [out in]``, a scale their ``weight``, a table ``[rows d]`` the same array; the
kernel of a ViT's patches, ``[p·p·c d]``, is ``[d c p p]``, its class token ``[1 1 d]``, its positions ``[1 n d]``.

Marian has the sines of a position in the first half of the channels and the cosines in the second, lwt in turns
(`lwt/layers/position.py`). That is one model with its channels in two orders: whatever reads or writes the residual
stream is reordered on the way, and the logits stay what they are.
"""

import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.export.torch import names
from lwt.layers import linear, position

READS = ("query", "key", "value", "fc1")  # modules whose inputs are channels; of all others it is the outputs
BIAS = "final_logits_bias"  # of Marian's logits; lwt has none
COPIES = tuple(f"{name}.weight" for name in ("lm_head", "model.encoder.embed_tokens", "model.decoder.embed_tokens"))
POSITIONS = tuple(f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder"))


def to_hf(weights, layout, model):
    """Weights as files of Hugging Face have them.

    Args:
        weights: flat dict of arrays or nodes.
        layout: a `names.Layout`.
        model: the linen module that they are of.
    """
    arrays = to_torch(weights, layout, model)
    for name in list(arrays):
        module, _, kind = name.rpartition(".")
        if file := names.renamed(module, layout.files):
            arrays[f"{file}.{kind}"] = arrays.pop(name)
    if layout.halves:
        arrays[BIAS] = np.zeros((1, model.vocabulary), np.float32)
    return arrays


def to_torch(weights, layout, model):
    """Weights under PyTorch's names of the parameters, and in its layouts; arguments as of `to_hf`."""
    arrays = {}
    for name, w in weights.items():
        array = reordered(np.asarray(linear.dense(w), np.float32), channel_axes(name), layout)
        if table := layout.tables.get(name):
            arrays[table] = array if table.endswith(".weight") else array.reshape(1, -1, model.width)
            continue
        theirs = f"{names.module_of(name, layout)}.{'bias' if name.endswith('/bias') else 'weight'}"
        if name == "embed/patch/kernel":
            cut = array.reshape(model.patch, model.patch, model.channels, model.width)
            arrays[theirs] = cut.transpose(3, 2, 0, 1)
        else:
            arrays[theirs] = array.T
    return {names.as_called(name, layout, model): array for name, array in arrays.items()}


def from_hf(arrays, layout, *, where):
    """The inverse of `to_hf`: a flat dict of weights; what is no part of lwt's model keeps its name.

    Args:
        arrays: by name, as a file has them.
        layout: a `names.Layout`.
        where: the file, for errors.

    Raises:
        lwt.errors.CheckpointError: a Marian model with a bias on its logits, with tables that are not tied, or with
            positions that are not the sinusoidal ones.
    """
    if not any(name.startswith(layout.body) for name in arrays):
        arrays = {layout.body + name: array for name, array in arrays.items()}
    return from_torch(_without_copies(arrays, layout, where) if layout.halves else arrays, layout)


def from_torch(arrays, layout):
    """The inverse of `to_torch`, and of what `to_hf` makes of names, for those of a model with a head."""
    tables, weights = {theirs: ours for ours, theirs in layout.tables.items()}, {}
    for name, array in arrays.items():
        module, _, kind = name.rpartition(".")
        if table := tables.get(name):
            array = array if array.ndim < 3 else array.reshape(-1) if table.endswith("token") else array[0]
            weights[table] = reordered(array, channel_axes(table), layout, back=True)
        elif (ours := names.ours_of(module, layout)) and kind in ("weight", "bias"):
            kind = "bias" if kind == "bias" else "scale" if array.ndim == 1 else "kernel"
            if array.ndim == 4:
                array = array.transpose(0, 2, 3, 1).reshape(len(array), -1)
            weights[f"{ours}/{kind}"] = reordered(array.T, channel_axes(f"{ours}/{kind}"), layout, back=True)
        else:
            weights[name] = array
    return weights


def channel_axes(name):
    """The axes of the weight `name`, 0 or -1, along which the channels of the residual stream lie."""
    *_, module, kind = ("", *name.split("/"))
    return ((0,) if kind == "kernel" else ()) if module in READS else (-1,)


def reordered(array, axes, layout, *, back=False):
    """An array with the channels along `axes` in the layout's order; `back`: in lwt's again."""
    for axis in axes if layout.halves else ():
        width = array.shape[axis]
        order = np.concatenate([np.arange(0, width, 2), np.arange(1, width, 2)])
        array = np.take(np.asarray(array), np.argsort(order) if back else order, axis)
    return array


def _without_copies(arrays, layout, where):
    """The arrays of a Marian model without those that say nothing of their own."""
    arrays = dict(arrays)
    table = arrays.get(layout.tables["embed/embedding"])
    for name in COPIES:
        copy = arrays.pop(name, table)
        if copy is not table and not np.array_equal(copy, table):
            raise errors.CheckpointError(f"{where}: {name} is not model.shared.weight; lwt has one table for all three")
    if np.any(arrays.pop(BIAS, 0)):
        raise errors.CheckpointError(f"{where}: {BIAS} is not 0; lwt's logits have no bias")
    for name in POSITIONS:
        found = arrays.pop(name, None)
        if found is not None:
            wanted = np.asarray(position.sinusoidal(jnp.arange(len(found)), found.shape[1]))
            if not np.allclose(found, reordered(wanted, (-1,), layout), atol=1e-4):
                raise errors.CheckpointError(f"{where}: {name} is not sinusoidal, as lwt's positions are")
    return arrays
