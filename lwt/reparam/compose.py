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
            if i + 1 < len(self.parts):
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

    def watches(self, base, adapter):
        """What the parts look at; see `watches`. Each part has the weights that the previous ones return."""
        found = {}
        for i, (prefix, part) in enumerate(self._named()):
            own = trees.subtree(adapter, prefix)
            found |= watches(part, base, adapter=own)
            if i + 1 < len(self.parts):
                base = part.expand(base, own, 0)
        return found

    def look(self, adapter, base, *, seen):
        """The leaves of all parts at step 0; each part starts from the dense weights that the previous ones return."""
        leaves = {}
        for i, (prefix, part) in enumerate(self._named()):
            own = look(part, trees.subtree(adapter, prefix), base=base, seen=seen)
            leaves |= trees.with_prefix(own, prefix)
            if i + 1 < len(self.parts):
                base = {name: linear.dense(w) for name, w in part.expand(base, own, 0).items()}
        return leaves

    def penalty(self, adapter):
        """The sum of the parts' penalties; see `penalty`."""
        own = [penalty(part, trees.subtree(adapter, prefix)) for prefix, part in self._named()]
        own = [term for term in own if term is not None]
        return sum(own) if own else None

    def memory(self, adapter):
        """What the parts carry from step to step; see `memory`."""
        found = {}
        for prefix, part in self._named():
            found |= trees.with_prefix(memory(part, trees.subtree(adapter, prefix)), prefix)
        return found

    def advance(self, adapter, carried, *, gradients, step, key):
        """The leaves and the memory of all parts after a step; see `advance`."""
        leaves, kept = {}, {}
        for i, (prefix, part) in enumerate(self._named()):
            own = [trees.subtree(tree, prefix) for tree in (adapter, carried, gradients)]
            more = {"carried": own[1], "gradients": own[2], "step": step, "key": jax.random.fold_in(key, i)}
            for tree, new in zip((leaves, kept), advance(part, own[0], **more), strict=True):
                tree |= trees.with_prefix(new, prefix)
        return leaves, kept

    def ramp_at(self, step):
        """``{prefix: u(step)}`` of the parts that have a ramp."""
        return {prefix: part.ramp_at(step) for prefix, part in self._named() if hasattr(part, "ramp_at")}

    def _named(self):
        return [(f"{i}_{type(part).__module__.rsplit('.', 1)[-1]}", part) for i, part in enumerate(self.parts)]


def stored(reparam, base):
    """The weights of the model `base` that are stored beside the adapter: all, unless `reparam` replaces some."""
    return reparam.stored(base) if hasattr(reparam, "stored") else base


def watches(reparam, base, *, adapter):
    """``{(kind, name): batches}``: what `look` has to know of which weights, from how many batches; mostly nothing.

    A kind is "gradients" or "inputs", see `lwt/training/methods.py`.
    """
    return reparam.watches(base, adapter) if hasattr(reparam, "watches") else {}


def look(reparam, adapter, *, base, seen):
    """The leaves at step 0 with initial values from data, ``{(kind, name): array}`` of all that `watches` names."""
    return reparam.look(adapter, base, seen=seen) if watches(reparam, base, adapter=adapter) else adapter


def penalty(reparam, adapter):
    """The scalar that training adds to its mean loss, a function of the leaves; None for most methods."""
    return reparam.penalty(adapter) if hasattr(reparam, "penalty") else None


def advances(reparam):
    """Whether a step of training changes the leaves of `reparam` besides the optimizer; see `advance`."""
    return any(map(advances, reparam.parts)) if isinstance(reparam, Compose) else hasattr(reparam, "advance")


def memory(reparam, adapter):
    """The arrays that `advance` carries from step to step, a flat dict, as they are at step 0."""
    return reparam.memory(adapter) if hasattr(reparam, "memory") else {}


def advance(reparam, adapter, *, carried, gradients, step, key):
    """``(adapter, memory)`` after optimizer step `step`, a pure function; most methods leave it to the optimizer.

    Args:
        adapter: the trained leaves, as the optimizer left them.
        carried: the `memory`, as the last step left it.
        gradients: of the step, by leaf.
        step: number of the step, counted from 1; may be traced.
        key: randomness of the step.
    """
    if not hasattr(reparam, "advance"):
        return adapter, carried
    return reparam.advance(adapter, carried, gradients=gradients, step=step, key=key)


def build(section, *, key="reparam"):
    """Builds ``LoRA(rank=8, ...)`` from ``{"name": "lora", "rank": 8, ...}`` (a dict or ConfigDict).

    ``"compose"`` takes ``parts``, a tuple of sections. Errors name the config key of the section, `key`.
    """
    cls, given = registry.REPARAMS.resolve(section, key=key)
    if cls is Compose and "parts" in given:
        given["parts"] = tuple(build(part, key=f"{key}.parts[{i}]") for i, part in enumerate(given["parts"]))
    return cls(**given)
