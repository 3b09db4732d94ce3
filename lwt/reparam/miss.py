"""MiSS: one trained matrix, repeated down a weight."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.layers import linear
from lwt.reparam.parts import each, targets


@dataclasses.dataclass(frozen=True)
class MiSS(each.Each):
    """``W + e @ b`` with a trained `b` `[r out]`, whose row i mod r is added to row i of W (Kang and Yin 2024, arXiv
    2409.15371, section 3).

    `e` `[in r]` consists of identity matrices one below the other. `b` starts at zero: half of LoRA's weights, and
    nothing random.

    Attributes:
        rank: r, at most the inputs of a target.
        targets: which matrices to adapt, see `targets.matching`.
    """

    rank: int = 8
    targets: str | tuple[str, ...] = targets.ATTENTION

    def start(self, key, name, *, shape):
        """The leaf ``b``."""
        del key
        if self.rank > shape[0]:
            raise errors.ConfigError(
                f"reparam.rank is {self.rank} at {name!r} of shape {shape}; MiSS takes at most {shape[0]}"
            )
        return {"b": jnp.zeros((self.rank, shape[1]))}

    def weight(self, name, w, *, leaves):
        """A `linear.LowRank`."""
        del name
        rank, rows = len(leaves["b"]), np.arange(w.shape[0])
        e = (rows[:, None] % rank == np.arange(rank)[None]).astype(np.float32)
        return linear.LowRank(w, jnp.asarray(e), leaves["b"], jnp.float32(1))
