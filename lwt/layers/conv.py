"""Depthwise causal convolution over positions."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors
from lwt.layers import blocks, linear


@jax.custom_vjp
def causal(x: Float[Array, "b t d"], kernel: Float[Array, "k d"]) -> Float[Array, "b t d"]:
    """``y[t] = Σ_i kernel[i] · x[t - (k-1) + i]``, per channel, with zeros before the first position.

    The current position's tap is the kernel's last (PyTorch's order). Written as k shifted products in one fused loop:
    on a CPU, XLA is slow at convolutions with as many groups as channels, and at their gradients. The gradient of x is
    the same loop, mirrored. That of the kernel would take k passes over x; one product per channel replaces them.
    """
    return _taps(x, kernel, before=kernel.shape[0] - 1)


@functools.partial(jax.jit, static_argnames="before")  # one compilation, also outside a compiled step
def _taps(x, kernel, *, before):
    """``Σ_i kernel[i] · padded[t + i]``, with `before` zeros before x and the rest of k - 1 after it."""
    k, t = kernel.shape[0], x.shape[1]
    padded = jnp.pad(x, ((0, 0), (before, k - 1 - before), (0, 0)))
    # the padding is written once: fused into the loop, it would cost a comparison per tap and element
    padded = jax.lax.optimization_barrier(padded)
    return sum(padded[:, i : i + t] * kernel[None, None, i] for i in range(k))


def _forward(x, kernel):
    return causal(x, kernel), (x, kernel)


def _backward(saved, dy):
    x, kernel = saved
    dx = blocks.once(_taps(dy, kernel[::-1], before=0))  # its readers would compute the k taps again
    return dx, _kernel_gradient(x, dy, k=kernel.shape[0])


@functools.partial(jax.jit, static_argnames="k")
def _kernel_gradient(x, dy, *, k):
    """``d[i] = Σ_t dy[t] · x[t - (k-1) + i]``, `[k d]`, by matrix products of pieces of m ≥ k positions.

    The product of a piece of dy with its own and the previous piece of x is `[m 2m]` per channel; d[i] is the sum of a
    diagonal. Diagonals become columns when rows of 2m are read as rows of 2m + 1.
    """
    b, t, d = x.shape
    m = max(k, 32)
    pieces = -(-t // m)
    fill = ((0, 0), (0, pieces * m - t), (0, 0))
    dy, x = (jnp.pad(a, fill).reshape(b, pieces, m, d) for a in (dy, x))
    before = jnp.pad(x, ((0, 0), (1, 0), (0, 0), (0, 0)))[:, :-1]
    products = jnp.einsum("bpmd,bpnd->dmn", dy, jnp.concatenate([before, x], axis=2))
    rows = jnp.pad(products.reshape(d, 2 * m * m), ((0, 0), (0, m))).reshape(d, m, 2 * m + 1)
    return rows.sum(1)[:, m - k + 1 : m + 1].T


causal.defvjp(_forward, _backward)


def uniform(key, shape):
    """Initial kernels `[k d]` as in PyTorch: U(-1/√k, 1/√k), since a channel has k inputs."""
    bound = shape[0] ** -0.5
    return jax.random.uniform(key, shape, jnp.float32, -bound, bound)


def _present(key, shape):
    return (uniform(key, shape) * 0.1).at[-1].set(1.0)


STARTS = {"uniform": uniform, "present": _present}


class DepthwiseConv(nn.Module):
    """Causal convolution with one kernel per channel: output t sees the inputs t-k+1..t.

    Always computed in float32: it is elementwise, and limited by memory speed, not by arithmetic.

    Attributes:
        kernel_size: k.
        expansion: α; every input channel becomes α neighbouring output channels (d -> d·α), as in PyTorch's
            ``Conv1d(d, d·α, k, groups=d)``.
        start: initial kernels. "uniform": PyTorch's, U(-1/√k, 1/√k). "present": 1 at the current position and a tenth
            of the uniform values before it, so that the output starts as the input with a trace of its past.
    """

    kernel_size: int
    expansion: int = 1
    use_bias: bool = True
    start: str = "uniform"

    @nn.compact
    def __call__(self, x: Float[Array, "b t d"]) -> Float[Array, "b t _e"]:
        if self.kernel_size < 1 or self.expansion < 1:
            raise errors.ConfigError(
                f"model.kernel_size={self.kernel_size} and the channel expansion {self.expansion} must be at least 1"
            )
        width = x.shape[-1] * self.expansion
        kernel = linear.dense(linear.weight(self, "kernel", init=STARTS[self.start], shape=(self.kernel_size, width)))
        if self.expansion > 1:
            x = jnp.repeat(x, self.expansion, axis=-1)
        y = causal(x.astype(jnp.float32), kernel)
        if self.use_bias:
            y = y + self.param("bias", nn.initializers.zeros_init(), (width,))[None, None]
        return blocks.once(y)  # an activation would compute the k taps again
