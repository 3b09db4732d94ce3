"""Reparametrizations from a config, and chains of them."""

import dataclasses

import jax

from lwt import errors, registry, trees
from lwt.layers import linear


@dataclasses.dataclass(frozen=True)
class Compose:
    """Applies one or more reparametrizations in order: each adapts the weights that the previous one returned.

    The leaves of part i, from file NAME, have the prefix ``i_NAME/``.
    """

    parts: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise errors.ConfigError("reparam.parts is empty; it has to be a tuple of {'name': ..., ...}")

    @property
    def identity_at_start(self):
        """Whether no part changes the weights at step 0."""
        return all(part.identity_at_start for _, part in self._named())

    def init(self, key, base):
        """The leaves of all parts; each part starts from the dense weights that the previous ones return at step 0."""
        adapter = {}
        for i, (prefix, part) in enumerate(self._named()):
            own = part.init(jax.random.fold_in(key, i), base)
            adapter.update(trees.with_prefix(own, prefix))
            base = {name: linear.dense(w) for name, w in part.expand(stored(part, base), own, 0).items()}
        return adapter

    def stored(self, base):
        """The weights that the first part stores; the others must not replace stored weights."""
        for prefix, part in self._named()[1:]:
            if hasattr(part, "stored"):
                raise errors.ConfigError(f"reparam.parts: {prefix} replaces stored weights, so it has to be the first")
        return stored(self.parts[0], base)

    def expand(self, base, adapter, step, *, key=None):
        """The weights after the last part."""
        for i, (prefix, part) in enumerate(self._named()):
            own_key = None if key is None else jax.random.fold_in(key, i)
            base = part.expand(base, trees.subtree(adapter, prefix), step, key=own_key)
        return base

    def labels(self, adapter):
        """The labels of all parts."""
        labels = {}
        for prefix, part in self._named():
            labels |= trees.with_prefix(part.labels(trees.subtree(adapter, prefix)), prefix)
        return labels

    def ramp_at(self, step):
        """``{prefix: u(step)}`` of the parts that have a ramp."""
        return {prefix: part.ramp_at(step) for prefix, part in self._named() if hasattr(part, "ramp_at")}

    def _named(self):
        return [(f"{i}_{type(part).__module__.rsplit('.', 1)[-1]}", part) for i, part in enumerate(self.parts)]


def stored(reparam, base):
    """The weights of the model `base` that are stored beside the adapter: all, unless `reparam` replaces some."""
    return reparam.stored(base) if hasattr(reparam, "stored") else base


def build(section, *, key="reparam"):
    """Builds ``LoRA(rank=8, ...)`` from ``{"name": "lora", "rank": 8, ...}`` (a dict or ConfigDict).

    ``"compose"`` takes ``parts``, a tuple of sections. Errors name the config key of the section, `key`.
    """
    cls, given = registry.REPARAMS.resolve(section, key=key)
    if cls is Compose and "parts" in given:
        given["parts"] = tuple(build(part, key=f"{key}.parts[{i}]") for i, part in enumerate(given["parts"]))
    return cls(**given)
