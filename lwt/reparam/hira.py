"""HiRA: a low-rank product multiplies a weight, so that the update has a high rank."""

import dataclasses

import jax
import jax.numpy as jnp

from lwt.layers import linear
from lwt.reparam.parts import each, targets


@dataclasses.dataclass(frozen=True)
class HiRA(each.Each):
    """``W ⊙ (1 + a @ b)`` with `a` `[in r]` and `b` `[r out]` (Huang et al. 2025, ICLR, "HiRA: Parameter-Efficient
    Hadamard High-Rank Adaptation", equation 3).

    The update ``W ⊙ (a @ b)`` has a rank of up to r times that of W. A weight of zero stays zero. The starts are those
    of LoRA.

    Attributes:
        rank: r.
        targets: which matrices to adapt, see `targets.matching`.
    """

    rank: int = 32
    targets: str | tuple[str, ...] = targets.ATTENTION

    def start(self, key, name, *, shape):
        """The leaves ``a`` and ``b``."""
        n_in, n_out = shape
        if targets.is_embedding(name):
            return {"a": jnp.zeros((n_in, self.rank)), "b": jax.random.normal(key, (self.rank, n_out))}
        a = targets.kaiming_uniform(key, (n_in, self.rank), fan_in=n_in)
        return {"a": a, "b": jnp.zeros((self.rank, n_out))}

    def weight(self, name, w, *, leaves):
        """An array."""
        del name
        w = linear.dense(w)
        return w + w * jnp.dot(leaves["a"], leaves["b"], precision="highest")
