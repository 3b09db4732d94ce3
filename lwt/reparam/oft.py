"""OFT: trained rotations of the inputs of a weight."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.layers import linear
from lwt.reparam.parts import each, targets


@dataclasses.dataclass(frozen=True)
class OFT(each.Each):
    """``R @ W`` with a block-diagonal rotation R `[in in]` (Qiu et al. 2023, arXiv 2306.07280, section 3.3).

    A block is ``(I - Q)(I + Q)^-1`` (Cayley) of a skew-symmetric Q, which starts at zero. Angles between the columns of
    W, and their lengths, do not change.

    Attributes:
        block_size: inputs that a block rotates, at least 2; if it does not divide them, the nearest number that does.
        neumann: 0 for the exact inverse; else 2 or more terms of the series ``I + 2Q + 2Q² + ...`` of
            ``(I + Q)(I - Q)^-1``, as in PEFT (5 by default there): cheaper, and nearly a rotation while Q is small.
        targets: which matrices to adapt, see `targets.matching`.
    """

    block_size: int = 32
    neumann: int = 0
    targets: str | tuple[str, ...] = targets.ATTENTION

    def __post_init__(self):
        super().__post_init__()
        if self.block_size < 2:
            raise errors.ConfigError(f"reparam.block_size is {self.block_size}; a rotation needs at least 2 inputs")
        if self.neumann == 1:
            raise errors.ConfigError("reparam.neumann is 1; it has to be 0, or at least 2 terms")

    def start(self, key, name, *, shape):
        """The leaf ``rotation`` `[in/n, n(n-1)/2]`, the part of every Q above its diagonal, row by row."""
        del key, name
        n = nearest_divisor(shape[0], self.block_size)
        return {"rotation": jnp.zeros((shape[0] // n, n * (n - 1) // 2))}

    def weight(self, name, w, *, leaves):
        """An array."""
        del name
        blocks = len(leaves["rotation"])
        n = w.shape[0] // blocks
        q = jnp.zeros((blocks, n, n)).at[:, *np.triu_indices(n, 1)].set(leaves["rotation"])
        rotations = self._cayley(q - q.swapaxes(1, 2))
        rotated = jnp.einsum("bij,bjo->bio", rotations, linear.dense(w).reshape(blocks, n, -1), precision="highest")
        return rotated.reshape(w.shape)

    def _cayley(self, q):
        """The rotations `[b n n]` of skew-symmetric `q`."""
        eye = jnp.broadcast_to(jnp.eye(q.shape[-1]), q.shape)
        if not self.neumann:
            return jnp.linalg.solve((eye + q).swapaxes(1, 2), (eye - q).swapaxes(1, 2)).swapaxes(1, 2)
        total, power = eye, eye
        count = max(self.neumann, 4) if self.neumann > 2 else 2  # PEFT's third term brings the fourth along
        for term in range(1, count):  # 1 + 2q + 2q² + ... + q^n
            power = jnp.einsum("bij,bjk->bik", power, q, precision="highest")
            last = term == count - 1 and term > 2
            total = total + (power if last else 2 * power)
        return total


def nearest_divisor(size, wanted):
    """The divisor of `size` nearest to `wanted`, the smaller one of two; not 1, of which no rotation is left."""
    divisors = [i for i in range(2, size + 1) if size % i == 0] or [1]
    return min(divisors, key=lambda i: (abs(i - wanted), i))
