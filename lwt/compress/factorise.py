"""Factorises the kernels of a run, ``W ~ a @ b``, with ranks set directly, by energy, or by a budget of bytes.

    python -m lwt.compress.factorise --workdir=runs/mt --out=runs/mt-r32 --rank=32
    python -m lwt.compress.factorise --workdir=runs/mt --out=runs/mt-e90 --energy=0.9 --calibrate=256
    python -m lwt.compress.factorise --workdir=runs/mt --out=runs/mt-half --budget=0.5 --calibrate=256

The new run stores the factors (`lwt/reparam/compression/svd.py`), and a run that starts from it (`common.of_run`)
trains them. The last line of output is one JSON object: bytes before and after, and the share of energy that each
weight (with ``--calibrate``, its outputs) keeps.

By default the factors are the nearest to W. With ``--calibrate`` they are the nearest in the layer's outputs: they
minimise ``||X (W - W')||`` over the layer's inputs X on that many records. With ``XᵀX = L Lᵀ`` this is
``||Lᵀ (W - W')||``: the truncated SVD of ``LᵀW``, mapped back by ``L⁻ᵀ`` (SVD-LLM, Wang et al. 2024, arXiv 2403.07378,
section 3.1; ASVD, Yuan et al. 2023, arXiv 2312.05821, uses a diagonal L). They use Cholesky's L; here it is ``Q √Λ`` of
the eigenvectors, because rounding leaves ``XᵀX`` of inputs with a large mean indefinite.

Either way, ranks follow from the energy Σσ² of the weights. That of the outputs would not do: their mean makes up most
of it and takes one direction.
"""

import dataclasses
import heapq
import math

import jax.numpy as jnp
import numpy as np
from absl import flags

from lwt import errors, trees
from lwt.compress import program
from lwt.layers import linear, listen
from lwt.machine import command_line
from lwt.reparam.compression import svd
from lwt.reparam.parts import targets
from lwt.training import new_run

DAMPING = 1e-6  # least eigenvalue, relative to the mean of XᵀX's diagonal: constant inputs leave XᵀX singular
BYTES = 4  # per stored number


@dataclasses.dataclass(frozen=True)
class Decomposition:
    """``W = left [in k] · values [k] · right [k out]``, float64; values descend, k is the smaller side of W.

    The columns of `left` are orthonormal in the norm that errors are measured in.
    """

    left: np.ndarray
    values: np.ndarray
    right: np.ndarray

    @property
    def shape(self):
        """``(in, out)`` of W."""
        return self.left.shape[0], self.right.shape[1]

    @property
    def smaller(self):
        """The largest rank at which factors are smaller than W."""
        n_in, n_out = self.shape
        return (n_in * n_out - 1) // (n_in + n_out)

    def factors(self, rank):
        """`a` `[in r]` and `b` `[r out]`, float32, which share the singular values."""
        a, b = targets.balanced((self.left, self.values, self.right), slice(rank))
        return jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)

    def kept(self, rank):
        """The share of the energy Σσ² that a rank keeps."""
        energy = np.square(self.values)
        return float(energy[:rank].sum() / max(energy.sum(), np.finfo(float).tiny))


def decompose(w, moment=None):
    """The singular value decomposition of `w` `[in out]`, given the `moment` ``XᵀX`` of its inputs or None."""
    w = np.asarray(w, np.float64)
    if moment is None:
        return Decomposition(*np.linalg.svd(w, full_matrices=False))
    eigenvalues, q = np.linalg.eigh(moment)
    root = np.sqrt(np.maximum(eigenvalues, DAMPING * np.trace(moment) / len(moment) + np.finfo(float).tiny))[:, None]
    left, values, right = np.linalg.svd(root * q.T @ w, full_matrices=False)
    return Decomposition(q @ (left / root), values, right)


def by_energy(found, share):
    """``{name: rank}``: for each weight, the smallest rank that keeps this share, in (0, 1], of its energy."""
    if not 0 < share <= 1:
        raise errors.ConfigError(f"--energy={share:g} must be in (0, 1]")
    ranks = {}
    for name, own in found.items():
        sums = np.cumsum(np.square(own.values))
        ranks[name] = 1 + int(np.searchsorted(sums, share * sums[-1] * (1 - 1e-12)))
    return ranks


def by_budget(found, budget):
    """``{name: rank}`` within a budget: adds the direction with the most energy per byte, over all weights, in turn.

    Every weight is scaled to a mean square of 1 first, since the model may scale the outputs of a weight with large
    entries down again. (Loss of a translator, 1.565 in full, at 74 % of its bytes: 1.834 with one rank for all, 1.929
    with plain squares, 1.807 with these.) Every weight has at least rank 1. Where another direction would make the
    factors as large as the weight, the next step is the whole weight at full rank, for the bytes that are missing.

    Raises:
        lwt.errors.ConfigError: the budget of bytes for all of these weights does not suffice for rank 1.
    """
    ranks = dict.fromkeys(found, 1)
    left = budget - sum(stored_bytes(own, 1) for own in found.values())
    if left < 0:
        raise errors.ConfigError(f"--budget leaves {budget:,} bytes for the factors; rank 1 takes {budget - left:,}")
    steps = [_step(name, own, 1) for name, own in found.items() if len(own.values) > 1]
    heapq.heapify(steps)
    while steps:
        _, name, rank, cost = heapq.heappop(steps)
        if cost <= left:  # else this weight keeps its rank, and the rest may fit others
            left, ranks[name] = left - cost, rank
            if rank < len(found[name].values):
                heapq.heappush(steps, _step(name, found[name], rank))
    return ranks


def _step(name, own, rank):
    """``(-energy per byte, name, next rank, bytes)`` of the step after a rank."""
    following = rank + 1 if rank < own.smaller else len(own.values)
    cost = stored_bytes(own, following) - stored_bytes(own, rank)
    gain = math.prod(own.shape) * (own.kept(following) - own.kept(rank))
    return -gain / max(cost, 1), name, following, cost


def stored_bytes(own, rank):
    """Bytes of a weight at a rank: those of its factors, or its own where factors would not be smaller."""
    (n_in, n_out), dense = own.shape, rank > own.smaller
    return BYTES * (n_in * n_out if dense else rank * (n_in + n_out))


def moments(experiment, names, *, records, data=""):
    """``{name: XᵀX [in in]}``, float64, of the inputs of linear layers over the tokens of a data set.

    Raises:
        lwt.errors.ConfigError: one of the names is not the kernel of a linear layer.
    """

    def moment(x, real):
        x = jnp.where(real[..., None], x, 0).reshape(-1, x.shape[-1])
        return jnp.dot(x.T, x, precision="highest")

    batches, totals = experiment.batches(data, limit=records), {}
    settings = dict(batches=batches, names=names, summary=moment)
    for _, moments in listen.summaries(experiment.model, experiment.weights, **settings):
        for name, own in moments.items():
            totals[name] = totals.get(name, 0) + own.astype(np.float64)
    for name in names:
        if name not in totals:
            raise errors.ConfigError(f"{name!r} is not a linear layer, so it has no calibration; see --targets")
    return totals


def factorise(experiment, out, *, rank=0, energy=0.0, budget=0.0, names=svd.LAYERS, calibrate=0, data=""):
    """Writes the run `out` with factors instead of weights; returns it and a dict that describes the change.

    Weights whose factors would not be smaller stay as they are.

    Args:
        rank, energy, budget: exactly one of them. A rank for all weights; the share of its energy that each weight
            keeps; or the bytes of the whole model (float32; up to 1: a share of its current bytes).
        names: regular expression for the weights.
        calibrate: number of records, of `data`, whose activations weight the error; 0 for the plain error.

    Raises:
        lwt.errors.ConfigError: none or several of rank, energy and budget are given, or no weight would get smaller.
    """
    if (rank > 0) + (energy > 0) + (budget > 0) != 1 or min(rank, energy, budget) < 0 or budget == math.inf:
        raise errors.ConfigError("give exactly one of --rank, --energy and --budget, above 0 and finite")
    weights = linear.merge(experiment.weights)
    found = {name: decompose(weights[name]) for name in targets.select(weights, names, key="--targets")}
    before = trees.nbytes(weights)
    if rank:
        ranks = {name: min(rank, len(own.values)) for name, own in found.items()}
    elif energy:
        ranks = by_energy(found, energy)
    else:
        rest = before - sum(BYTES * math.prod(own.shape) for own in found.values())
        ranks = by_budget(found, int(budget * before if budget <= 1 else budget) - rest)
    ranks = {name: own for name, own in ranks.items() if own <= found[name].smaller}
    if not ranks:
        raise errors.ConfigError(f"no factors are smaller than the {len(found)} weights they replace; lower the rank")
    if calibrate:
        seen = moments(experiment, list(ranks), records=calibrate, data=data)
        found = {name: decompose(weights[name], seen[name]) for name in ranks}
    section = {"name": "svd", **targets.ranked(ranks)}
    adapter = {}
    for name, own in ranks.items():
        adapter[f"{name}/a"], adapter[f"{name}/b"] = found[name].factors(own)
    done = {"method": "factorise", "calibrated_on": calibrate, "bytes_before": before}
    saved = [BYTES * math.prod(found[name].shape) - stored_bytes(found[name], own) for name, own in ranks.items()]
    done["bytes"] = before - sum(saved)
    done |= {"ranks": ranks, "energy_kept": {name: round(found[name].kept(own), 5) for name, own in ranks.items()}}
    return new_run.write(experiment, out, weights=weights, reparam=section, adapter=adapter, how=done), done


def main(experiment, values):
    """Factorises as the flags say."""
    keys = ("rank", "energy", "budget", "calibrate", "data")
    return factorise(experiment, values.out, names=values.targets, **{key: getattr(values, key) for key in keys})[1]


if __name__ == "__main__":
    flags.DEFINE_integer("rank", 0, "Rank of every weight.", lower_bound=0)
    flags.DEFINE_float("energy", 0.0, "Share of its energy that every weight keeps.", lower_bound=0, upper_bound=1)
    flags.DEFINE_float(
        "budget", 0.0, "Bytes of the whole model in float32; up to 1: a share of its current bytes.", lower_bound=0
    )
    command_line.define_regex("targets", svd.LAYERS, help="Regular expression for the names of the weights.")
    flags.DEFINE_integer("calibrate", 0, "Records whose activations weight the error; 0: the plain one.", lower_bound=0)
    flags.DEFINE_string("data", "", "Data set of the calibration, KIND:NAME@SPLIT; default: the validation set.")
    program.run(main)
