"""Linear attention: weights are products of features, so keys and values are summed before a query reads them."""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lwt.attention.parts import base, core, masks
from lwt.layers import products

# Float32 ends near e^88. A feature is at most e^(|w|²/2), for a key that is its direction; in practice it is far less.
LARGEST_EXPONENT = 60.0
SMALLEST_TOTAL = 1e-30  # a query whose weights sum to less (because it sees only padding, say) reads 0


class Attention(base.Base):
    """``φ(Q) (φ(K)ᵀ V) / φ(Q) Σ_s φ(k_s)``: cost and memory grow with n; the decode cache has constant size.

    With "elu", φ(x) = elu(x) + 1 (Katharopoulos et al. 2020, "Transformers are RNNs", equations 4 to 12), applied to q
    and k as projected: the factor 1/√k is left out, as in the paper.

    With "random", φ(x)_i = exp(w_i·x − |x|²/2) of q and k over k^¼, whose products have the mean exp(q·k/√k): softmax
    attention with an error that falls with the number of features (FAVOR+; Choromanski et al. 2021, "Rethinking
    attention with performers", lemma 1 and section 2.4). The directions w_i are orthogonal in groups of k. They are a
    constant that follows from the seed, the same for all heads and layers. A query's features are divided by their
    largest, which cancels. A key's are not, since the divisor would make a decoding step differ from the whole pass; so
    keys with |k|² above some 200·√k count for nothing.

    Rows of several texts, and calls with few queries or keys, use the array of all pairs ``φ(q_t)·φ(k_s)``: the same
    function at quadratic cost. Dropout drops a value for all queries of a head at once.

    Attributes:
        features: "elu" or "random".
        count: m, the number of random features; 0: k·⌈ln k⌉, at least k.
        seed: of the random directions.
        block: positions that the causal form handles at once.
    """

    features: str = "elu"
    count: int = 0
    seed: int = 0
    block: int = 64

    positive = (*base.Base.positive, "block")
    choices = {"features": ("elu", "random")}

    def check(self):
        super().check()
        if self.count and self.features == "elu":
            raise self.refuse(f"count={self.count} must be 0 with features='elu'")

    @property
    def feature_count(self):
        """The number m of features."""
        if self.features == "elu":
            return self.head_size
        return self.count or self.head_size * max(1, math.ceil(math.log(self.head_size)))

    def project(self, context: Float[Array, "b s d"]):
        """Features of the keys `[b h s m]` and values `[b h s k]`, as the cache of calls that all attend to it."""
        made = super().project(context)
        k = made["key"]
        return {**made, "key": nn.elu(k) + 1 if self.features == "elu" else jnp.exp(self._exponents(k))}

    def empty_cache(self, batch, length):
        """The sums `[b h m k]` and `[b h m]` over all keys seen; their size does not depend on the length."""
        sums = jnp.zeros((batch, self.heads, self.feature_count, self.head_size))
        return {"state": sums, "norm": sums[..., 0]}

    def extend(self, cache, new, *, index):
        added = new["key"].swapaxes(2, 3) * new["value"]
        return {"state": cache["state"] + added, "norm": cache["norm"] + new["key"][:, :, 0]}

    def recall(self, q, cache, *, index):
        """Reads the sums with a query `[b h 1 k]`: `[b h 1 k]`."""
        q = self._queries(q)
        return _divide(q @ cache["state"], (q * cache["norm"][:, :, None]).sum(-1))

    def mix(self, q, cache, *, mask, dtype, key=None):
        mask = masks.Mask() if mask is None else mask
        q, k, v = self._queries(q), cache["key"], core.drop_values(cache["value"], key, rate=self.dropout)
        (b, h, t, m), (s, width) = q.shape, v.shape[2:]
        k = jnp.where(mask.real(s)[:, None, :, None], k, 0.0)
        q, k, v = (x.reshape(b * h, *x.shape[2:]) for x in (q, k, v))
        if mask.query_segments is not None or (not mask.causal and t * s * (m + width) <= (t + s) * m * width):
            mixed = _by_pairs(q, k, v, mask.array(t, s), dtype)
        elif mask.causal:
            mixed = _causal(q, k, v, self.block, dtype)
        else:
            state = _dot("zsm,zsv->zmv", k, v, dtype)
            mixed = _divide(_dot("ztm,zmv->ztv", q, state, dtype), (q * k.sum(1)[:, None]).sum(-1))
        return mixed.reshape(b, h, t, width)

    def _queries(self, q):
        q = q * self.head_size**0.5
        if self.features == "elu":
            return nn.elu(q) + 1
        exponents = self._exponents(q)
        return jnp.exp(exponents - jax.lax.stop_gradient(exponents.max(-1, keepdims=True)))

    def _exponents(self, x):
        return exponents(x * self.head_size**-0.25, directions(self.feature_count, self.head_size, seed=self.seed))


@functools.lru_cache
def directions(count, width, *, seed) -> Float[np.ndarray, "m k"]:
    """Random directions, each distributed as a normal vector, orthogonal in groups of `width`."""
    rng = np.random.default_rng(seed)
    squares = rng.normal(size=(-(-count // width), width, width))
    rotations, triangles = np.linalg.qr(squares)
    rotations *= np.sign(np.diagonal(triangles, axis1=1, axis2=2))[:, None]  # uniform among all rotations
    lengths = np.linalg.norm(rng.normal(size=squares.shape), axis=-1)
    return (rotations * lengths[..., None]).reshape(-1, width)[:count].astype(np.float32)


def exponents(x: Float[Array, "... k"], directions: Float[np.ndarray, "m k"]) -> Float[Array, "... m"]:
    """``w_i·x − |x|²/2``, the features' logarithms; at most `LARGEST_EXPONENT`, so that sums over keys stay finite."""
    return jnp.minimum(x @ directions.T - (x * x).sum(-1, keepdims=True) / 2, LARGEST_EXPONENT)


def _by_pairs(q, k, v, allowed, dtype):
    """Attention through all pairs of features `[b·h t m]` and `[b·h s m]`; `allowed` is `[#b 1 #t s]`."""
    weights = _dot("ztm,zsm->zts", q, k, dtype)
    weights = jnp.where(allowed, weights.reshape(allowed.shape[0], -1, *weights.shape[1:]), 0.0).reshape(weights.shape)
    return _divide(_dot("zts,zsv->ztv", weights, v, dtype), weights.sum(-1))


def _causal(q, k, v, block, dtype):
    """Causal attention of features `[b·h t m]` and values `[b·h t k]`, through sums over the earlier positions.

    Within a block of positions, all pairs of features are formed. Earlier blocks enter through sums `[b·h m k]` and
    `[b·h m]` that are carried from block to block. The backward pass carries the same sums again, and their gradients
    from the end to the start, so that no block's sums are kept (Katharopoulos et al., section 3.3.1, has the formulas
    for blocks of one position).
    """
    t = q.shape[1]
    count = -(-t // block)

    def cut(x):  # [b·h t m] -> [count b·h block m]
        x = jnp.pad(x, ((0, 0), (0, count * block - t), (0, 0)))
        return x.reshape(len(x), count, block, -1).swapaxes(0, 1)

    mixed = _by_blocks(cut(q), cut(k), cut(v), jnp.dtype(dtype).name)
    return mixed.swapaxes(0, 1).reshape(len(q), count * block, -1)[:, :t]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _by_blocks(q, k, v, dtype):
    return _forward(q, k, v, dtype)[0]


def _forward(q, k, v, dtype):
    def one(sums, items):
        (state, norm), (q, k, v) = sums, items
        weights = jnp.tril(_dot("zim,zjm->zij", q, k, dtype))
        mixed = _dot("zij,zjv->ziv", weights, v, dtype) + _dot("zim,zmv->ziv", q, state, dtype)
        inverse = _inverse(weights.sum(-1) + (q * norm[:, None]).sum(-1))[..., None]
        return _added(sums, k, v, dtype), (mixed * inverse, inverse)

    _, (output, inverse) = jax.lax.scan(one, _zeros(k, v), (q, k, v))
    return output, (q, k, v, output, inverse)


def _backward(dtype, saved, d_output):
    q, k, v, output, inverse = saved
    d_mixed = d_output * inverse
    d_total = -(d_mixed * output).sum(-1, keepdims=True)
    items = q, k, v, d_mixed, d_total

    def pairs(v, d_mixed, d_total):
        return jnp.tril(_dot("ziv,zjv->zij", d_mixed, v, dtype) + d_total)

    def forth(sums, items):
        (state, norm), (_, k, v, d_mixed, d_total) = sums, items
        d_q = _dot("zij,zjm->zim", pairs(v, d_mixed, d_total), k, dtype)
        d_q += _dot("ziv,zmv->zim", d_mixed, state, dtype) + d_total * norm[:, None]
        return _added(sums, k, v, dtype), d_q

    def back(d_sums, items):
        (d_state, d_norm), (q, k, v, d_mixed, d_total) = d_sums, items
        weights = jnp.tril(_dot("zim,zjm->zij", q, k, dtype))
        d_k = _dot("zij,zim->zjm", pairs(v, d_mixed, d_total), q, dtype)
        d_k += _dot("zjv,zmv->zjm", v, d_state, dtype) + d_norm[:, None]
        d_v = _dot("zij,ziv->zjv", weights, d_mixed, dtype) + _dot("zjm,zmv->zjv", k, d_state, dtype)
        d_state += _dot("zim,ziv->zmv", q, d_mixed, dtype)
        return (d_state, d_norm + (q * d_total).sum(1)), (d_k, d_v)

    _, d_q = jax.lax.scan(forth, _zeros(k, v), items)
    _, (d_k, d_v) = jax.lax.scan(back, _zeros(k, v), items, reverse=True)
    return d_q, d_k, d_v


_by_blocks.defvjp(_forward, _backward)


def _zeros(k, v):
    sums = jnp.zeros((k.shape[1], k.shape[3], v.shape[3]))
    return sums, sums[..., 0]


def _added(sums, k, v, dtype):
    return sums[0] + _dot("zjm,zjv->zmv", k, v, dtype), sums[1] + k.sum(1)


def _dot(axes, x, y, dtype):
    return jnp.einsum(axes, products.operand(x, dtype), products.operand(y, dtype), preferred_element_type=jnp.float32)


def _inverse(total):
    enough = total > SMALLEST_TOTAL
    return jnp.where(enough, 1 / jnp.where(enough, total, 1.0), 0.0)


def _divide(mixed, total):
    """``mixed [.. t k] / total [.. t]``, both scaled first: the gradient has the square of the divisor."""
    scale = jax.lax.stop_gradient(_inverse(total))
    return mixed * scale[..., None] / jnp.where(scale > 0, total * scale, 1.0)[..., None]
