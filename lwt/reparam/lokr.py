"""LoKr: an update that is the Kronecker product of two small matrices."""

import dataclasses

import jax
import jax.numpy as jnp

from lwt import errors
from lwt.layers import linear
from lwt.reparam.parts import each, targets


@dataclasses.dataclass(frozen=True)
class LoKr(each.Each):
    """``W + (α/r) · w1 ⊗ (a @ b)`` (Yeh et al. 2023, arXiv 2309.14859, section 3.3.2; Edalati et al. 2022, arXiv
    2212.10650).

    With in = i·j and out = k·l, `w1` is `[i k]`, `a` `[j r]` and `b` `[r l]`. Unless the rank is below max(j, l) / 2,
    one matrix `w2` `[j l]` takes the place of a @ b. `w1` starts at zero, as in PEFT.

    Attributes:
        rank: r.
        alpha: α, above 0.
        factor: i and k if they divide in and out; else, or with -1, the factors of in and out nearest to their square
            roots (and at most `factor`).
        targets: which matrices to adapt, see `targets.matching`.
    """

    rank: int = 8
    alpha: float = 8.0
    factor: int = -1
    targets: str | tuple[str, ...] = targets.ATTENTION

    def __post_init__(self):
        super().__post_init__()
        if self.factor == 0:
            raise errors.ConfigError("reparam.factor is 0; it has to be a whole number of 1 or more, or -1")

    def start(self, key, name, *, shape):
        """The leaves ``w1``, and ``a`` and ``b`` or ``w2``."""
        del name
        (i, j), (k, n_l) = (factors(size, self.factor) for size in shape)
        leaves, (key_a, key_b) = {"w1": jnp.zeros((i, k))}, jax.random.split(key)
        if self.rank < max(j, n_l) / 2:
            leaves["a"] = targets.kaiming_uniform(key_a, (j, self.rank), fan_in=j)
            leaves["b"] = targets.kaiming_uniform(key_b, (self.rank, n_l), fan_in=self.rank)
        else:
            leaves["w2"] = targets.kaiming_uniform(key_a, (j, n_l), fan_in=j)
        return leaves

    def weight(self, name, w, *, leaves):
        """An array."""
        del name
        w2 = leaves["w2"] if "w2" in leaves else jnp.dot(leaves["a"], leaves["b"], precision="highest")
        return linear.dense(w) + self.alpha / self.rank * jnp.kron(leaves["w1"], w2)


def factors(size, factor=-1):
    """``(i, size / i)``, the smaller one first unless `factor` divides `size`; see `LoKr`."""
    if factor > 0 and size % factor == 0:
        return factor, size // factor
    divisors = [i for i in range(1, size + 1) if size % i == 0 and i * i <= size]
    best = max(i for i in divisors if factor == -1 or i <= factor)
    return best, size // best
