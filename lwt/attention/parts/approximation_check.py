"""Whether a batch is where `polynomial.py`'s approximation holds, and weights that bring it there.

The relative error of softmax's weights, ``‖P̃ − P‖ / ‖P‖`` (Frobenius), is nearly that of dQ, dK and dV, so it is
what is measured, of some queries. Beside it stands what the largest logit B alone guarantees: the Taylor remainder is
at most a share ``ε = B^(g+1)/(g+1)! · e^B`` of any ``exp(q·k)``, which leaves normalised weights off by at most
``2ε/(1−ε)``.
"""

import dataclasses
import inspect
import logging
import math

import flax.linen as nn
import jax.numpy as jnp
import numpy as np

from lwt import errors, trees
from lwt.attention import approximate
from lwt.attention.parts import base, masks, polynomial

LOG = logging.getLogger(__name__)
TOLERANCE = 0.05  # relative error of the weights, up to which the approximation is said to hold
AT_ONCE = 256  # queries whose logits are held at once


@dataclasses.dataclass(frozen=True)
class Regime:
    """What was found of one attention.

    Attributes:
        layer: name of its weights, such as "block_0/self_attention".
        degree: of the polynomial.
        largest: of the logits' absolute values.
        error: relative error of the weights of the queries looked at.
        tolerance: for that error.
    """

    layer: str
    degree: int
    largest: float
    error: float
    tolerance: float = TOLERANCE

    @property
    def holds(self):
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance

    @property
    def remainder(self):
        """What the largest logit guarantees of the relative error; infinite if nothing."""
        return remainder(self.largest, self.degree)

    @property
    def threshold(self):
        """The largest logit that guarantees the tolerance."""
        return threshold(self.degree, self.tolerance)

    def __str__(self):
        where = f"{self.layer}: the largest logit is {self.largest:.2f}, and at degree {self.degree}"
        found = f"{where} the attention weights are off by {100 * self.error:.2g} %"
        if self.holds:
            return f"{found}, within {100 * self.tolerance:g} %"
        return (
            f"{found}, more than {100 * self.tolerance:g} %: the approximate gradient does not hold. Logits up to "
            f"{self.threshold:.2f} are safe; a norm, regime.rescale or a higher degree help"
        )


def remainder(largest, degree):
    """An upper bound on the relative error of a weight, given the largest absolute logit; may be infinite."""
    one = largest ** (degree + 1) / math.factorial(degree + 1) * math.exp(largest) if largest < 100 else math.inf
    return 2 * one / (1 - one) if one < 1 else math.inf


def threshold(degree, tolerance=TOLERANCE):
    """The largest absolute logit whose `remainder` is no more than the tolerance."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if remainder(middle, degree) <= tolerance else (low, middle)
    return low


def regime(q, k, degree, mask=None, *, real=None, tolerance=TOLERANCE, sample=64, layer="attention"):
    """What is to be said of queries and keys: a `Regime`.

    Args:
        q: queries `[b h t k]`, scaled; k: keys `[b h s k]`.
        degree: of the polynomial.
        mask: a `masks.Mask`, or None.
        real: bool `[b t]`, which queries count; None for all.
        sample: how many queries of each row are looked at for the error, evenly spaced. The largest logit is that of
            all.
        layer: its name.
    """
    q, k = (np.asarray(x, float) for x in (q, k))
    (b, _, t, _), s = q.shape, k.shape[2]
    mask = masks.Mask() if mask is None else mask
    real = np.ones((b, t), bool) if real is None else np.asarray(real)
    chosen = np.unique(np.linspace(0, t - 1, min(t, sample)).round().astype(int))
    largest = wrong = whole = 0.0
    for start in range(0, t, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        logits = q[:, :, part] @ k.swapaxes(2, 3)
        seen = np.asarray(mask.array(logits.shape[2], s, start)) & real[:, None, part, None]
        seen = np.broadcast_to(seen, logits.shape)
        largest = max(largest, np.abs(logits, where=seen, out=np.zeros_like(logits)).max())
        some = chosen[(chosen >= start) & (chosen < start + AT_ONCE)] - start
        p, approximated = _weights(logits[:, :, some], seen[:, :, some], degree)
        wrong, whole = wrong + np.square(approximated - p).sum(), whole + np.square(p).sum()
    return Regime(layer, degree, float(largest), math.sqrt(wrong / whole) if whole else 0.0, tolerance)


def _weights(logits, seen, degree):
    """Softmax's weights and the polynomial's; none for a query that sees nothing."""
    top = np.max(logits, axis=-1, keepdims=True, where=seen, initial=-1e30)
    exact = np.exp(np.where(seen, logits - top, -np.inf))
    rough = np.where(seen, polynomial.truncated_exp(logits, degree), 0)
    totals = [x.sum(-1, keepdims=True) for x in (exact, rough)]
    return [np.divide(x, z, where=z > 0, out=np.zeros_like(x)) for x, z in zip((exact, rough), totals)]


def of_model(model, weights, batch, **settings):
    """`of_call` of ``model.apply``.

    Args:
        model: a linen module; it is called as ``model.apply({"params": ...}, batch)``.
        weights: flat dict, such as ``lwt.load(workdir).weights``.
        batch: what the model takes.
        settings: of `of_call`.
    """
    return of_call(lambda: model.apply({"params": trees.unflatten(weights)}, batch), **settings)


def of_call(function, *, degree=2, tolerance=TOLERANCE, sample=64, warn=True):
    """A `Regime` of every attention that a call uses, in the order of their first use; of one used again, the worst.

    Queries that are padding do not count, but for those of a cross-attention whose rows hold one text each: its mask
    does not tell them.

    Args:
        function: applies a linen module, outside of jit; it takes nothing.
        degree: for attentions that have none of their own, to learn whether they could be approximated; None: they are
            passed over.
        tolerance, sample: see `regime`.
        warn: whether the layers outside are logged as warnings.
    """
    found, crossing = {}, []

    def listen(call, args, kwargs, context):
        module, layer = context.module, "/".join(context.module.path)
        if isinstance(module, base.Base) and context.method_name == "__call__":
            given = inspect.signature(base.Base.__call__).bind(module, *args, **kwargs).arguments
            crossing.append(given.get("context") is not None or given.get("cache") is not None)
            output = call(*args, **kwargs)
            crossing.pop()
            return output
        wanted = isinstance(module, approximate.Attention) or (isinstance(module, base.Base) and degree is not None)
        if wanted and context.method_name == "mix":
            q, cache, mask = args
            one = _of_module(module, q, cache, mask, degree, crossing[-1], tolerance, sample, layer)
            found[layer] = max(found.get(layer, one), one, key=lambda regime: regime.error)
        return call(*args, **kwargs)

    with nn.intercept_methods(listen):
        function()
    for one in found.values():
        if warn and not one.holds:
            LOG.warning("%s", one)
    return list(found.values())


def _of_module(module, q, cache, mask, degree, crossing, tolerance, sample, layer):
    keys = cache["key"]
    if isinstance(module, approximate.Attention):
        degree, s = module.degree, keys.shape[2]
        q, keys = module.logit_factors(q, keys, jnp.ones((1, s), bool) if mask is None else mask.real(s))
    keys = jnp.repeat(keys, q.shape[1] // keys.shape[1], axis=1)
    real = None if mask is None else mask.queries if crossing or mask.queries is not None else mask.keys
    real = None if real is None else np.asarray(real) > 0
    return regime(q, keys, degree, mask, real=real, tolerance=tolerance, sample=sample, layer=layer)


def rescale(model, weights, batch, bound):
    """``(weights, factors)``: query and key weights made smaller, so that no logit on the batch is larger than `bound`.

    From the first layer on, logits that reach further are multiplied by ``bound / largest``: the weights and biases of
    query and key by its root, the query's by all of it where there is no key. This is a higher temperature: these
    layers attend more evenly, and what follows gets other inputs. The model is another one, to be trained further.

    Args:
        model, batch: see `of_model`.
        weights: flat dict of arrays; not changed.
        bound: on the logits' absolute values, above 0.

    Returns:
        A new flat dict, and ``{layer: what its logits were multiplied by}``, of the layers that were changed.

    Raises:
        lwt.errors.ConfigError: the bound is not above 0; a layer's logits do not follow its weights.
    """
    if not bound > 0:
        raise errors.ConfigError(f"bound={bound} should be more than 0")
    factors = {}
    while True:
        found = of_model(model, weights, batch, sample=1, warn=False)
        first = next((one for one in found if one.largest > bound * (1 + 1e-5)), None)
        if first is None:
            return weights, factors
        if first.layer in factors:
            raise errors.ConfigError(f"{first.layer}: its logits do not follow its weights; does it normalise them?")
        factors[first.layer] = bound / first.largest
        weights = scaled(weights, first.layer, factors[first.layer])


def scaled(weights, layer, factor):
    """The flat dict `weights`, with query and key weights that multiply the logits of a layer by `factor`."""
    sides = [side for side in ("query", "key") if f"{layer}/{side}/kernel" in weights]
    leaves = {f"{layer}/{side}/{leaf}" for side in sides for leaf in ("kernel", "bias")}
    root = factor ** (1 / len(sides))
    return {name: leaf * root if name in leaves else leaf for name, leaf in weights.items()}
