"""Rewinding: early weights of a run under the mask that pruning found late, the lottery ticket of a network.

    python -m lwt.compress.rewind --workdir=runs/mt-pruned --out=runs/ticket                  # initial weights
    python -m lwt.compress.rewind --workdir=runs/mt-pruned --early=runs/mt-start --out=runs/ticket
    python train.py --config=configs/lightweight.py:base=runs/ticket,method=prune --workdir=runs/ticket-trained

The new run has the config of the pruned run, the early weights, and 0 wherever the pruned run (one with
``reparam.name="prune"``) has 0 in a target. Trained with ``reparam = {"name": "prune", "mask": "zeros"}``, which is
what method=prune without a sparsity sets, it keeps these zeros.

Source: Frankle and Carbin 2019 (arXiv 1803.03635), and Frankle et al. 2020 (arXiv 1912.05671), whose weights are those
of an early step: a short run, which the dense one then starts from (``init_from``), is the one to name as --early.
"""

import jax
import jax.numpy as jnp
from absl import flags

from lwt import errors, trees
from lwt.layers import linear
from lwt.machine import command_line
from lwt.reparam import compose, prune
from lwt.training import build, experiment, new_run


def rewind(pruned, out, *, early=None):
    """Writes the run `out` of early weights with the zeros of a pruned run; returns it, opened, and what was done.

    Args:
        pruned: an `experiment.Experiment` whose reparametrization is a `prune.Prune`.
        out: a new folder.
        early: an `experiment.Experiment` of the same model; None: the weights that `pruned` started from.

    Raises:
        lwt.errors.ConfigError: the run is not pruned, or `out` holds a run.
        lwt.errors.CheckpointError: the early weights are those of another model.
    """
    reparam = compose.build(pruned.config.reparam)
    if not isinstance(reparam, prune.Prune):
        raise errors.ConfigError(
            f"{pruned.workdir} should have reparam.name='prune', not {pruned.config.reparam.name!r}"
        )
    late = linear.merge(pruned.weights)
    weights = start_of(pruned) if early is None else linear.merge(early.weights)
    difference = trees.differences(late, weights)
    if difference:
        raise errors.CheckpointError(f"{early.workdir} holds another model than {pruned.workdir}: {difference}")
    names = reparam.select(late)
    weights = weights | {name: jnp.where(late[name] != 0, weights[name], 0) for name in names}
    kept, of = (sum(map(count, (weights[name] for name in names))) for count in (jnp.count_nonzero, jnp.size))
    done = {"method": "rewind", "early": early.workdir if early else "initial", "kept": int(kept), "of": int(of)}
    return new_run.write(pruned, out, weights=weights, how=done), done


def start_of(opened):
    """The weights that a run started from: those of the run ``init_from``, or random ones, made again by its seed."""
    config = opened.config
    base = experiment.arrays_of(config.init_from, config.init_checkpoint) if config.init_from else None
    params = build.initial_params(config, opened.model, compose.build({"name": "none"}), base)
    return trees.subtree(jax.tree.map(jnp.asarray, params[0] | params[1]), "base")


def main():
    """The program: writes the run, and prints how many weights are left."""
    values = flags.FLAGS
    early = experiment.load(values.early, checkpoint=values.early_checkpoint) if values.early else None
    _, done = rewind(experiment.load(values.workdir, checkpoint=values.checkpoint), values.out, early=early)
    command_line.report({"workdir": values.out, **done})


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "Folder of a run with the reparametrization prune.")
    flags.DEFINE_string("checkpoint", "last", "Of it: best, last or a step. The best may be of before all is pruned.")
    flags.DEFINE_string("early", "", "Folder of a run whose weights to take; default: those that the run started from.")
    flags.DEFINE_string("early_checkpoint", "last", "Of --early: best, last or a step.")
    flags.DEFINE_string("out", None, "Folder of the new run.")
    command_line.run(main, required=["workdir", "out"])
