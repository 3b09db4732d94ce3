"""Measures whether the approximation of `polynomial.py` holds on a batch.

The figure is the relative error of softmax's weights, ``‖P̃ − P‖ / ‖P‖`` (Frobenius), over some queries: the errors of
dQ, dK and dV are close to it. The largest logit B bounds it: the Taylor remainder is at most a share
``ε = B^(g+1)/(g+1)! · e^B`` of any ``exp(q·k)``, so normalised weights are off by at most ``2ε/(1−ε)``.
"""

import dataclasses
import inspect
import logging
import math

import jax.numpy as jnp
import numpy as np

from lwt import trees
from lwt.attention import approximate
from lwt.attention import linear as linear_attention
from lwt.attention.parts import base, masks, polynomial
from lwt.layers import listen

LOG = logging.getLogger(__name__)
TOLERANCE = 0.05  # largest relative error of the weights at which the approximation counts as valid
AT_ONCE = 256  # queries whose logits are held at once


@dataclasses.dataclass(frozen=True)
class LayerCheck:
    """The logits and the approximation error of one attention.

    Attributes:
        layer: name of its weights, such as "block_0/self_attention".
        largest: largest absolute logit.
        error: relative error of the weights, over the sampled queries.
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

    def __str__(self):
        text = (
            f"{self.layer}: the largest logit is {self.largest:.2f}; at degree {self.degree} the attention weights are "
            f"off by {100 * self.error:.2g} %"
        )
        if self.holds:
            return f"{text}, within {100 * self.tolerance:g} %"
        return (
            f"{text}, more than {100 * self.tolerance:g} %: the approximate gradient is not valid. Logits up to "
            f"{threshold(self.degree, self.tolerance):.2f} are safe; set the attention's norm or raise its degree"
        )


def remainder(largest, degree):
    """An upper bound on the relative error of a weight, given the largest absolute logit; may be infinite."""
    one = largest ** (degree + 1) / math.factorial(degree + 1) * math.exp(largest) if largest < 100 else math.inf
    return 2 * one / (1 - one) if one < 1 else math.inf


def threshold(degree, tolerance=TOLERANCE):
    """The largest absolute logit whose `remainder` is within the tolerance."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if remainder(middle, degree) <= tolerance else (low, middle)
    return low


def check(q, k, *, degree, mask=None, real=None, tolerance=TOLERANCE, sample=64, layer="attention"):
    """Measures the logits of queries and keys, and how well the polynomial approximates softmax: a `LayerCheck`.

    Args:
        q: queries `[b h t k]`, scaled.
        k: keys `[b h s k]`.
        degree: of the polynomial.
        mask: a `masks.Mask`, or None.
        real: bool `[b t]`, the queries that count; None: all.
        tolerance: the largest error allowed.
        sample: number of queries per row, evenly spaced, that the error is measured on. The largest logit is taken over
            all queries.
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
        seen = np.asarray(mask.array(logits.shape[2], s, start=start)) & real[:, None, part, None]
        seen = np.broadcast_to(seen, logits.shape)
        largest = max(largest, np.abs(logits, where=seen, out=np.zeros_like(logits)).max())
        some = chosen[(chosen >= start) & (chosen < start + AT_ONCE)] - start
        p, approximated = _weights(logits[:, :, some], seen[:, :, some], degree)
        wrong, whole = wrong + np.square(approximated - p).sum(), whole + np.square(p).sum()
    return LayerCheck(layer, degree, float(largest), math.sqrt(wrong / whole) if whole else 0.0, tolerance)


def _weights(logits, seen, degree):
    """The weights of softmax and of the polynomial; zeros for a query that sees nothing."""
    top = np.max(logits, axis=-1, keepdims=True, where=seen, initial=-1e30)
    exact = np.exp(np.where(seen, logits - top, -np.inf))
    rough = np.where(seen, polynomial.truncated_exp(logits, degree), 0)
    totals = [x.sum(-1, keepdims=True) for x in (exact, rough)]
    return [np.divide(x, z, where=z > 0, out=np.zeros_like(x)) for x, z in zip((exact, rough), totals)]


def check_model(model, weights, *, batch, **settings):
    """`check_call` of a linen module applied to a batch, with a flat dict of weights."""
    return check_call(lambda: model.apply({"params": trees.unflatten(weights)}, batch), **settings)


def check_call(function, *, degree=2, tolerance=TOLERANCE, sample=64, warn=True):
    """Checks every attention that a call uses: `LayerCheck`s in the order of first use.

    An attention that is used twice is listed once, with its larger error. Queries that are padding do not count, except
    in a cross-attention whose rows hold one text each: its mask does not tell which queries are padding.

    Args:
        function: applies a linen module outside of jit; takes no arguments.
        degree: degree assumed for attentions without one, to learn whether they could be approximated; None skips them.
        tolerance, sample: see `check`.
        warn: whether layers beyond the tolerance are logged as warnings.
    """
    found, crossing = {}, []

    def attend(layer, module, call, args, kwargs):
        del layer
        given = inspect.signature(base.Base.__call__).bind(module, *args, **kwargs).arguments
        crossing.append(given.get("context") is not None or given.get("cache") is not None)
        output = call(*args, **kwargs)
        crossing.pop()
        return output

    def mix(layer, module, call, args, kwargs):
        if isinstance(module, linear_attention.Attention):  # it has features in place of logits
            return call(*args, **kwargs)
        logits = _logit_factors(module, *args, mask=kwargs["mask"], degree=degree, crossing=crossing[-1])
        one = check(**logits, tolerance=tolerance, sample=sample, layer=layer)
        found[layer] = max(found.get(layer, one), one, key=lambda one: one.error)
        return call(*args, **kwargs)

    checked = approximate.Attention if degree is None else base.Base
    with listen.intercept(attend, classes=base.Base), listen.intercept(mix, classes=checked, method="mix"):
        function()
    for one in found.values():
        if warn and not one.holds:
            LOG.warning("%s", one)
    return list(found.values())


def _logit_factors(module, q, cache, *, mask, degree, crossing):
    """The arguments of `check` for a call of ``module.mix``."""
    keys, queries = cache["key"], None
    if isinstance(module, approximate.Attention):
        degree, s = module.degree, keys.shape[2]
        q, keys = module.logit_factors(q, keys, real=jnp.ones((1, s), bool) if mask is None else mask.real(s))
    if mask is not None:
        queries = mask.query_segments if crossing or mask.query_segments is not None else mask.key_segments
    return {
        "q": q,
        "k": jnp.repeat(keys, q.shape[1] // keys.shape[1], axis=1),
        "degree": degree,
        "mask": mask,
        "real": None if queries is None else np.asarray(queries) > 0,
    }
