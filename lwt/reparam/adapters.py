"""Adapters on disk: a folder with ``adapter.safetensors`` (the leaves) and ``adapter.json`` (their meaning).

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


@dataclasses.dataclass(frozen=True)
class Adapter:
    """An adapter and its meaning.

    Attributes:
        leaves: flat dict of arrays.
        config: section from which `compose.build` makes its reparametrization.
        base_fingerprint: `fingerprint` of the base it was trained on.
        step: optimizer steps it was trained for (SingLoRA's ramp depends on it).
    """

    leaves: dict
    config: dict
    base_fingerprint: str = ""
    step: int = 0

    @functools.cached_property
    def reparam(self):
        return compose.build(self.config)

    def expand(self, base):
        """The weights of the adapted model, for evaluation."""
        return self.reparam.expand(base, self.leaves, self.step)


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


def save(folder, adapter, *, reparam_config, base_fingerprint, step):
    """Writes the leaves `adapter`, constants included, and their meaning, each file atomically.

    Args:
        folder: created if needed.
        adapter: flat dict of arrays.
        reparam_config: JSON-serializable dict for `compose.build`.
        base_fingerprint: `fingerprint` of the base.
        step: optimizer steps so far.
    """
    folder = pathlib.Path(folder)
    data = safetensors.flax.save({name: jnp.asarray(leaf) for name, leaf in adapter.items()})
    info = {"reparam": reparam_config, "step": int(step), "base": base_fingerprint, "sha256": files.sha256(data)}
    reparam = compose.build(reparam_config)
    if hasattr(reparam, "ramp_at"):
        info["u"] = jax.tree.map(float, reparam.ramp_at(step))
    files.write_bytes(folder / LEAVES, data)
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
        data = (folder / LEAVES).read_bytes()
        config, step, base, checksum = (info[key] for key in ("reparam", "step", "base", "sha256"))
    except OSError as error:
        raise errors.CheckpointError(f"no adapter in {folder}: {error.strerror}: {error.filename}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise errors.CheckpointError(f"{folder / INFO} is damaged: {error}") from error
    if files.sha256(data) != checksum:
        raise errors.CheckpointError(f"{folder / LEAVES} is damaged or cut short ({len(data)} bytes): other checksum")
    if base_fingerprint is not None and base != base_fingerprint:
        raise errors.CheckpointError(
            f"{folder} was trained on another base: {base[:12]}... instead of {base_fingerprint[:12]}..."
        )
    leaves = safetensors.flax.load_file(folder / LEAVES)  # from the file: `load(data)` cannot read bfloat16
    if expected is not None:
        difference = trees.differences(expected, leaves)
        if difference:
            raise errors.CheckpointError(f"the adapter in {folder} does not fit: {difference}")
        leaves = {name: leaves[name] for name in expected}
    return Adapter(leaves, config, base, step)


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
    leaves = {}
    for name, w in adapter.expand(base).items():
        factors = []
        while isinstance(w, linear.LowRank):
            factors.append((w.a, w.scale * w.b))
            w = w.base
        if w is not base[name]:
            raise errors.ConfigError(
                f"{adapter.config['name']!r} changes {name!r} by more than low rank; merge it instead"
            )
        if factors:
            leaves[f"{name}/a"] = jnp.concatenate([a for a, _ in factors], axis=1)
            leaves[f"{name}/b"] = jnp.concatenate([b for _, b in factors], axis=0)
    return _plain(leaves, rank, adapter.base_fingerprint)


def weighted_merge(adapters, weights, *, base, rank=None):
    """Merges adapters into one plain LoRA adapter that changes `base` by exactly ``Σ_i weight_i · ΔW_i``.

    The factors are concatenated along the rank axis, each with its own scale: the rank is the sum of the ranks.
    (Averaging all `a` and all `b` would add products of unrelated factors.)

    Args:
        adapters: `Adapter` objects of one base; their reparametrizations, ranks and targets may differ.
        weights: one number per adapter.
        base: flat dict of the base's weights.
        rank: see `low_rank`.

    Raises:
        lwt.errors.ConfigError: see `low_rank`.
        lwt.errors.CheckpointError: the adapters belong to different bases.
    """
    if not adapters or len(adapters) != len(weights):
        raise errors.ConfigError(f"{len(adapters)} adapters and {len(weights)} weights; one weight for each is needed")
    if len({adapter.base_fingerprint for adapter in adapters}) > 1:
        raise errors.CheckpointError("the adapters to merge were trained on different bases")
    leaves = {}
    for adapter, weight in zip(adapters, weights, strict=True):
        for name, leaf in low_rank(adapter, base).leaves.items():
            kind = name.rsplit("/", 1)[-1]
            own = weight * leaf if kind == "b" else leaf
            leaves[name] = jnp.concatenate([leaves[name], own], axis=1 if kind == "a" else 0) if name in leaves else own
    return _plain(leaves, rank, adapters[0].base_fingerprint)


def merge(base, weights):
    """Turns every structured node of `weights`, which fit `base`, into one float32 array; `base` stays unchanged."""
    difference = trees.differences(base, weights)
    if difference:
        raise errors.CheckpointError(f"the weights do not fit their base: {difference}")
    return {n: linear.dense(w).astype(jnp.float32) if linear.is_node(w) else w for n, w in weights.items()}


def largest_difference(first, second, *, batches):
    """The largest absolute difference between the logits of two functions ``batch -> logits`` on `batches`."""
    return max(float(jnp.max(jnp.abs(first(batch) - second(batch)))) for batch in batches)


def _plain(leaves, rank, base_fingerprint):
    names = [name.removesuffix("/a") for name in leaves if name.endswith("/a")]
    if not names:
        raise errors.ConfigError("an adapter without low-rank targets cannot be converted to LoRA")
    rank = rank or max(leaves[f"{name}/a"].shape[1] for name in names)
    config = {"name": "lora", "rank": rank, "scaling": "one", "targets": "|".join(re.escape(name) for name in names)}
    return Adapter(pad_rank(leaves, rank), config, base_fingerprint)
