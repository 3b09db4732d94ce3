"""C3A: an update of circulant blocks, each made of one vector."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.layers import linear
from lwt.reparam.parts import each, targets


@dataclasses.dataclass(frozen=True)
class C3A(each.Each):
    """``W + C / in`` with blocks ``C[j, t] = c[(j - t) mod n]`` (Chen et al. 2024, arXiv 2407.19342, section 3).

    A block of n² entries has n trained numbers, and usually the rank n. The vectors start at zero.

    Attributes:
        block_size: n, which must divide the inputs and the outputs of every target; 0: the largest such number.
        targets: which matrices to adapt, see `targets.matching`.
    """

    block_size: int = 0
    targets: str | tuple[str, ...] = targets.ATTENTION

    def start(self, key, name, *, shape):
        """The leaf ``circulant`` `[in/n out/n n]`."""
        del key
        n = self.block_size or math.gcd(*shape)
        if any(size % n for size in shape):
            raise errors.ConfigError(
                f"reparam.block_size is {n} at {name!r} of shape {shape}; it has to divide {math.gcd(*shape)}, or be 0"
            )
        return {"circulant": jnp.zeros((shape[0] // n, shape[1] // n, n))}

    def weight(self, name, w, *, leaves):
        """An array."""
        del name
        n = np.arange(leaves["circulant"].shape[-1])
        blocks = leaves["circulant"][:, :, (n[:, None] - n[None]) % len(n)]  # [in/n out/n n n]
        return linear.dense(w) + blocks.swapaxes(1, 2).reshape(w.shape) / w.shape[0]
