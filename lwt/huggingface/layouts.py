"""Converts the weights of text encoders, Marian and ViT to the names and layouts of transformers, and back.

A kernel ``[in out]`` is their ``weight [out in]``, a scale their ``weight``, a table ``[rows d]`` the same array; the
kernel of a ViT's patches, ``[p·p·c d]``, is ``[d c p p]``, its class token ``[1 1 d]``, its positions ``[1 n d]``.

Marian stores the sines of a position in the first half of the channels and the cosines in the second half; lwt
alternates them (`lwt/layers/position.py`). It is one model with its channels in two orders: weights that read or write
the residual stream are reordered, and the logits stay the same.
"""

import logging
import re

import numpy as np

from lwt.huggingface import marian, names, vit
from lwt.layers import linear

LOG = logging.getLogger(__name__)
OLD = {"gamma": "weight", "beta": "bias"}  # names of a norm's scale and bias in files converted from TensorFlow
READS = ("query", "key", "value", "fc1")  # modules whose inputs are the channels; all others have them as outputs
POSITION = "embed/position"


def to_hf(weights, layout, *, model):
    """Converts weights to the names and layouts of files of Hugging Face.

    Args:
        weights: flat dict of arrays or nodes.
        layout: a `names.Layout`.
        model: the linen module that the weights belong to.

    Returns:
        A flat dict of float32 arrays.
    """
    arrays = to_torch(weights, layout, model=model)
    for name in list(arrays):
        module, _, kind = name.rpartition(".")
        if file := names.renamed(module, layout.files):
            arrays[f"{file}.{kind}"] = arrays.pop(name)
    if getattr(model, "pool", "") == "tokens":
        return vit.with_two_heads(arrays)
    return marian.to_file(arrays, model=model) if layout.halves else arrays


def to_torch(weights, layout, *, model):
    """Converts weights to PyTorch's parameter names and layouts; the arguments are those of `to_hf`."""
    arrays = {}
    for name, w in weights.items():
        array = reordered(np.asarray(linear.dense(w), np.float32), channel_axes(name), layout=layout)
        if layout.offset and name == POSITION:
            array = np.pad(array, ((layout.offset, 0), (0, 0)))
        if table := layout.tables.get(name):
            if not table.endswith(".weight"):
                array = array[None, None] if table.endswith("token") else array[None]
            arrays[table] = array
            continue
        theirs = f"{names.module_of(name, layout)}.{'bias' if name.endswith('/bias') else 'weight'}"
        if name == "embed/patch/kernel":
            cut = array.reshape(model.patch, model.patch, model.channels, model.width)
            arrays[theirs] = cut.transpose(3, 2, 0, 1)
        else:
            arrays[theirs] = array.T
    return {names.as_called(name, layout, model=model): array for name, array in arrays.items()}


def from_hf(arrays, layout, *, where):
    """Inverts `to_hf`: returns a flat dict of weights; those that lwt's model lacks keep their names.

    Args:
        arrays: ``{name: array}`` of a file.
        layout: a `names.Layout`.
        where: the file, for error messages.

    Raises:
        lwt.errors.CheckpointError: a Marian model has no table, or positions that are not sinusoidal.
    """
    if not any(name.startswith(layout.body) for name in arrays):
        arrays = {layout.body + name: array for name, array in arrays.items()}
    if layout.halves:
        arrays = marian.of_file(arrays, where=where)
    return from_torch(_without_unused(arrays, layout, where), layout)


def _without_unused(arrays, layout, where):
    """The arrays by their current names, without those that no result depends on."""
    kept, left_out = {}, []
    for name, array in arrays.items():
        module, _, kind = name.rpartition(".")
        if re.fullmatch(layout.unused, name) or re.fullmatch(layout.unused, name.removeprefix(layout.body)):
            left_out.append(name)
        else:
            kept[f"{module}.{OLD.get(kind, kind)}" if module else name] = array
    if left_out:
        LOG.info("%s: %d weights of other heads are left out: %s", where, len(left_out), ", ".join(left_out))
    return kept


def from_torch(arrays, layout):
    """Inverts `to_torch` for names of a model with a head; accepts the names in files too."""
    tables, weights = {theirs: ours for ours, theirs in layout.tables.items()}, {}
    for name, array in arrays.items():
        module, _, kind = name.rpartition(".")
        if (table := tables.get(name)) and array.ndim in (2, 3):
            array = array if array.ndim < 3 else array.reshape(-1) if table.endswith("token") else array[0]
            array = array[layout.offset :] if table == POSITION else array
            array = array.reshape(-1) if table == marian.OUR_BIAS else array
            weights[table] = reordered(array, channel_axes(table), layout=layout, back=True)
        elif (ours := names.ours_of(module, layout)) and kind in ("weight", "bias") and array.ndim in (1, 2, 4):
            kind = "bias" if kind == "bias" else "scale" if array.ndim == 1 else "kernel"
            if array.ndim == 4:
                array = array.transpose(0, 2, 3, 1).reshape(len(array), -1)
            weights[f"{ours}/{kind}"] = reordered(array.T, channel_axes(f"{ours}/{kind}"), layout=layout, back=True)
        else:
            weights[name] = array
    return weights


def channel_axes(name):
    """The axes of the weight `name`, 0 or -1, that index channels of the residual stream."""
    if name == marian.OUR_BIAS:
        return ()
    *_, module, kind = ("", *name.split("/"))
    return ((0,) if kind == "kernel" else ()) if module in READS else (-1,)


def reordered(array, axes, *, layout, back=False):
    """An array with its channels along `axes` in the layout's order, or with `back` in lwt's order again."""
    for axis in axes if layout.halves else ():
        width = array.shape[axis]
        order = np.concatenate([np.arange(0, width, 2), np.arange(1, width, 2)])
        array = np.take(np.asarray(array), np.argsort(order) if back else order, axis)
    return array
