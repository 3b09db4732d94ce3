"""The selective state-space layer of MAMBA."""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import export
from jaxtyping import Array, Float

from lwt.layers import conv, linear


@jax.custom_vjp
def recurrence(decay: Float[Array, "b t *c"], update: Float[Array, "b t *c"]) -> Float[Array, "b t *c"]:
    """``h[t] = decay[t] · h[t-1] + update[t]`` with ``h[-1] = 0``, for all t at once: about 2·log2(t) parallel steps.

    Its gradient is a recurrence in the other direction, so no intermediate of the scan is stored.
    """
    return _scan(decay, update)


@functools.partial(jax.jit, static_argnames="reverse")
def _scan(decay, update, *, reverse=False):
    """Scans with the rule that step ``(a1, u1)`` and then ``(a2, u2)`` are one step ``(a1·a2, a2·u1 + u2)``."""

    def then(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    return jax.lax.associative_scan(then, (decay, update), axis=1, reverse=reverse)[1]


def _forward(decay, update):
    states = _scan(decay, update)
    return states, (decay, states)


def _backward(saved, d_states):
    decay, states = saved
    following = jnp.concatenate([decay[:, 1:], jnp.zeros_like(decay[:, :1])], axis=1)
    d_update = _scan(following, d_states, reverse=True)  # g[t] = d_states[t] + decay[t+1] · g[t+1]
    past = jnp.concatenate([jnp.zeros_like(states[:, :1]), states[:, :-1]], axis=1)
    return d_update * past, d_update


recurrence.defvjp(_forward, _backward)


def selective_scan(
    x: Float[Array, "b t i"],
    time: Float[Array, "b t i"],
    *,
    a: Float[Array, "n i"],
    b: Float[Array, "b t n"],
    c: Float[Array, "b t n"],
) -> Float[Array, "b t i"]:
    """``h[t] = exp(Δ[t] A) h[t-1] + Δ[t] B[t] x[t]``, ``y[t] = C[t] · h[t]``; each channel has n states.

    Runs position by position on a CPU and where an export leaves the length open; else over all positions at once.

    Args:
        x: the channels' inputs.
        time: Δ, positive step sizes.
        a: A, negative; states before channels, so that the long axis is the innermost.
        b, c: B and C, which write to and read from the states at each position.

    Source: Gu and Dao 2023, equation 2 and algorithm 2, with their simplified B̄ = Δ·B.
    """
    if export.is_symbolic_dim(x.shape[1]):
        return _in_sequence(x, time, a, b, c)
    return jax.lax.platform_dependent(x, time, a, b, c, cpu=_in_sequence, default=_in_parallel)


def _in_parallel(x, time, a, b, c):
    """`selective_scan` with all states `[b t n i]` at once, by an associative scan."""
    decay = jnp.exp(time[:, :, None] * a[None, None])
    states = recurrence(decay, b[..., None] * (time * x)[:, :, None])
    return (states * c[..., None]).sum(2)


def _in_sequence(x, time, a, b, c):
    """`selective_scan` as a loop over positions; the backward pass keeps the states `[t b n i]` and nothing else."""

    @jax.checkpoint
    def step(state, at):
        x, time, b, c = at
        state = jnp.exp(time[:, None] * a[None]) * state + b[..., None] * (time * x)[:, None]
        return state, (state * c[..., None]).sum(1)

    start = jnp.zeros((x.shape[0], *a.shape))
    rows = tuple(jnp.moveaxis(array, 1, 0) for array in (x, time, b, c))
    return jnp.moveaxis(jax.lax.scan(step, start, rows)[1], 0, 1)


class Scan(nn.Module):
    """`selective_scan` as a module, for which an export can have another form."""

    def __call__(self, x, time, a, b, c):
        return selective_scan(x, time, a=a, b=b, c=c)


class Mixer(nn.Module):
    """``out(SSM(SiLU(conv(u))) · SiLU(z))`` where ``u, z = in(x)`` (Gu and Dao 2023, figure 3).

    Causal: an output depends on its own and on earlier positions only.

    Attributes:
        inner: i, channels between the two projections.
        state: n (the paper's d_s), states per channel.
        kernel_size: k of the convolution.
        time_rank: rank of the projection to step sizes; 0 means ⌈d/16⌉.
    """

    inner: int
    state: int
    kernel_size: int = 4
    time_rank: int = 0
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        width, inner, state = x.shape[-1], self.inner, self.state
        rank = self.time_rank or math.ceil(width / 16)

        def plain(features, name):
            return linear.Linear(features, use_bias=False, dtype=self.dtype, name=name)

        u, z = jnp.split(plain(2 * inner, "in")(x), 2, axis=-1)
        u = nn.silu(conv.DepthwiseConv(self.kernel_size, name="conv")(u))
        time, b, c = jnp.split(plain(rank + 2 * state, "select")(u), [rank, rank + state], axis=-1)
        to_steps = linear.Linear(inner, use_bias=False, kernel_init=_uniform, dtype=self.dtype, name="time")
        time = nn.softplus(to_steps(time) + self.param("time_bias", _time_bias, (inner,))[None, None])
        a_log = self.param("a_log", _a_log, (state, inner))
        skip = self.param("skip", nn.initializers.ones_init(), (inner,))
        y = Scan(name="scan")(u, time, -jnp.exp(a_log), b, c) + skip[None, None] * u
        return plain(width, "out")(y * nn.silu(z))


def _uniform(key, shape, dtype=jnp.float32):
    """Draws a kernel `[rank i]` uniformly within ±rank^-0.5."""
    return jax.random.uniform(key, shape, dtype, -(shape[0] ** -0.5), shape[0] ** -0.5)


def _a_log(key, shape):
    """Sets log(1), log(2), ..., log(n) for every channel."""
    return jnp.broadcast_to(jnp.log(jnp.arange(1.0, shape[0] + 1))[:, None], shape)


def _time_bias(key, shape, *, low=1e-3, high=0.1):
    """Draws biases whose softplus, the initial step size, is log-uniform between `low` and `high`."""
    time = jnp.exp(jax.random.uniform(key, shape, jnp.float32, math.log(low), math.log(high)))
    return time + jnp.log(-jnp.expm1(-time))
