"""A run with its kernels factorised: ``W ~ a @ b``, ranks chosen by number, by energy, or by the bytes that are left.

    python -m lwt.compress.factorise --workdir=runs/mt --out=runs/mt-r32 --rank=32
    python -m lwt.compress.factorise --workdir=runs/mt --out=runs/mt-e90 --energy=0.9 --calibrate=256
    python -m lwt.compress.factorise --workdir=runs/mt --out=runs/mt-half --budget=0.5 --calibrate=256

The new run stores the factors (`lwt/reparam/svd.py`); what goes on from it (`common.of_run`) trains them. The last line
is one JSON object: bytes before and after, and the share of energy that each weight (calibrated, its outputs) keeps.

Plain, the factors are the nearest to W. With ``--calibrate`` they are the nearest in what the layer puts out: they
minimise ``||X (W - W')||`` over the inputs X that the layer has on so many records. With ``XᵀX = L Lᵀ`` this is
``||Lᵀ (W - W')||``: the truncated SVD of ``LᵀW``, mapped back by ``L⁻ᵀ`` (SVD-LLM, Wang et al. 2024, arXiv 2403.07378,
section 3.1; ASVD, Yuan et al. 2023, arXiv 2312.05821, has a diagonal in the place of L). Where they take Cholesky's L,
it is ``Q √Λ`` of the eigenvectors here: rounding leaves ``XᵀX`` of inputs with a large mean indefinite.

Ranks are chosen by the energy Σσ² of the weights either way. That of the outputs would not do: their mean is most of
it, and takes one direction. (The translator of `by_budget` with calibrated factors: 1.692, with ranks by the outputs'
energy 1.834.)
"""

import dataclasses
import heapq
import math

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from lwt import errors, trees
from lwt.compress import activations
from lwt.layers import linear
from lwt.machine import command_line
from lwt.reparam import svd, targets
from lwt.training import build, experiment, new_run

DAMPING = 1e-6  # of the mean of XᵀX's diagonal, the least eigenvalue: inputs that are never moved leave it singular
BYTES = 4  # of a stored number


@dataclasses.dataclass(frozen=True)
class Decomposition:
    """``W = left · values · right``, the columns of `left` orthonormal in the norm that errors are measured in.

    Attributes:
        left: `[in k]`; values: `[k]`, descending; right: `[k out]`; k is the smaller side of W. All float64.
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
        root = np.sqrt(self.values[:rank])
        a, b = self.left[:, :rank] * root[None], root[:, None] * self.right[:rank]
        return jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)

    def kept(self, rank):
        """The share of the energy Σσ² that a rank keeps."""
        energy = np.square(self.values)
        return float(energy[:rank].sum() / max(energy.sum(), np.finfo(float).tiny))


def decompose(w, moment=None):
    """The singular value decomposition of a weight.

    Args:
        w: `[in out]`.
        moment: ``XᵀX`` `[in in]` of the inputs, or None for the plain one.
    """
    w = np.asarray(w, np.float64)
    if moment is None:
        return Decomposition(*np.linalg.svd(w, full_matrices=False))
    eigenvalues, q = np.linalg.eigh(moment)
    root = np.sqrt(np.maximum(eigenvalues, DAMPING * np.trace(moment) / len(moment) + np.finfo(float).tiny))[:, None]
    left, values, right = np.linalg.svd(root * q.T @ w, full_matrices=False)
    return Decomposition(q @ (left / root), values, right)


def by_energy(found, share):
    """``{name: rank}``: the smallest ranks that keep this share of every weight's energy.

    Args:
        found: ``{name: Decomposition}``.
        share: in (0, 1].
    """
    if not 0 < share <= 1:
        raise errors.ConfigError(f"--energy={share:g} should be a share above 0 and up to 1")
    ranks = {}
    for name, own in found.items():
        sums = np.cumsum(np.square(own.values))
        ranks[name] = 1 + int(np.searchsorted(sums, share * sums[-1] * (1 - 1e-12)))
    return ranks


def by_budget(found, budget):
    """``{name: rank}`` for as many bytes: each next direction is the one with most energy a byte, over all weights.

    Energy is measured as if all entries had a mean square of 1: what a weight of large entries puts out may be scaled
    down again. (A translator at 74 % of its bytes, loss 1.565: one rank for all 1.834, plain squares 1.929, so 1.807.)
    All have rank 1 at least. Where another direction would make the factors as large as the weight, the next step is
    the whole weight, at the bytes that are missing: its rank is then the full one.

    Args:
        found: ``{name: Decomposition}``.
        budget: bytes for all of these weights.

    Raises:
        lwt.errors.ConfigError: too few for rank 1.
    """
    ranks = dict.fromkeys(found, 1)
    left = budget - sum(stored_bytes(own, 1) for own in found.values())
    if left < 0:
        raise errors.ConfigError(f"--budget leaves {budget:,} bytes for the factors; rank 1 takes {budget - left:,}")
    steps = [_step(name, own, 1) for name, own in found.items() if len(own.values) > 1]
    heapq.heapify(steps)
    while steps:
        _, name, rank, cost = heapq.heappop(steps)
        if cost <= left:  # if not, the weight stays at its rank, and others may still have room
            left, ranks[name] = left - cost, rank
            if rank < len(found[name].values):
                heapq.heappush(steps, _step(name, found[name], rank))
    return ranks


def _step(name, own, rank):
    """``(-energy a byte, name, next rank, bytes)`` of what comes after a rank."""
    following = rank + 1 if rank < own.smaller else len(own.values)
    cost = stored_bytes(own, following) - stored_bytes(own, rank)
    gain = math.prod(own.shape) * (own.kept(following) - own.kept(rank))
    return -gain / max(cost, 1), name, following, cost


def stored_bytes(own, rank):
    """Bytes of a weight at a rank: of its factors, or of itself where these would not be smaller."""
    (n_in, n_out), dense = own.shape, rank > own.smaller
    return BYTES * (n_in * n_out if dense else rank * (n_in + n_out))


def moments(opened, names, *, records, data=""):
    """``{name: XᵀX [in in]}``, float64, of the inputs of linear layers over the tokens of a data set.

    Args:
        opened: an `experiment.Experiment`.
        names: of kernels.
        records: how many to take; 0 for all.
        data: ``KIND:NAME@SPLIT``; "" for the run's validation set.

    Raises:
        lwt.errors.ConfigError: a kernel is that of no linear layer.
    """
    made = build.make_data(opened.config, opened.workdir, make=False)
    found = made.evaluation(data or opened.config.data.validation, limit=records)

    @jax.jit
    def of_batch(weights, batch):
        sums = {}
        for name, x in activations.inputs(opened.model, weights, batch, names).items():
            x = jnp.where(activations.real(name, batch, x)[..., None], x, 0).reshape(-1, x.shape[-1])
            sums[name] = jnp.dot(x.T, x, precision="highest")
        return sums

    totals = {}
    for batch in made.batches(found):
        for name, own in jax.device_get(of_batch(opened.weights, batch)).items():
            totals[name] = totals.get(name, 0) + own.astype(np.float64)
    missing = [name for name in names if name not in totals]
    if missing:
        raise errors.ConfigError(f"{missing[0]!r} is of no linear layer, so it cannot be calibrated; see --targets")
    return totals


def factorise(opened, out, *, rank=0, energy=0.0, budget=0.0, names=svd.LAYERS, calibrate=0, data=""):
    """Writes the run `out` with factors in the place of weights; returns it, opened, and what was done.

    Weights whose factors would not be smaller stay as they are.

    Args:
        opened: an `experiment.Experiment`.
        out: a new folder.
        rank, energy, budget: one of them: a rank for all; the share of its energy that each weight keeps; the bytes of
            the whole model (float32), or, up to 1, their share of what they were.
        names: regular expression for the weights.
        calibrate: records whose activations the error is measured with; 0: the plain error.
        data: where they are taken from; "" for the run's validation set.

    Raises:
        lwt.errors.ConfigError: none or several of rank, energy and budget; or one that leaves nothing to factorise.
    """
    if (rank > 0) + (energy > 0) + (budget > 0) != 1 or min(rank, energy, budget) < 0:
        raise errors.ConfigError("one of --rank, --energy and --budget should be given, above 0")
    weights = linear.merge(opened.weights)
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
        raise errors.ConfigError(f"no factors are smaller than the {len(found)} weights themselves; lower the rank")
    if calibrate:
        seen = moments(opened, list(ranks), records=calibrate, data=data)
        found = {name: decompose(weights[name], seen[name]) for name in ranks}
    section = {"name": "svd", **targets.ranked(ranks)}
    adapter = {}
    for name, own in ranks.items():
        adapter[f"{name}/a"], adapter[f"{name}/b"] = found[name].factors(own)
    done = {"method": "factorise", "calibrated_on": calibrate, "bytes_before": before}
    saved = [BYTES * math.prod(found[name].shape) - stored_bytes(found[name], own) for name, own in ranks.items()]
    done["bytes"] = before - sum(saved)
    done |= {"ranks": ranks, "energy_kept": {name: round(found[name].kept(own), 5) for name, own in ranks.items()}}
    return new_run.write(opened, out, weights=weights, reparam=section, adapter=adapter, how=done), done


def main():
    """The program."""
    values = flags.FLAGS
    opened = experiment.load(values.workdir, checkpoint=values.checkpoint)
    given = {key: getattr(values, key) for key in ("rank", "energy", "budget", "calibrate", "data")}
    _, done = factorise(opened, values.out, names=values.targets, **given)
    command_line.report({"workdir": values.out, **done})


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "Folder of a run.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
    flags.DEFINE_string("out", None, "Folder of the new run.")
    flags.DEFINE_integer("rank", 0, "Rank of every weight.")
    flags.DEFINE_float("energy", 0.0, "Share of its energy that every weight keeps.")
    flags.DEFINE_float("budget", 0.0, "Bytes of the whole model in float32; up to 1: their share of what it has.")
    flags.DEFINE_string("targets", svd.LAYERS, "Regular expression for the names of the weights.")
    flags.DEFINE_integer("calibrate", 0, "Records whose activations say which errors matter; 0: all alike.")
    flags.DEFINE_string("data", "", "Of the calibration, KIND:NAME@SPLIT; default: the validation set.")
    command_line.run(main, required=["workdir", "out"])
