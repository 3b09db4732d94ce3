"""Rewinding: combines early weights of a run with the mask that pruning found later (a lottery ticket).

    python -m lwt.compress.rewind --workdir=runs/mt-pruned --out=runs/ticket                  # initial weights
    python -m lwt.compress.rewind --workdir=runs/mt-pruned --early=runs/mt-start --out=runs/ticket
    python train.py --config=configs/lightweight.py:base=runs/ticket,method=prune --workdir=runs/ticket-trained

The new run has the config of the pruned run, the early weights, and 0 wherever the pruned run (one with
``reparam.name="prune"``) has 0 in a target. Training with ``reparam = {"name": "prune", "mask": "zeros"}``, which
method=prune sets when no sparsity is given, keeps these zeros.

Source: Frankle and Carbin 2019 (arXiv 1803.03635), and Frankle et al. 2020 (arXiv 1912.05671), who rewind to an early
step. For that, train a short run, start the dense run from it (``init_from``), and name the short run as --early.
"""

import jax
import jax.numpy as jnp
from absl import flags

import lwt
from lwt import errors, trees
from lwt.compress import program
from lwt.layers import linear
from lwt.reparam import compose
from lwt.reparam.compression import prune
from lwt.runs import assembly
from lwt.training import new_run


def rewind(pruned, out, *, early=None):
    """Writes the run `out`: early weights with the zeros of a pruned run. Returns it and a dict that describes it.

    Args:
        pruned: a run whose reparametrization is `prune.Prune`.
        early: a run of the same model; None for the weights that `pruned` started from.

    Raises:
        lwt.errors.ConfigError: the run is not pruned, or `out` holds a run.
        lwt.errors.CheckpointError: the early weights belong to another model.
    """
    reparam = compose.build(pruned.config.reparam)
    if not isinstance(reparam, prune.Prune):
        raise errors.ConfigError(
            f"{pruned.workdir} has reparam.name={pruned.config.reparam.name!r}; rewinding needs 'prune'"
        )
    late = linear.merge(pruned.weights)
    weights = start_of(pruned) if early is None else linear.merge(early.weights)
    difference = trees.differences(late, weights)
    if difference:
        raise errors.CheckpointError(f"{early.workdir} and {pruned.workdir} hold different models: {difference}")
    names = reparam.select(late)
    weights = weights | {name: jnp.where(late[name] != 0, weights[name], 0) for name in names}
    kept, of = (sum(map(count, (weights[name] for name in names))) for count in (jnp.count_nonzero, jnp.size))
    done = {"method": "rewind", "early": early.workdir if early else "initial", "kept": int(kept), "of": int(of)}
    return new_run.write(pruned, out, weights=weights, how=done), done


def start_of(trained):
    """The weights that a run started from: those of ``init_from``, or the random ones that its seed gives again."""
    plain = compose.build({"name": "none"})
    params = assembly.initial_params(trained.config, trained.model, reparam=plain, base=trained.base())
    return trees.subtree(jax.tree.map(jnp.asarray, params[0] | params[1]), "base")


def main(pruned, values):
    """Rewinds as the flags say."""
    early = lwt.load(values.early, checkpoint=values.early_checkpoint) if values.early else None
    return rewind(pruned, values.out, early=early)[1]


if __name__ == "__main__":
    flags.DEFINE_string("early", "", "Folder of the run with early weights; default: those that the run started from.")
    flags.DEFINE_string("early_checkpoint", "last", "Checkpoint of --early: best, last or a step.")
    program.run(main, checkpoint="last")  # the best checkpoint may predate the end of pruning
