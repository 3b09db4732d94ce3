"""Adapters on disk: a folder with ``adapter.safetensors`` (the leaves) and ``adapter.json`` (their meaning).

What was trained whole beside the leaves, such as a classifier's head, is stored with them as ``base/NAME``.

`low_rank` brings several adapters of one base to one form: switching between them changes arrays only and compiles
nothing.
"""

import dataclasses
import functools
import hashlib
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.flax

from lwt import errors, files, trees
from lwt.layers import linear
from lwt.reparam import compose

LEAVES, INFO = "adapter.safetensors", "adapter.json"
WHOLE = "base"  # prefix of whole weights in the file


@dataclasses.dataclass(frozen=True)
class Adapter:
    """An adapter and its meaning.

    Attributes:
        leaves: flat dict of arrays.
        config: section from which `compose.build` makes its reparametrization.
        base_fingerprint: `fingerprint` of the base it was trained on.
        step: optimizer steps it was trained for (SingLoRA's ramp depends on it).
        whole: flat dict of weights that replace those of the base, or that it lacks, such as the head of a task (the
            ``modules_to_save`` of PEFT). Their shapes may differ from the base's.
        dropped: names of weights of the base that the adapted model lacks.
        labels: names of the classes, if the task has classes.
        data: fingerprints of what the data have to agree on, such as the tokenizer.
    """

    leaves: dict
    config: dict
    base_fingerprint: str = ""
    step: int = 0
    whole: dict = dataclasses.field(default_factory=dict)
    dropped: tuple = ()
    labels: tuple = ()
    data: dict = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def reparam(self):
        return compose.build(self.config)

    def onto(self, base):
        """The weights that the leaves adapt: those of the flat dict `base`, with the `whole` ones in their place."""
        return {**{name: w for name, w in base.items() if name not in self.dropped}, **self.whole}

    def expand(self, base):
        """The weights of the adapted model, for evaluation."""
        return self.reparam.expand(self.onto(base), self.leaves, self.step)

    def merged(self, base):
        """The weights of the adapted model as float32 arrays; see `merge`."""
        return merge(self.onto(base), self.expand(base))


def fingerprint(base):
    """The SHA-256 (hex) of the names, shapes, types and bytes of a flat dict, whatever its order.

    Nodes, such as quantized weights, count as the arrays that they stand for: adapters train on these.
    """
    digest = hashlib.sha256()
    for name in sorted(base):
        array = np.ascontiguousarray(linear.dense(base[name]) if linear.is_node(base[name]) else base[name])
        digest.update(f"{name} {array.shape} {array.dtype}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def save(folder, adapter, *, reparam_config, base_fingerprint, step, whole=None, dropped=(), labels=(), data=None):
    """Writes the leaves `adapter`, constants included, and their meaning, each file atomically.

    Args:
        folder: created if needed.
        adapter: flat dict of arrays.
        reparam_config: JSON-serializable dict for `compose.build`.
        base_fingerprint: `fingerprint` of the base.
        step: optimizer steps so far.
        whole, dropped, labels, data: see `Adapter`.
    """
    folder, arrays = pathlib.Path(folder), {**adapter, **trees.with_prefix(whole or {}, WHOLE)}
    contents = safetensors.flax.save({name: jnp.asarray(leaf) for name, leaf in arrays.items()})
    info = {"reparam": reparam_config, "step": int(step), "base": base_fingerprint, "sha256": files.sha256(contents)}
    info |= {"dropped": list(dropped), "labels": list(labels), "data": data or {}}
    reparam = compose.build(reparam_config)
    if hasattr(reparam, "ramp_at"):
        info["u"] = jax.tree.map(float, reparam.ramp_at(step))
    files.write_bytes(folder / LEAVES, contents)
    files.write_json(folder / INFO, info, checked=True)


def load(folder, *, expected=None, base_fingerprint=None):
    """Reads what `save` wrote, strictly.

    Args:
        folder: the adapter's folder.
        expected: flat dict of arrays (or shapes, from `jax.eval_shape` of ``init``) that the leaves must match.
        base_fingerprint: fingerprint that the adapter's base must have.

    Raises:
        lwt.errors.CheckpointError: a file is missing or damaged, or names, shapes or the base differ.
    """
    folder = pathlib.Path(folder)
    try:
        info = files.read_json(folder / INFO)
        contents = (folder / LEAVES).read_bytes()
        config, step, base, checksum = (info[key] for key in ("reparam", "step", "base", "sha256"))
        dropped, labels, data = tuple(info.get("dropped", ())), tuple(info.get("labels", ())), {**info.get("data", {})}
    except OSError as error:
        raise errors.CheckpointError(f"no adapter in {folder}: {error.strerror}: {error.filename}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise errors.CheckpointError(f"{folder / INFO} is damaged: {error}") from error
    if files.sha256(contents) != checksum:
        raise errors.CheckpointError(
            f"{folder / LEAVES} is damaged or cut short ({len(contents)} bytes): its checksum differs"
        )
    if base_fingerprint is not None and base != base_fingerprint:
        raise errors.CheckpointError(
            f"{folder} was trained on another base: {base[:12]}... instead of {base_fingerprint[:12]}..."
        )
    arrays = safetensors.flax.load_file(folder / LEAVES)  # from the file: `load(contents)` cannot read bfloat16
    leaves, _ = trees.split(arrays, lambda name: not name.startswith(f"{WHOLE}/"))
    if expected is not None:
        difference = trees.differences(expected, leaves)
        if difference:
            raise errors.CheckpointError(f"the adapter in {folder} does not fit: {difference}")
        leaves = {name: leaves[name] for name in expected}
    return Adapter(leaves, config, base, step, trees.subtree(arrays, WHOLE), dropped, labels, data)


def pad_rank(leaves, rank):
    """Pads an adapter's rank axes with zeros to `rank`, at least their own; the product ``a @ b`` stays the same."""
    padded = {}
    for name, leaf in leaves.items():
        axis = {"a": 1, "a0": 1, "b": 0, "b0": 0}.get(name.rsplit("/", 1)[-1])
        if axis is not None:
            missing = rank - leaf.shape[axis]
            if missing < 0:
                raise errors.ConfigError(f"rank {rank} is below that of {name}, {leaf.shape[axis]}")
            leaf = jnp.pad(leaf, [(0, missing if i == axis else 0) for i in range(2)])
        padded[name] = leaf
    return padded


def low_rank(adapter, base, *, rank=None):
    """Converts an adapter to plain LoRA with factor 1: folds every scale, ramp and constant into `a` and `b`.

    Exact for LoRA in all its scalings and starts, SingLoRA, and chains of these. All results with the same targets and
    `rank` share their shapes and their reparametrization.

    Args:
        adapter: an `Adapter`.
        base: flat dict of its base's weights.
        rank: pad to this rank; None: the largest among the targets.

    Raises:
        lwt.errors.ConfigError: the change is not of low rank (DoRA rescales whole columns), or `rank` is too small.
    """
    leaves, onto = {}, adapter.onto(base)
    for name, w in adapter.expand(base).items():
        factors = []
        while isinstance(w, linear.LowRank):
            factors.append((w.a, w.scale * w.b))
            w = w.base
        if w is not onto[name]:
            raise errors.ConfigError(
                f"{adapter.config['name']!r} changes {name!r} by more than low rank; merge it instead"
            )
        if factors:
            leaves[f"{name}/a"] = jnp.concatenate([a for a, _ in factors], axis=1)
            leaves[f"{name}/b"] = jnp.concatenate([b for _, b in factors], axis=0)
    return _plain(leaves, rank, like=adapter)


def weighted_merge(adapters, weights, *, base, rank=None):
    """Merges adapters into one plain LoRA adapter that changes `base` by exactly ``Σ_i weight_i · ΔW_i``.

    The factors are concatenated along the rank axis, each with its own scale: the rank is the sum of the ranks.
    (Averaging all `a` and all `b` would add products of unrelated factors.) Whole weights are summed in the same way.

    Args:
        adapters: `Adapter` objects of one base and for the same classes; their reparametrizations, ranks and targets
            may differ.
        weights: one number per adapter.
        base: flat dict of the base's weights.
        rank: see `low_rank`.

    Raises:
        lwt.errors.ConfigError: see `low_rank`; or an adapter has a weight that the base lacks, such as the head of a
            new task.
        lwt.errors.CheckpointError: the adapters belong to different bases, or to different classes.
    """
    if not adapters or len(adapters) != len(weights):
        raise errors.ConfigError(f"{len(adapters)} adapters and {len(weights)} weights; one weight for each is needed")
    if len({adapter.base_fingerprint for adapter in adapters}) > 1:
        raise errors.CheckpointError("the adapters to merge were trained on different bases")
    if len({(adapter.labels, adapter.dropped) for adapter in adapters}) > 1:
        raise errors.CheckpointError("the adapters to merge were trained for different classes or models")
    leaves, whole = {}, {}
    for adapter, weight in zip(adapters, weights, strict=True):
        for name, leaf in low_rank(adapter, base).leaves.items():
            kind = name.rsplit("/", 1)[-1]
            own = weight * leaf if kind == "b" else leaf
            leaves[name] = jnp.concatenate([leaves[name], own], axis=1 if kind == "a" else 0) if name in leaves else own
        for name, w in adapter.whole.items():
            if name not in base or w.shape != base[name].shape:
                raise errors.ConfigError(f"{name!r} is new or of another shape than in the base: it has no sum")
            below = linear.dense(base[name])
            whole[name] = whole.get(name, below) + weight * (w - below)
    return dataclasses.replace(_plain(leaves, rank, like=adapters[0]), whole=whole)


def merge(base, weights):
    """Turns every structured node of `weights`, which fit `base`, into one float32 array; `base` stays unchanged."""
    difference = trees.differences(base, weights)
    if difference:
        raise errors.CheckpointError(f"the weights do not fit their base: {difference}")
    return {n: linear.dense(w).astype(jnp.float32) if linear.is_node(w) else w for n, w in weights.items()}


def largest_difference(first, second, *, batches):
    """The largest absolute difference between the logits of two functions ``batch -> logits`` on `batches`."""
    return max(float(jnp.max(jnp.abs(first(batch) - second(batch)))) for batch in batches)


def _plain(leaves, rank, *, like):
    """The plain LoRA adapter with these leaves, and with everything else as `like` has it."""
    names = [name.removesuffix("/a") for name in leaves if name.endswith("/a")]
    if not names:
        raise errors.ConfigError("an adapter without low-rank targets cannot be converted to LoRA")
    rank = rank or max(leaves[f"{name}/a"].shape[1] for name in names)
    config = {"name": "lora", "rank": rank, "scaling": "one", "targets": "|".join(re.escape(name) for name in names)}
    return dataclasses.replace(like, leaves=pad_rank(leaves, rank), config=config, step=0)
