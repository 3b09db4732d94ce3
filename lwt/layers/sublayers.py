"""Attentions and feed-forward networks with fewer heads or hidden units than the model's others.

Structured pruning (`lwt/compress/structured.py`) makes such models.
"""

import collections.abc
import dataclasses
import functools
import numbers

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors
from lwt.layers import mlp


@dataclasses.dataclass(frozen=True)
class Sublayer:
    """One attention, or one feed-forward network, of a model.

    Attributes:
        maker: makes the module, from ``width`` and ``heads``, or from ``hidden``.
        full: heads (or hidden units) before pruning.
        remaining: heads or units after pruning; None if it is not pruned.
        is_attention: whether it has heads rather than hidden units.
    """

    maker: collections.abc.Callable
    width: int
    full: int
    remaining: int | None
    is_attention: bool

    @property
    def size(self):
        """The current number of heads or hidden units."""
        return self.full if self.remaining is None else self.remaining

    @property
    def prunable(self):
        """Whether the module can have fewer heads or units of the same width."""
        cls = getattr(self.maker, "func", self.maker)
        return not self.is_attention or (getattr(cls, "heads_removable", False) and not self._given("kv_heads"))

    def make(self, **given):
        """Makes the module with the arguments `given` to all modules of the model."""
        if self.remaining == 0:
            last = "out" if self.is_attention else "fc2"
            return functools.partial(Removed, last, use_bias=self._given("use_bias", True))
        if not self.is_attention:
            return functools.partial(self.maker, hidden=self.size, **given)
        if self.remaining is not None:
            given["head_width"] = self._given("head_width") or self.width // self.full
        return functools.partial(self.maker, width=self.width, heads=self.size, **given)

    def _given(self, name, default=0):
        return getattr(self.maker, "keywords", {}).get(name, default)


def of(model, attentions, *, networks):
    """The sublayers of a model with the fields ``width``, ``heads``, ``hidden`` and ``sizes``: ``{name: Sublayer}``.

    Args:
        attentions: ``{name: maker}`` of its attentions, such as ``encoder/layer_0/self_attention``.
        networks: names of its feed-forward networks, such as ``encoder/layer_0/mlp``.

    Raises:
        lwt.errors.ConfigError: ``model.sizes`` names an unknown module or an attention whose heads cannot be removed,
            or gives a size above the full one.
    """
    sizes, full = model.sizes or {}, dict.fromkeys(attentions, model.heads) | dict.fromkeys(networks, model.hidden)
    for name, size in sizes.items():
        if name not in full:
            raise errors.ConfigError(f"model.sizes: there is no module {name!r}; {errors.suggest(name, full)}")
        integral = isinstance(size, numbers.Integral) and not isinstance(size, bool)
        if not integral or not 0 <= size <= full[name]:
            raise errors.ConfigError(f"model.sizes: {name} is {size!r}; it must be from 0 to {full[name]}")
    made = {
        name: Sublayer(attentions.get(name, mlp.MLP), model.width, count, sizes.get(name), name in attentions)
        for name, count in full.items()
    }
    for name in sizes:
        if not made[name].prunable:
            raise errors.ConfigError(
                f"model.sizes: {name} is not a softmax attention with equally many key and query heads; only those can "
                "lose heads"
            )
    return made


class Removed(nn.Module):
    """A sublayer without heads or hidden units: it returns the bias of its last product for every x.

    It replaces an attention, with empty caches, or a feed-forward network. `last` names the product's parameters.
    """

    last: str
    use_bias: bool = True

    crosses = True  # no annotation: a property of attentions, not a field

    def project(self, context):
        """The empty cache of an attention to a context."""
        del context
        return {}

    def empty_cache(self, batch, length):
        """The empty cache for decoding."""
        del batch, length
        return {}

    @nn.compact
    def __call__(self, x: Float[Array, "b t d"], context=None, mask=None, *, train=False, cache=None, index=None):
        """Returns `[b t d]`; with an index, ``(output, cache)``, like an attention."""
        del context, mask, train
        y = jnp.zeros_like(x)
        if self.use_bias:
            y = y + Bias(x.shape[-1], name=self.last)()[None, None]
        return y if index is None else (y, cache)


class Bias(nn.Module):
    """A vector `[d]`, named like the bias of a `linear.Linear`."""

    width: int

    @nn.compact
    def __call__(self) -> Float[Array, "d"]:  # noqa: F821
        return self.param("bias", nn.initializers.zeros_init(), (self.width,))
