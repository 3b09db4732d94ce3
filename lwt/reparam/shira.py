"""SHiRA: a sparse patch, trained entries of a weight at random places."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from lwt.layers import linear
from lwt.reparam.parts import each, seeded, targets


@dataclasses.dataclass(frozen=True)
class SHiRA(each.Each):
    """``W + P`` with a sparse P whose entries are trained (Bhardwaj et al. 2024, arXiv 2406.13175, section 4.1, the
    random mask).

    The places follow from `seed` and the name of the weight: no file holds them. Adapters of different seeds share few
    places, so their updates can be added. P starts at zero.

    Attributes:
        rank: as many entries as LoRA of this rank trains, ``rank · (in + out)``, but not more than there are.
        seed: of the places.
        targets: which matrices to adapt, see `targets.matching`.
    """

    rank: int = 8
    seed: int = 0
    targets: str | tuple[str, ...] = targets.ATTENTION

    def start(self, key, name, *, shape):
        """The leaf ``entries``, in the order of their places row by row."""
        del key, name
        return {"entries": jnp.zeros(min(self.rank * sum(shape), shape[0] * shape[1]))}

    def weight(self, name, w, *, leaves):
        """An array."""
        flat = linear.dense(w).reshape(-1)
        return flat.at[self.places(name, w.shape, count=len(leaves["entries"]))].add(leaves["entries"]).reshape(w.shape)

    def places(self, name, shape, *, count):
        """The indices `[count]` of the trained entries of the flat weight `name`, ascending."""
        return np.sort(seeded.generator(self.seed, name).permutation(shape[0] * shape[1])[:count])
