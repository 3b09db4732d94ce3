"""Attentions and feed-forward networks with fewer heads or hidden units than a model's others: what is left of them
after structured pruning (`lwt/compress/structured.py`)."""

import collections.abc
import dataclasses
import functools
import numbers

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors


@dataclasses.dataclass(frozen=True)
class Part:
    """One attention, or one feed-forward network, of a model.

    Attributes:
        maker: makes the module, from ``width`` and ``heads``, or from ``hidden``.
        width: d.
        whole: heads (or hidden units) of a module of full size.
        left: those that it has now; None: all, and it is made as if there were no sizes.
        is_attention: whether it has heads, or hidden units.
    """

    maker: collections.abc.Callable
    width: int
    whole: int
    left: int | None
    is_attention: bool

    @property
    def size(self):
        """Heads or hidden units that it has."""
        return self.whole if self.left is None else self.left

    @property
    def group(self):
        """Rows of its last kernel that belong to one of them: the head width, or 1."""
        return (self._given("head_width") or self.width // self.whole) if self.is_attention else 1

    @property
    def can_lose(self):
        """Whether it can be made with fewer of them, of the same width."""
        kind = getattr(self.maker, "func", self.maker)
        return not self.is_attention or (getattr(kind, "heads_removable", False) and not self._given("kv_heads"))

    def make(self, **given):
        """Makes the module, with the arguments that all modules of the model are given."""
        if self.left == 0:
            last = "out" if self.is_attention else "fc2"
            return functools.partial(Removed, last, use_bias=self._given("use_bias", True))
        if not self.is_attention:
            return functools.partial(self.maker, hidden=self.size, **given)
        narrowed = {} if self.left is None else {"head_width": self.group}
        return functools.partial(self.maker, width=self.width, heads=self.size, **narrowed, **given)

    def _given(self, name, default=0):
        return getattr(self.maker, "keywords", {}).get(name, default)


def parts(model, attentions, networks):
    """The parts of a model with the fields ``width``, ``heads``, ``hidden`` and ``sizes``: ``{module: Part}``.

    Args:
        attentions: ``{module: maker}`` of its attentions, such as ``encoder/layer_0/self_attention``.
        networks: ``{module: maker}`` of its feed-forward networks, such as ``encoder/layer_0/mlp``.

    Raises:
        lwt.errors.ConfigError: ``model.sizes`` names no such module, or says more than it has, or names an attention
            whose heads cannot be taken out.
    """
    sizes = model.sizes or {}
    found = {name: Part(maker, model.width, model.heads, sizes.get(name), True) for name, maker in attentions.items()}
    for name, maker in networks.items():
        found[name] = Part(maker, model.width, model.hidden, sizes.get(name), False)
    for name, size in sizes.items():
        if name not in found:
            raise errors.ConfigError(f"model.sizes: there is no module {name!r}; {errors.suggest(name, found)}")
        if not isinstance(size, numbers.Integral) or not 0 <= size <= found[name].whole:
            raise errors.ConfigError(f"model.sizes: {name} is {size!r}; it should be from 0 to {found[name].whole}")
        if not found[name].can_lose:
            raise errors.ConfigError(
                f"model.sizes: {name} is no softmax attention with as many heads of keys as of queries, whose heads "
                "can be taken out one by one"
            )
    return found


class Removed(nn.Module):
    """A sublayer that lost all its heads or hidden units: it gives the bias that its last product had, for every x.

    It stands for an attention, with nothing in its caches, or for a feed-forward network.

    Attributes:
        last: name of the last product's parameters.
        use_bias: whether it had a bias; without one the sublayer gives 0.
    """

    last: str
    use_bias: bool = True

    crosses = True  # no annotation: it is no field, but what an attention says of itself

    def project(self, context):
        """The cache of an attention to a context: nothing."""
        del context
        return {}

    def empty_cache(self, batch, length):
        """The cache of a decoding: nothing."""
        del batch, length
        return {}

    @nn.compact
    def __call__(self, x: Float[Array, "b t d"], context=None, mask=None, *, train=False, cache=None, index=None):
        """`[b t d]`; with an index, ``(output, cache)``, as of an attention."""
        del context, mask, train
        y = jnp.zeros_like(x)
        if self.use_bias:
            y = y + Bias(x.shape[-1], name=self.last)()[None, None]
        return y if index is None else (y, cache)


class Bias(nn.Module):
    """A vector `[d]`, named as the bias of a `linear.Linear`."""

    width: int

    @nn.compact
    def __call__(self) -> Float[Array, "d"]:  # noqa: F821
        return self.param("bias", nn.initializers.zeros_init(), (self.width,))
