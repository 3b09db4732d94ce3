"""The linear map ``linear(x, w)``, the only place in lwt where an activation meets a weight.

A weight is an array `[in, out]`, or a small pytree node with its own product. Models never ask which kind they hold;
``dense(w)`` turns any of them into an array. A new kind of weight is a subclass of `Node`: the low-rank ones are here,
the integer ones in `layers/quantized_weight.py`.
"""

import functools

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp

from lwt import errors
from lwt.layers import blocks, dropout, products


def matmul(x, w, *, dtype):
    """``x [n in] @ w [in out] -> [n out]``: operands in `dtype`, sums and result in float32.

    With bfloat16 the backward products take bfloat16 operands too: cotangents are rounded like activations. (Plain
    autodiff would run them in float32, at half the speed.)
    """
    return _matmul(x, w, dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _matmul(x, w, dtype):
    return jnp.dot(products.rounded(x, dtype), products.rounded(w, dtype), preferred_element_type=jnp.float32)


def _matmul_fwd(x, w, dtype):
    """Saves only what the requested gradients need: a frozen weight costs neither its own gradient nor a saved `x`."""
    saved_x = products.rounded(x.value, dtype) if w.perturbed else None
    saved_w = products.rounded(w.value, dtype) if x.perturbed else None
    like_x, like_w = (jnp.zeros((0,), operand.value.dtype) for operand in (x, w))
    return _matmul(x.value, w.value, dtype), (saved_x, saved_w, like_x, like_w)


def _matmul_bwd(dtype, saved, dy):
    x, w, like_x, like_w = saved
    if isinstance(dy, jax.custom_derivatives.SymbolicZero):
        return None, None
    dy = products.rounded(dy, dtype)
    dx = dw = None
    if w is not None:
        dx = jax.lax.dot_general(dy, w, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        dx = dx.astype(like_x.dtype)
    if x is not None:
        dw = products.product_over_rows(x, dy).astype(like_w.dtype)
    return dx, dw


_matmul.defvjp(_matmul_fwd, _matmul_bwd, symbolic_zeros=True)


class Node:
    """A structured weight: a pytree with ``shape`` and three methods, which return float32.

    They are ``matmul(x [n in], dtype) -> [n out]``, ``take(ids [...]) -> [... d]`` and ``dense()``. Modules get it from
    `weight`; a node whose first leaf has its shape also passes linen's own check.
    """

    @property
    def compact(self):
        """Whether this node or its base stores the weight in less space than an array, as integers or factors."""
        return is_node(getattr(self, "base", None)) and self.base.compact


@flax.struct.dataclass
class LowRank(Node):
    """``W + scale · a @ b``, multiplied as ``x@W + scale · (x@a)@b``: no `[in out]` gradient is formed for a frozen W.

    Attributes:
        base: `[in out]`, an array or another node. It comes first, so that linen's shape check sees the kernel's shape.
        a: `[in r]`.
        b: `[r out]`.
        scale: scalar array (α/r, α/√r, ...; SingLoRA's depends on the step).
        key: a random key for dropout on the input of `a`, or None (evaluation).
        rate: the dropout rate, rounded as in `layers/dropout`.
    """

    base: jax.Array
    a: jax.Array
    b: jax.Array
    scale: jax.Array
    key: jax.Array | None = None
    rate: float = flax.struct.field(pytree_node=False, default=0.0)

    @property
    def shape(self):
        return self.base.shape

    def matmul(self, x, dtype):
        low = x
        kept = dropout.kept_of_256(self.rate)
        if self.key is not None and kept < 256:
            low = jnp.where(dropout.keep_mask(self.key, self.rate, shape=x.shape), x * (256 / kept), 0)
        low = _matmul(_matmul(low, self.a, dtype), self.scale * self.b, dtype)
        return _multiply(x, self.base, dtype) + low

    def take(self, ids):
        return take(self.base, ids) + take(self.a, ids) @ (self.scale * self.b)

    def dense(self):
        a, b = self.a.astype(jnp.float32), self.b.astype(jnp.float32)
        return dense(self.base) + jnp.dot(a, self.scale * b, precision="highest")


@flax.struct.dataclass
class Factors(Node):
    """The weight ``a [in r] @ b [r out]``, multiplied as ``(x@a)@b``; both are arrays or other nodes."""

    a: jax.Array
    b: jax.Array

    compact = True

    @property
    def shape(self):
        return (self.a.shape[0], self.b.shape[1])

    def matmul(self, x, dtype):
        return _multiply(_multiply(x, self.a, dtype), self.b, dtype)

    def take(self, ids):
        return linear(take(self.a, ids), self.b)

    def dense(self):
        return jnp.dot(dense(self.a), dense(self.b), precision="highest")


@flax.struct.dataclass
class ColumnScaled(Node):
    """``W · m``: every output column of `base` `[in out]` times its own factor in `scale` `[out]` (DoRA, IA3)."""

    base: jax.Array
    scale: jax.Array

    @property
    def shape(self):
        return self.base.shape

    def matmul(self, x, dtype):
        return _multiply(x, self.base, dtype) * self.scale[None]

    def take(self, ids):
        rows = take(self.base, ids)
        return rows * jnp.expand_dims(self.scale, range(rows.ndim - 1))

    def dense(self):
        return dense(self.base) * self.scale[None]


@flax.struct.dataclass
class RowScaled(Node):
    """``m · W``: every input row of `base` `[in out]` times its own factor in `scale` `[in]` (IA3)."""

    base: jax.Array
    scale: jax.Array

    @property
    def shape(self):
        return self.base.shape

    def matmul(self, x, dtype):
        return _multiply(x * self.scale[None], self.base, dtype)

    def take(self, ids):
        return take(self.base, ids) * self.scale[ids][..., None]

    def dense(self):
        return dense(self.base) * self.scale[:, None]


@flax.struct.dataclass
class Behind(Node):
    """The layer ``y = x @ base + bias``, followed by ``y + gelu(y @ down + down_bias) @ up + up_bias``.

    Attributes:
        base, bias: `[in out]`, an array or another node, and `[out]`.
        down, down_bias, up, up_bias: `[out r]`, `[r]`, `[r out]` and `[out]`.
    """

    base: jax.Array
    bias: jax.Array
    down: jax.Array
    down_bias: jax.Array
    up: jax.Array
    up_bias: jax.Array

    compact = True  # so that it is kept where other nodes become arrays

    @property
    def shape(self):
        return self.base.shape

    def matmul(self, x, dtype):
        return self._adapted(_multiply(x, self.base, dtype), dtype)

    def take(self, ids):
        rows = take(self.base, ids)
        return self._adapted(rows.reshape(-1, rows.shape[-1]), jnp.float32).reshape(rows.shape)

    def dense(self):
        raise errors.ConfigError(
            "a nonlinear adapter layer (houlsby) is not an array: it cannot be merged, or stacked with other methods"
        )

    def _adapted(self, y, dtype):
        y = add_bias(y, self.bias)
        hidden = jax.nn.gelu(linear(y, self.down, bias=self.down_bias, dtype=dtype), approximate=False)
        return y + linear(hidden, self.up, bias=self.up_bias, dtype=dtype)


def is_node(w):
    """Whether `w` is a structured weight; serves as ``is_leaf`` in `jax.tree.map`."""
    return isinstance(w, Node)


def _multiply(x, w, dtype):
    return w.matmul(x, dtype) if is_node(w) else _matmul(x, w, dtype)


def linear(x, w, *, bias=None, dtype=jnp.float32):
    """``x [... in] @ w [in out] + bias [out] -> [... out]`` in float32; `dtype` is that of the product's operands."""
    y = _multiply(x.reshape(-1, x.shape[-1]), w, dtype)  # XLA's CPU backend is fastest at 2-D products and column sums
    y = y if bias is None else add_bias(y, bias)
    return blocks.output(y.reshape(*x.shape[:-1], -1))


def column_sums(x):
    """The sum `[out]` of the rows of `x [n out]`, as a product: XLA's CPU backend is slow at fused sums."""
    return jnp.dot(jnp.ones((1, len(x)), x.dtype), x, precision="highest")[0]


@jax.custom_vjp
def add_bias(y, bias):
    """``y [n out] + bias [out]``; the bias's gradient is a product."""
    return y + bias[None]


def _add_bias_bwd(like_bias, dy):
    return dy, column_sums(dy).astype(like_bias.dtype)


add_bias.defvjp(lambda y, bias: (add_bias(y, bias), jnp.zeros((0,), bias.dtype)), _add_bias_bwd)


def take(w, ids):
    """Rows `ids [...]` of an embedding table `w [v d]`, as `[... d]`."""
    return w.take(ids) if is_node(w) else jnp.take(w, ids, axis=0, mode="clip")


def dense(w):
    """Turns any weight into one float32-accumulated array; for a tree use `merge`."""
    return w.dense() if is_node(w) else w


def merge(weights):
    """Turns every structured node in a tree of weights into an array, for export and inspection."""
    return jax.tree.map(dense, weights, is_leaf=is_node)


def merge_floats(weights):
    """Like `merge`, but keeps compact nodes (quantized or factorised, and what builds on them), for evaluation."""
    return jax.tree.map(lambda w: w if is_node(w) and w.compact else dense(w), weights, is_leaf=is_node)


def weight(module, name, *, init, shape):
    """The parameter `name` of a linen module, an array or a node of that shape, like ``module.param``.

    Linen compares the expected shape with the first leaf of the stored value; here a node's own `shape` counts.
    """
    if module.has_variable("params", name):
        value = module.get_variable("params", name)
        if is_node(value) and tuple(value.shape) == tuple(shape):
            return value
    return module.param(name, init, shape)


class Linear(nn.Module):
    """``x @ kernel [in out] + bias``; the kernel starts Xavier uniform, as in PyTorch and Vaswani et al."""

    features: int
    use_bias: bool = True
    kernel_init: nn.initializers.Initializer = nn.initializers.xavier_uniform()
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x):
        kernel = weight(self, "kernel", init=self.kernel_init, shape=(x.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,)) if self.use_bias else None
        return linear(x, kernel, bias=bias, dtype=self.dtype)
