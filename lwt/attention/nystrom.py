"""Nyström attention: the weights among all positions are put together from those of a few landmarks."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lwt.attention.parts import base, core
from lwt.layers import conv, linear


class Attention(base.Base):
    """``softmax(Q K̃ᵀ) · pinv(softmax(Q̃ K̃ᵀ)) · softmax(Q̃ Kᵀ) V`` (Xiong et al. 2021, "Nyströmformer").

    The landmarks Q̃, K̃ are means over m segments of the real positions, nearly equal in length: position number i of
    n is in segment ⌊i m / n⌋ (in the paper m divides n). A row of m positions or fewer has each as a landmark; the
    answer is then softmax attention, as far as the pseudo-inverse has converged. Padding is in no segment.

    Dropout acts on the weights `[t m]` of the landmarks.

    Attributes:
        landmarks: m.
        iterations: steps of the pseudo-inverse; see `pseudo_inverse`.
        kernel_size: taps, an odd number, of a convolution of the values that is added to the output, with one kernel a
            head (33 in the authors' code); 0: none.
    """

    landmarks: int = 32
    iterations: int = 6
    kernel_size: int = 0

    crosses = False
    has_causal = False
    keeps_texts_apart = False

    def setup(self):
        super().setup()
        if self.kernel_size:
            bound = self.kernel_size**-0.5  # PyTorch's initial values, which the authors have
            uniform = lambda key, shape: jax.random.uniform(key, shape, jnp.float32, -bound, bound)  # noqa: E731
            self.conv_kernel = self.param("conv_kernel", uniform, (self.kernel_size, self.heads))

    def check(self):
        """Refuses fields that do not fit together."""
        super().check()
        for name in ("landmarks", "iterations"):
            if getattr(self, name) < 1:
                raise self.refuse(f"{name}={getattr(self, name)} should be at least 1")
        if self.kernel_size < 0 or self.kernel_size and self.kernel_size % 2 == 0:
            raise self.refuse(f"kernel_size={self.kernel_size} should be an odd number of taps, or 0 for none")

    def mix(self, q, cache, mask, *, dtype, key=None):
        """See `base.Base`."""
        k, v = cache["key"], cache["value"]
        b, _, s, _ = k.shape
        real = jnp.ones((b, s), bool) if mask is None else jnp.broadcast_to(mask.real(s), (b, s))
        members = segments(real, self.landmarks)
        used = members.any(-1)[:, None]
        q_means, k_means = (means(x, members, dtype) for x in (q, k))

        scores = jnp.where(used[:, :, None], q_means @ k_means.swapaxes(2, 3), core.BLOCKED)
        weights = jnp.where(used[..., None], jax.nn.softmax(scores), 0)
        summary = core.attend(q_means, k, v, real[:, None, None], dtype=dtype)
        summary = pseudo_inverse(weights, self.iterations) @ summary
        low = {"key": k_means, "value": summary}
        output = self.weigh(q, low, used[:, :, None], dtype=dtype, key=key)
        if self.kernel_size:
            output = output + self._convolve(jnp.where(real[:, None, :, None], v, 0))
        return output

    def _convolve(self, v):
        """Sums over the neighbourhoods of all positions, `[b h s k]`."""
        kernel = jnp.repeat(linear.dense(self.conv_kernel), self.head_size, axis=1)
        after = self.kernel_size // 2
        x = jnp.pad(base.join(v), ((0, 0), (0, after), (0, 0)))
        return base.split(conv.causal(x, kernel)[:, after:], self.heads)


def segments(real: Bool[Array, "b s"], count) -> Bool[Array, "b m s"]:
    """Which of the real positions belong to each of `count` segments: number i of n to ⌊i·count/n⌋.

    With n < count, some segments are empty.
    """
    total = jnp.maximum(real.sum(1, keepdims=True), 1)
    segment = (jnp.cumsum(real, axis=1) - 1) * count // total
    return (segment[:, None] == jnp.arange(count)[None, :, None]) & real[:, None]


def means(x: Float[Array, "b h s k"], members: Bool[Array, "b m s"], dtype) -> Float[Array, "b h m k"]:
    """The means over the members of each segment, zero for an empty one; `dtype` is that of the products' operands."""
    flat = base.join(x).astype(dtype)
    sums = jnp.matmul(members.astype(dtype), flat, preferred_element_type=jnp.float32)
    return base.split(sums / jnp.maximum(members.sum(-1), 1)[..., None], x.shape[1])


def pseudo_inverse(a: Float[Array, "b h m m"], iterations) -> Float[Array, "b h m m"]:
    """The Moore-Penrose inverse by the iteration of Razavi et al. 2014, as in Xiong et al., lemma 1.

    ``Z ← Z (13 I − AZ (15 I − AZ (7 I − AZ))) / 4`` from ``Z = Aᵀ / (‖A‖₁ ‖A‖∞)``, in float32. A singular value of AZ
    at a distance e from 1 is at (3e³ + e⁴)/4 after a step; a small one grows by 13/4. Rows of zeros stay so, as do
    columns. The norms are those of each matrix; the authors' default takes the largest of the batch.

    Args:
        a: weights: rows that sum to 1 or are zero, so that ``‖A‖∞`` is 1 (or, with no row, A is zero).
        iterations: 6 in the paper: directions whose singular value is less than √‖A‖₁/34 are then inverted in part.
    """
    identity = jnp.eye(a.shape[-1])[None, None]
    columns = a.sum(2).max(-1)[..., None, None]  # at least 1, but for A = 0
    z = a.swapaxes(2, 3) / jnp.maximum(columns, 1)
    for _ in range(iterations):
        az = a @ z
        z = z @ (13 * identity - az @ (15 * identity - az @ (7 * identity - az))) / 4
    return z
