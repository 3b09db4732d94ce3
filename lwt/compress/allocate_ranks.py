"""Chooses a rank for every weight of an adapter: scores each direction of its update, under one budget for all.

    python -m lwt.compress.allocate_ranks --workdir=runs/mt-arithmetic --out=runs/mt-arithmetic-half --budget=0.5
    python -m lwt.compress.allocate_ranks --workdir=runs/snips --base=runs/embbert --budget=20_000 --out=runs/snips-lora

This decomposes the update of a run that started from another, ``W - W0 = P Λ Q``, by SVD, scores every singular
direction on some batches, and keeps the best over all weights. The new run holds W0 and an adapter of these ranks. The
last line of output has its ``reparam`` section, for a new training.

The importance is AdaLoRA's (Zhang et al. 2023, arXiv 2303.10512, section 3.2), for direction i of a weight:

    S_i = s(Λ_i) + mean_j s(P_ji) + mean_j s(Q_ij),    s(w) = Ī(w) · Ū(w),    I(w) = |w · ∂L/∂w|

with Ī the moving average of I over the batches and Ū that of |I - Ī|. AdaLoRA itself (`lwt/reparam/adalora.py`) keeps P
and Q nearly orthogonal with a penalty and lowers the budget during training. Here the SVD makes them orthogonal, and
ranks are chosen once.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from lwt import errors, trees
from lwt.compress import gates, program
from lwt.layers import linear
from lwt.machine import command_line
from lwt.reparam import adalora
from lwt.reparam.parts import targets
from lwt.runs import experiment
from lwt.training import new_run

ROUNDING = 1e-6  # smaller singular values, relative to the weight's norm, are rounding errors of float32
SCORES = ("adalora", "sensitivity", "energy")


@dataclasses.dataclass(frozen=True)
class Update:
    """``W - W0 = p [in r] · values [r] · q [r out]``, float32; values descend, `p` and `q` are orthonormal."""

    p: jax.Array
    values: jax.Array
    q: jax.Array

    @property
    def cost(self):
        """Parameters of an adapter of rank 1."""
        return self.p.shape[0] + self.q.shape[1]

    def factors(self, kept):
        """`a` `[in k]` and `b` `[k out]` of the directions `kept`, which share the singular values."""
        return targets.balanced((self.p, self.values, self.q), kept)


def updates(weights, base, *, pattern=".*", max_rank=64):
    """``{name: Update}`` of the matrices that changed.

    Args:
        pattern: regular expression for the names.
        max_rank: most directions of a weight.

    Raises:
        lwt.errors.ConfigError: no matrix changed.
    """
    found = {}
    for name in targets.select(weights, pattern, key="--targets"):
        if name in base and base[name].shape == weights[name].shape:
            new, old = (np.asarray(w[name], np.float64) for w in (weights, base))
            p, values, q = np.linalg.svd(new - old, full_matrices=False)
            rank = min(max_rank, int((values > ROUNDING * np.linalg.norm(new)).sum()))
            if rank:
                parts = (p[:, :rank], values[:rank], q[:rank])
                found[name] = Update(*(jnp.asarray(part, jnp.float32) for part in parts))
    if not found:
        raise errors.ConfigError(f"--targets={pattern}: no matrix differs from the base's; is --base the right run?")
    return found


def sensitivities(tuned, found, *, batches):
    """For each batch ``{name: (|p · ∂L/∂p| [in r], |values · ∂L/∂values| [r], |q · ∂L/∂q| [r out])}``.

    L is the task's loss, the mean over the tokens or examples of a batch, without dropout; `found` is from `updates`.
    """
    whole = linear.merge(tuned.weights)
    leaves = {name: (own.p, own.values, own.q) for name, own in found.items()}
    rest = {name: whole[name] - jnp.dot(p * s[None], q, precision="highest") for name, (p, s, q) in leaves.items()}

    def loss(leaves, batch):
        nodes = {
            name: linear.LowRank(rest[name], p * values[None], q, jnp.ones(()))
            for name, (p, values, q) in leaves.items()
        }
        apply = functools.partial(tuned.model.apply, {"params": trees.unflatten(whole | nodes)})
        total, count, _ = tuned.task.loss(apply, batch, train=False)
        return total / jnp.maximum(count, 1)

    products = jax.jit(lambda batch: jax.tree.map(lambda w, g: jnp.abs(w * g), leaves, jax.grad(loss)(leaves, batch)))
    for batch in batches:
        yield jax.device_get(products(batch))


def importance(products, *, which="adalora"):
    """``{name: [r]}``, the score of every direction.

    Args:
        products: what `sensitivities` yields.
        which: "adalora", or "sensitivity": the mean of ``|values · ∂L/∂values|``.
    """
    found = list(products)
    if not found:
        raise errors.DataError("no batch to score the directions on; give another --data or --examples")
    if which == "sensitivity":
        return {name: np.mean([own[name][1] for own in found], axis=0) for name in found[0]}

    def score(*products):
        """The score of one array, from its products with the gradients of all batches."""
        mean = spread = np.zeros_like(products[0])
        for product in products:
            mean, spread = adalora.follow(mean, spread, product=product)
        return mean * spread

    scores = jax.tree.map(score, *found)
    return {name: adalora.importance(p, values, b=q) for name, (p, values, q) in scores.items()}


def allocate(scores, costs, *, budget):
    """``{name: directions kept, ascending}``: the best by `scores` ``{name: [r]}`` whose `costs` fit the budget."""
    kept = {}
    for name, i in gates.order({name: -own for name, own in scores.items()}):
        if costs[name] <= budget:
            budget -= costs[name]
            kept.setdefault(name, []).append(i)
    return {name: np.array(sorted(own)) for name, own in sorted(kept.items())}


def reallocate(tuned, out, *, base, budget, which="adalora", pattern=".*", max_rank=64, data="", examples=0):
    """Writes the run `out`, an adapter on the base's weights; returns it and a dict that describes it.

    Args:
        tuned: the run that started from the base.
        base: flat dict of the base's arrays.
        budget: parameters of the adapter; up to 1: a share of those of all directions.
        which: one of `SCORES`; "energy" is the squared singular value.
        data, examples: of the gradients; see `Experiment.batches`.

    Raises:
        lwt.errors.ConfigError: the budget does not suffice for one direction, or no matrix changed.
    """
    targets.check_choice(which, SCORES, key="--scores")
    if not 0 < budget < math.inf:
        raise errors.ConfigError(f"--budget={budget:g} must be above 0 and finite")
    weights = linear.merge(tuned.weights)
    found = updates(weights, base, pattern=pattern, max_rank=max_rank)
    if which == "energy":
        scores = {name: np.square(np.asarray(own.values)) for name, own in found.items()}
    else:
        scores = importance(sensitivities(tuned, found, batches=tuned.batches(data, limit=examples)), which=which)
    costs = {name: own.cost for name, own in found.items()}
    before = sum(costs[name] * len(own) for name, own in scores.items())
    kept = allocate(scores, costs, budget=budget * before if budget <= 1 else budget)
    if not kept:
        raise errors.ConfigError(
            f"--budget={budget:g} is too small for one direction of {min(costs.values())} parameters"
        )
    ranks = {name: len(own) for name, own in kept.items()}
    section = {"name": "lora", "rank": max(ranks.values()), "scaling": "one", **targets.ranked(ranks)}
    adapter = {}
    for name, own in kept.items():
        adapter[f"{name}/a"], adapter[f"{name}/b"] = found[name].factors(own)
    total = max(float(sum(own.sum() for own in scores.values())), np.finfo(float).tiny)
    done = {
        "method": "allocate_ranks",
        "scores": which,
        "parameters_before": before,
        "parameters": trees.count(adapter),
        "score_kept": round(float(sum(scores[n][own].sum() for n, own in kept.items()) / total), 5),
        "ranks_before": {name: len(own) for name, own in scores.items()},
        "ranks": ranks,
        "reparam": section,
    }
    start = weights | {name: base[name] for name in found}
    return new_run.write(tuned, out, weights=start, reparam=section, adapter=adapter, how=done), done


def main(tuned, values):
    """Allocates ranks as the flags say."""
    base = experiment.arrays_of(values.base, "best") if values.base else tuned.base()
    if base is None:
        raise errors.ConfigError(f"{values.workdir} did not start from another run; give the run to compare as --base")
    settings = {key: getattr(values, key) for key in ("budget", "max_rank", "data", "examples")}
    return reallocate(tuned, values.out, base=base, which=values.scores, pattern=values.targets, **settings)[1]


if __name__ == "__main__":
    flags.DEFINE_float("budget", None, "Parameters of the adapter; up to 1: a share of all directions'.", lower_bound=0)
    flags.DEFINE_enum("scores", "adalora", SCORES, "What ranks the directions.")
    command_line.define_regex("targets", ".*", help="Regular expression for the names of the weights.")
    flags.DEFINE_integer("max_rank", 64, "Directions of every weight to score.", lower_bound=1)
    flags.DEFINE_string("data", "", "Data set of the gradients, KIND:NAME@SPLIT; default: the validation set.")
    flags.DEFINE_integer("examples", 512, "Number of its records to use; 0: all.", lower_bound=0)
    program.run(main, required=["budget"])
