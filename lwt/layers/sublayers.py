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


@dataclasses.dataclass(frozen=True)
class Part:
    """One attention, or one feed-forward network, of a model.

    Attributes:
        maker: makes the module, from ``width`` and ``heads``, or from ``hidden``.
        width: d.
        whole: heads (or hidden units) at full size.
        left: remaining heads or units; None keeps all, as if the model had no `sizes`.
        is_attention: whether it has heads rather than hidden units.
    """

    maker: collections.abc.Callable
    width: int
    whole: int
    left: int | None
    is_attention: bool

    @property
    def size(self):
        """The current number of heads or hidden units."""
        return self.whole if self.left is None else self.left

    @property
    def group(self):
        """Rows of the last kernel per head or unit: the head width, or 1."""
        return (self._given("head_width") or self.width // self.whole) if self.is_attention else 1

    @property
    def can_lose(self):
        """Whether the module can have fewer heads or units of the same width."""
        kind = getattr(self.maker, "func", self.maker)
        return not self.is_attention or (getattr(kind, "heads_removable", False) and not self._given("kv_heads"))

    def make(self, **given):
        """Makes the module with the arguments `given` to all modules of the model."""
        if self.left == 0:
            last = "out" if self.is_attention else "fc2"
            return functools.partial(Removed, last, use_bias=self._given("use_bias", True))
        if not self.is_attention:
            return functools.partial(self.maker, hidden=self.size, **given)
        narrowed = {} if self.left is None else {"head_width": self.group}
        return functools.partial(self.maker, width=self.width, heads=self.size, **narrowed, **given)

    def _given(self, name, default=0):
        return getattr(self.maker, "keywords", {}).get(name, default)


def parts(model, attentions, *, networks):
    """The parts of a model with the fields ``width``, ``heads``, ``hidden`` and ``sizes``: ``{module: Part}``.

    Args:
        attentions: ``{module: maker}`` of its attentions, such as ``encoder/layer_0/self_attention``.
        networks: ``{module: maker}`` of its feed-forward networks, such as ``encoder/layer_0/mlp``.

    Raises:
        lwt.errors.ConfigError: ``model.sizes`` names an unknown module or an attention whose heads cannot be removed,
            or gives a size above the full one.
    """
    sizes = model.sizes or {}
    made = {name: Part(maker, model.width, model.heads, sizes.get(name), True) for name, maker in attentions.items()}
    for name, maker in networks.items():
        made[name] = Part(maker, model.width, model.hidden, sizes.get(name), False)
    for name, size in sizes.items():
        if name not in made:
            raise errors.ConfigError(f"model.sizes: there is no module {name!r}; {errors.suggest(name, made)}")
        if not isinstance(size, numbers.Integral) or not 0 <= size <= made[name].whole:
            raise errors.ConfigError(f"model.sizes: {name} is {size!r}; it should be from 0 to {made[name].whole}")
        if not made[name].can_lose:
            raise errors.ConfigError(
                f"model.sizes: {name} is not a softmax attention with equally many key and query heads; only those can "
                "lose heads"
            )
    return made


class Removed(nn.Module):
    """A sublayer without heads or hidden units: it returns the bias of its last product for every x.

    It replaces an attention, with empty caches, or a feed-forward network.

    Attributes:
        last: name of the last product's parameters.
        use_bias: whether the sublayer had a bias; without one it returns 0.
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
