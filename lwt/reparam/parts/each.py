"""The base of methods that change every target on its own, from leaves of its own."""

import abc

import jax

from lwt import trees
from lwt.reparam.parts import targets


class Each(abc.ABC):
    """A method is a frozen dataclass with ``targets``, the `start` of a target's leaves, and its `weight`."""

    identity_at_start = True
    targets: str | tuple[str, ...]

    def __post_init__(self):
        targets.check(self)

    def init(self, key, base):
        """The leaves ``NAME/...`` of every target NAME of the whole model `base`."""
        adapter = {}
        for i, name in enumerate(targets.select(base, self.targets)):
            own = self.start(jax.random.fold_in(key, i), name, shape=tuple(base[name].shape))
            adapter |= trees.with_prefix(own, name)
        return adapter

    def expand(self, base, adapter, step, *, key=None):
        """The adapted weights: `base` with the `weight` of every target in its place."""
        del step, key
        weights = dict(base)
        for name in targets.select(base, self.targets):
            weights[name] = self.weight(name, base[name], leaves=trees.subtree(adapter, name))
        return weights

    def labels(self, adapter):
        """``{leaf: label}``; the optimizer trains all leaves that are not "constant"."""
        return {leaf: targets.label(leaf) for leaf in adapter}

    @abc.abstractmethod
    def start(self, key, name, *, shape):
        """The leaves of the target `name` of this shape at step 0, without ``NAME/``."""

    @abc.abstractmethod
    def weight(self, name, w, *, leaves):
        """The adapted weight, an array or a node, from the value `w` of the target `name` and its leaves."""
