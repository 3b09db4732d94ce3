"""Weights stored as small numbers with a scale per block, and multiplied in that form."""

import math

import flax.struct
import jax
import jax.numpy as jnp

from lwt.layers import linear

FORMATS = {  # name -> (type of the stored values, the largest value)
    "int8": (jnp.int8, 127),
    "int4": (jnp.int8, 7),  # one per byte in memory, two per byte in a file
    "fp8": (jnp.float8_e4m3fn, 448),
}
UNROLLED = 8  # blocks multiplied one by one; a weight with more is dequantized before its product


@flax.struct.dataclass
class Quantized(linear.Node):
    """``w[i, o] = values[i, o] · scales[i // block, o]``, except for outliers, which stay in float16.

    Blocks run along one axis: the input axis of a kernel, so that a product is ``Σ_blocks scales · (x @ values)``.

    Attributes:
        values: the weight's shape; int8 (±127, or ±7) or float8_e4m3fn. They come first, for linen's shape check.
        scales: the weight's shape with `axis` shortened to the number of blocks; float16 or float32.
        outliers: `[m]` float16, or None; `values` is 0 in their places.
        positions: `[m]` int32, ascending, in the flattened weight; the weight's size marks an unused one.
        format: a key of `FORMATS`.
        block: entries that share a scale; the last block may be shorter.
        axis: the axis that blocks run along, 0 or -1.
        limit: scalar float32 at which inputs are clipped (calibrated ranges); None takes every row's own maximum. Only
            used with `integer_inputs`.
        integer_inputs: whether a product's inputs are rounded to int8 too, so that integers multiply integers; see
            `multiply_integers`. It requires one block, along axis 0, and no outliers.
    """

    values: jax.Array
    scales: jax.Array
    outliers: jax.Array | None = None
    positions: jax.Array | None = None
    limit: jax.Array | None = None
    format: str = flax.struct.field(pytree_node=False, default="int8")
    block: int = flax.struct.field(pytree_node=False, default=64)
    axis: int = flax.struct.field(pytree_node=False, default=0)
    integer_inputs: bool = flax.struct.field(pytree_node=False, default=False)

    compact = True

    @property
    def shape(self):
        return self.values.shape

    def matmul(self, x, dtype):
        if self.integer_inputs:
            return multiply_integers(x, self)
        starts = range(0, self.shape[0], self.block)
        if self.outliers is not None or self.axis != 0 or len(starts) > UNROLLED:
            return linear.matmul(x, self.dense(), dtype=dtype)
        y = 0
        for i, start in enumerate(starts):  # 2-D products; integers up to 127 are exact in bfloat16 too
            own = slice(start, start + self.block)
            y += linear.matmul(x[:, own], self.values[own], dtype=dtype) * self.scales[i].astype(jnp.float32)[None]
        return y

    def take(self, ids):
        if self.outliers is not None:
            return jnp.take(self.dense(), ids, axis=0, mode="clip")
        at = ids // self.block if self.axis == 0 else ids
        rows, scales = (jnp.take(part, i, axis=0, mode="clip") for part, i in ((self.values, ids), (self.scales, at)))
        if self.axis != 0:
            scales = _spread(scales, self.shape[1], self.block, -1)
        return rows.astype(jnp.float32) * scales.astype(jnp.float32)

    def dense(self):
        scales = _spread(self.scales, self.shape[self.axis], self.block, self.axis)
        w = self.values.astype(jnp.float32) * scales.astype(jnp.float32)
        return w if self.outliers is None else _put(w, self.positions, self.outliers)


@flax.struct.dataclass
class RoundedInputs(linear.Node):
    """An array whose products round their inputs like `multiply_integers`, with a straight-through gradient."""

    base: jax.Array

    @property
    def shape(self):
        return self.base.shape

    def matmul(self, x, dtype):
        units, step = to_integers(jax.lax.stop_gradient(x))
        return linear.matmul(x + jax.lax.stop_gradient(units * step - x), self.base, dtype=dtype)

    def take(self, ids):
        return linear.take(self.base, ids)

    def dense(self):
        return self.base


def to_integers(x, limit=None):
    """Rounds ``x [n in] ~ units · step``: int8 `units` within ±127, and `step` `[n 1]`, or `[1 1]` with a `limit`."""
    x = x.astype(jnp.float32)
    top = FORMATS["int8"][1]
    step = (jnp.abs(x).max(axis=1, keepdims=True) if limit is None else limit.reshape(1, 1)) / top
    step = jnp.where(step > 0, step, 1)
    return jnp.clip(jnp.round(x / step), -top, top).astype(jnp.int8), step


def dot_integers(x, w):
    """``x [n in] @ w [in out] -> [n out]``: int8 times int8, summed in int32."""
    return jax.lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)


@jax.custom_vjp
def multiply_integers(x, w):
    """``x [n in] @ w -> [n out]``: multiplies and sums rounded integers, then scales.

    ``y[n, o] = (Σ_i units[n, i] · values[i, o]) · step[n] · scales[o]``, the sum exact in int32 (up to 133,000 inputs).
    Rows are rounded by their own maxima at run time ("dynamic"), or to the weight's `limit` ("static"): Jacob et al.
    2018, arXiv 1712.05877, sections 2 and 3, who use a zero point and one scale for the whole weight. The gradient of x
    passes straight through the rounding of x and uses the rounded weight.

    Args:
        w: a `Quantized` of one block along axis 0, without outliers.
    """
    units, step = to_integers(x, w.limit)
    return dot_integers(units, w.values).astype(jnp.float32) * step * w.scales.astype(jnp.float32)


def _integers_fwd(x, w):
    return multiply_integers(x, w), (w, jnp.zeros((0,), x.dtype))


def _integers_bwd(saved, dy):
    w, like_x = saved
    return jnp.dot(dy, w.dense().T).astype(like_x.dtype), None


multiply_integers.defvjp(_integers_fwd, _integers_bwd)


def quantize(w, *, format="int8", block=64, axis=0, outliers=0.0, threshold=0.0, scale_dtype=jnp.float16):
    """Rounds a weight of any shape to a `Quantized`, symmetric about zero: ``scale = max |w| / largest`` per block.

    Scales are rounded up to `scale_dtype` before use, so nothing is clipped: with integers, every entry but outliers
    keeps ``|w - dense| <= scale / 2``. No gradient flows.

    Args:
        w: array of at least one axis.
        format: "int8", "int4", or "fp8" (e4m3: four bits of exponent, three of mantissa).
        block: entries per block; 0 is the whole axis: one scale per output of a kernel.
        axis: the axis that blocks run along, 0 or -1; with -1 and ``block=0`` there is one scale per row.
        outliers: at most this share of the entries, the largest, stays in float16 (EmbBERT-Q, section 3.1.3).
        threshold: only entries above it in magnitude count as outliers (6 in EmbBERT-Q).
        scale_dtype: type of the scales.
    """
    w = jax.lax.stop_gradient(jnp.asarray(w, jnp.float32))
    dtype, top = FORMATS[format]
    length = w.shape[axis]
    block = min(block, length) or length
    kept = positions = None
    if outliers:
        kept, positions = _largest(w, math.ceil(outliers * w.size), threshold)
        w = _put(w, positions, jnp.zeros_like(kept))
    scales = _round_up(_block_max(jnp.abs(w), block, axis) / top, scale_dtype)
    units = w / _spread(jnp.where(scales > 0, scales, 1).astype(jnp.float32), length, block, axis)
    units = jnp.clip(units if dtype != jnp.int8 else jnp.round(units), -top, top)
    return Quantized(units.astype(dtype), scales, kept, positions, format=format, block=block, axis=axis)


def straight_through(w, **options):
    """``quantize(w, **options).dense()`` with the gradient of the identity (Bengio et al. 2013, arXiv 1308.3432)."""
    return quantize(w, **options).dense() + (w - jax.lax.stop_gradient(w))


def _spread(scales, length, block, axis):
    """Repeats scales to one per entry along `axis` (a single one is left to broadcast)."""
    if scales.shape[axis] == 1:
        return scales
    return jax.lax.slice_in_dim(jnp.repeat(scales, block, axis=axis), 0, length, axis=axis)


def _block_max(w, block, axis):
    """The maximum of every block of non-negative values along `axis`."""
    axis %= w.ndim
    blocks = -(-w.shape[axis] // block)
    w = jnp.pad(w, [(0, blocks * block - n if i == axis else 0) for i, n in enumerate(w.shape)])
    return w.reshape(*w.shape[:axis], blocks, block, *w.shape[axis + 1 :]).max(axis=axis + 1)


def _round_up(x, dtype):
    """Rounds `x` up to a narrower type."""
    narrow = x.astype(dtype)
    return jnp.where(narrow.astype(x.dtype) < x, jnp.nextafter(narrow, jnp.asarray(jnp.inf, dtype)), narrow)


def _largest(w, count, threshold):
    """The `count` largest entries in float16 and their ascending positions; those up to `threshold` are unused."""
    flat = w.reshape(-1)
    sizes, positions = jax.lax.top_k(jnp.abs(flat), count)
    positions = jnp.sort(jnp.where(sizes > threshold, positions, flat.size))
    return flat.at[positions].get(mode="fill", fill_value=0).astype(jnp.float16), positions


def _put(w, positions, values):
    """Replaces the values of `w` at flat `positions`; ignores positions beyond its end."""
    return w.reshape(-1).at[positions].set(values.astype(w.dtype), mode="drop").reshape(w.shape)
