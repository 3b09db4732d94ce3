"""VeRA: all targets share two random matrices, and each trains two vectors that scale them."""

import dataclasses
import functools
import math

import jax.numpy as jnp
import numpy as np

from lwt import errors, trees
from lwt.layers import linear
from lwt.reparam.parts import seeded, targets


@dataclasses.dataclass(frozen=True)
class VeRA:
    """``W + (a · d) @ (b · s)`` with trained `d` `[r]` and `s` `[out]` (Kopiczko et al. 2023, arXiv 2310.11454,
    equation 2, where s is called b).

    The first rows of `a` `[in r]` and the first columns of `b` `[r out]` of the widest target serve all others. Both
    are Kaiming-uniform and follow from `seed`: no file holds them, and tasks of one base with one seed share them.

    Attributes:
        rank: r; it costs r numbers a target, so it is large.
        start_of_d: the initial value of all entries of d; s starts at zero.
        seed: of the random matrices.
        targets: which matrices to adapt, see `targets.matching`.
    """

    rank: int = 256
    start_of_d: float = 0.1
    seed: int = 0
    targets: str | tuple[str, ...] = targets.ATTENTION

    identity_at_start = True

    def __post_init__(self):
        targets.check(self)
        if not self.start_of_d:
            raise errors.ConfigError("reparam.start_of_d is 0; with it, neither d nor s has a gradient")

    def init(self, key, base):
        """The leaves ``NAME/lambda_d`` `[r]` and ``NAME/lambda_b`` `[out]`, which the paper calls d and b."""
        del key
        adapter = {}
        for name in targets.select(base, self.targets):
            adapter[f"{name}/lambda_d"] = jnp.full(self.rank, self.start_of_d)
            adapter[f"{name}/lambda_b"] = jnp.zeros(base[name].shape[1])
        return adapter

    def expand(self, base, adapter, step, *, key=None):
        """The adapted weights: `base` with a `linear.LowRank` at every target."""
        del step, key
        names = targets.select(base, self.targets)
        a, b = self.basis(*(max(base[name].shape[axis] for name in names) for axis in (0, 1)))
        weights = dict(base)
        for name in names:
            own, (n_in, n_out) = trees.subtree(adapter, name), base[name].shape
            factors = a[:n_in] * own["lambda_d"][None], b[:, :n_out] * own["lambda_b"][None]
            weights[name] = linear.LowRank(base[name], *factors, jnp.float32(1))
        return weights

    def labels(self, adapter):
        """``{leaf: "vector"}``."""
        return {leaf: targets.label(leaf) for leaf in adapter}

    def basis(self, n_in, n_out):
        """The shared `a` `[in r]` and `b` `[r out]`, NumPy arrays."""
        return _basis(self.seed, self.rank, n_in, n_out)


@functools.lru_cache(maxsize=8)
def _basis(seed, rank, n_in, n_out):
    found = []
    for name, shape, fan_in in (("a", (n_in, rank), n_in), ("b", (rank, n_out), rank)):
        bound = math.sqrt(6 / fan_in)  # PyTorch's Kaiming-uniform for ReLU, as in PEFT
        found.append(seeded.generator(seed, name, *shape).uniform(-bound, bound, shape).astype(np.float32))
    return found
