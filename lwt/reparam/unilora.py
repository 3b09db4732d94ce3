"""Uni-LoRA: all entries of all low-rank factors come from one short trained vector."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np

from lwt.layers import linear
from lwt.reparam.parts import seeded, targets


@dataclasses.dataclass(frozen=True)
class UniLoRA:
    """LoRA whose D entries are ``P @ θ`` with θ `[d]` and d far below D (Li et al. 2025, arXiv 2506.00799, section 3).

    Every row of P has one entry; a column with n of them has the values 1/√n, so that P is an isometry. P and the
    uniform start θ₀ follow from `seed`: a task is d numbers, in hundreds of bytes. Deviation: the product at θ₀ is
    subtracted, so that step 0 is the identity and every task starts from its base; `centred=False` leaves it in, as
    the paper and PEFT do.

    Attributes:
        length: d.
        rank: r of the factors `a` `[in r]` and `b` `[r out]`.
        bound: of the entries of θ₀.
        seed: of P and θ₀.
        centred: whether step 0 is the identity.
        targets: which matrices to adapt, see `targets.matching`.
    """

    length: int = 256
    rank: int = 4
    bound: float = 0.02
    seed: int = 0
    centred: bool = True
    targets: str | tuple[str, ...] = targets.ATTENTION

    def __post_init__(self):
        targets.check(self)

    @property
    def identity_at_start(self):
        return self.centred

    def init(self, key, base):
        """The leaf ``theta`` `[d]`."""
        del key
        targets.select(base, self.targets)
        return {"theta": jnp.asarray(self._start())}

    def expand(self, base, adapter, step, *, key=None):
        """The adapted weights: `base` with a `linear.LowRank` at every target."""
        del step, key
        weights = dict(base)
        for name, places in self.places({n: tuple(base[n].shape) for n in targets.select(base, self.targets)}).items():
            (a, b) = (adapter["theta"][index] * scale for index, scale in places)
            if self.centred:
                (a0, b0) = (self._start()[index] * scale for index, scale in places)
                a, b = jnp.concatenate([a, a0], axis=1), jnp.concatenate([b, -b0], axis=0)
            weights[name] = linear.LowRank(base[name], a, b, jnp.float32(1))
        return weights

    def labels(self, adapter):
        """``{"theta": "vector"}``."""
        return dict.fromkeys(adapter, "vector")

    def places(self, shapes):
        """``{name: ((index [in r], scale [in r]), (index [r out], scale [r out]))}`` for targets of these shapes."""
        return _places(self.seed, self.length, self.rank, tuple(shapes.items()))

    def _start(self):
        return seeded.generator(self.seed, "theta").uniform(-self.bound, self.bound, self.length).astype(np.float32)


@functools.lru_cache(maxsize=8)
def _places(seed, length, rank, shapes):
    sides = {}
    for name, (n_in, n_out) in shapes:
        sides |= {(name, "a"): (n_in, rank), (name, "b"): (rank, n_out)}
    total = sum(rows * columns for rows, columns in sides.values())
    index = seeded.generator(seed, "places").permutation(np.arange(total) % length)  # each as often as the others
    scale, begin, found = 1 / np.sqrt(np.bincount(index, minlength=length).clip(1)), 0, {}
    for key, shape in sides.items():
        own = index[begin : begin + shape[0] * shape[1]].reshape(shape)
        found[key], begin = (own, scale[own].astype(np.float32)), begin + own.size
    return {name: (found[name, "a"], found[name, "b"]) for name, _ in shapes}
