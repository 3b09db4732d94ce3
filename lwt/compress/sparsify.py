"""Unstructured pruning at once: a run whose smallest single weights are 0, and nothing else is changed.

    python -m lwt.compress.sparsify --workdir=runs/mt --out=runs/mt-s80 --sparsity=0.8 --scope=global
    python -m lwt.compress.sparsify --workdir=runs/mt --out=runs/mt-2of4 --pattern=2:4
    python train.py --config=configs/lightweight.py:base=runs/mt-s80,method=prune --workdir=runs/mt-s80-tuned

Which weights go, and of which arrays, `lwt/reparam/prune.py` says; training with method=prune and no sparsity keeps the
zeros. Arrays keep their shapes, so that neither bytes nor time get less. The last line is one JSON object.
"""

import re

import jax.numpy as jnp
from absl import flags

from lwt import errors
from lwt.layers import linear
from lwt.machine import command_line
from lwt.reparam import prune
from lwt.training import experiment, new_run


def sparsify(opened, out, *, sparsity=0.0, pattern=(), scope="layer", names=prune.Prune.targets):
    """Writes the run `out` with zeros; returns it, opened, and what was done.

    Args:
        opened: an `experiment.Experiment`.
        out: a new folder.
        sparsity: the share of the weights that goes; or
        pattern: ``(n, m)``, n of every m in a row along the inputs stay.
        scope: of the sparsity, "layer" or "global".
        names: regular expression for the arrays.

    Raises:
        lwt.errors.ConfigError: neither or both of sparsity and pattern; or see `prune.Prune`.
    """
    if bool(sparsity) == bool(pattern):
        raise errors.ConfigError("one of --sparsity and --pattern should be given")
    pruning = prune.Prune(sparsity=sparsity, pattern=pattern, scope=scope, targets=names)
    weights = linear.merge(opened.weights)
    targets = pruning.select(weights)
    made = pruning.expand(weights, {}, 0)
    left, of = (sum(int(count(made[name])) for name in targets) for count in (jnp.count_nonzero, jnp.size))
    done = {"method": "sparsify", "kept": left, "of": of}
    return new_run.write(opened, out, weights=made, how=done), done


def pattern_of(text):
    """``(n, m)`` of ``"n:m"``, ``()`` of ``""``.

    Raises:
        lwt.errors.ConfigError: it is neither.
    """
    if text and not re.fullmatch(r"\d+:\d+", text):
        raise errors.ConfigError(f"--pattern={text}: N:M is expected, such as 2:4")
    return tuple(map(int, filter(None, text.split(":"))))


def main():
    """The program: writes the run, and prints how many weights are left."""
    values = flags.FLAGS
    given = dict(sparsity=values.sparsity, pattern=pattern_of(values.pattern), scope=values.scope, names=values.targets)
    _, done = sparsify(experiment.load(values.workdir, checkpoint=values.checkpoint), values.out, **given)
    command_line.report({"workdir": values.out, **done})


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "Folder of a run.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
    flags.DEFINE_string("out", None, "Folder of the new run.")
    flags.DEFINE_float("sparsity", 0.0, "Share of the weights that goes.")
    flags.DEFINE_enum("scope", "layer", prune.SCOPES, "Of each array, or of all together by one threshold.")
    flags.DEFINE_string("pattern", "", "N:M, in the place of a sparsity: N of any M weights along the inputs stay.")
    flags.DEFINE_string("targets", prune.Prune.targets, "Regular expression for the names of the arrays.")
    command_line.run(main, required=["workdir", "out"])
