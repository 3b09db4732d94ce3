"""Nyström attention: the weights among all positions are assembled from those of a few landmarks."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lwt.attention.parts import base, core
from lwt.layers import conv, linear, products


class Attention(base.Base):
    """``softmax(Q K̃ᵀ) · pinv(softmax(Q̃ K̃ᵀ)) · softmax(Q̃ Kᵀ) V`` (Xiong et al. 2021, "Nyströmformer").

    The landmarks Q̃, K̃ are means over m segments of the real positions, of nearly equal length: position i of n is in
    segment ⌊i m / n⌋ (in the paper m divides n). In a row of at most m positions, each is a landmark; the result is
    then softmax attention, up to the convergence of the pseudo-inverse. Dropout acts on the weights of the landmarks.

    Attributes:
        landmarks: m.
        iterations: steps of the pseudo-inverse; see `pseudo_inverse`.
        kernel_size: taps (an odd number) of a convolution of the values that is added to the output, with one kernel
            per head (33 in the authors' code); 0: no convolution.
    """

    landmarks: int = 32
    iterations: int = 6
    kernel_size: int = 0

    crosses = False
    has_causal = False
    keeps_texts_apart = False
    positive = (*base.Base.positive, "landmarks", "iterations")

    def setup(self):
        super().setup()
        if self.kernel_size:
            shape = (self.kernel_size, self.heads)
            self.conv_kernel = linear.weight(self, "conv_kernel", init=conv.uniform, shape=shape)

    def check(self):
        super().check()
        if self.kernel_size and self.kernel_size % 2 == 0:
            raise self.refuse(f"kernel_size={self.kernel_size} must be odd, or 0 for no convolution")

    def mix(self, q, cache, *, mask, dtype, key=None):
        k, v = cache["key"], cache["value"]
        b, _, s, _ = k.shape
        real = jnp.ones((b, s), bool) if mask is None else jnp.broadcast_to(mask.real(s), (b, s))
        members = segments(real, self.landmarks)
        used = members.any(-1)[:, None]
        q_means, k_means = (means(x, members, dtype=dtype) for x in (q, k))

        scores = jnp.where(used[:, :, None], q_means @ k_means.swapaxes(2, 3), core.BLOCKED)
        weights = jnp.where(used[..., None], jax.nn.softmax(scores), 0.0)
        summary = core.attend(q_means, k, v=v, mask=real[:, None, None], dtype=dtype)
        summary = pseudo_inverse(weights, self.iterations) @ summary
        low = {"key": k_means, "value": summary}
        output = self.weigh(q, low, allowed=used[:, :, None], dtype=dtype, key=key)
        if self.kernel_size:
            output = output + self._convolve(jnp.where(real[:, None, :, None], v, 0.0))
        return output

    def _convolve(self, v):
        """The convolution of the values, centred on each position: `[b h s k]`."""
        kernel = jnp.repeat(linear.dense(self.conv_kernel), self.head_size, axis=1)
        after = self.kernel_size // 2
        x = jnp.pad(base.join(v), ((0, 0), (0, after), (0, 0)))
        return base.split(conv.causal(x, kernel)[:, after:], self.heads)


def segments(real: Bool[Array, "b s"], count) -> Bool[Array, "b m s"]:
    """Which real positions belong to each of `count` segments: position i of n is in segment ⌊i·count/n⌋."""
    number = jnp.cumsum(real, axis=1)
    segment = jax.lax.div((number - real) * count, jnp.broadcast_to(jnp.maximum(number[:, -1:], 1), number.shape))
    return (segment[:, None] == jnp.arange(count)[None, :, None]) & real[:, None]


def means(x: Float[Array, "b h s k"], members: Bool[Array, "b m s"], *, dtype) -> Float[Array, "b h m k"]:
    """The mean over the members of each segment, zero for an empty one; `dtype` is that of the product's operands."""
    flat = products.operand(base.join(x), dtype)
    sums = jnp.matmul(members.astype(flat.dtype), flat, preferred_element_type=jnp.float32)
    return base.split(sums / jnp.maximum(members.sum(-1), 1)[..., None], x.shape[1])


def pseudo_inverse(a: Float[Array, "b h m m"], iterations) -> Float[Array, "b h m m"]:
    """The Moore-Penrose inverse by the iteration of Razavi et al. 2014, as in Xiong et al., lemma 1.

    ``Z ← Z (13 I − AZ (15 I − AZ (7 I − AZ))) / 4`` from ``Z = Aᵀ / (‖A‖₁ ‖A‖∞)``, with ``‖A‖∞ = 1``, since rows sum to
    1 or are zero. The 6 iterations of the paper invert directions with a singular value below √‖A‖₁/34 only in part.
    The norms are those of each matrix; the authors' default takes the largest of the batch.
    """
    place = jnp.arange(a.shape[-1])
    identity = (place[:, None] == place).astype(a.dtype)[None, None]
    columns = a.sum(2).max(-1)[..., None, None]  # at least 1, unless A = 0
    z = a.swapaxes(2, 3) / jnp.maximum(columns, 1)
    for _ in range(iterations):
        az = a @ z
        z = z @ (13 * identity - az @ (15 * identity - az @ (7 * identity - az))) / 4
    return z
