"""Sets the smallest weights of a run to 0: one-shot unstructured pruning.

    python -m lwt.compress.sparsify --workdir=runs/mt --out=runs/mt-s80 --sparsity=0.8 --scope=global
    python -m lwt.compress.sparsify --workdir=runs/mt --out=runs/mt-2of4 --pattern=2:4
    python train.py --config=configs/lightweight.py:base=runs/mt-s80,method=prune --workdir=runs/mt-s80-tuned

`lwt/reparam/compression/prune.py` chooses the weights; training with method=prune and no sparsity keeps the zeros.
Arrays keep their shapes, so neither size nor time shrinks. The last line of output is one JSON object.
"""

import re

import jax.numpy as jnp
from absl import flags

from lwt import errors
from lwt.compress import program
from lwt.layers import linear
from lwt.machine import command_line
from lwt.reparam.compression import prune
from lwt.training import new_run


def sparsify(experiment, out, *, sparsity=0.0, pattern=(), scope="layer", names=prune.Prune.targets):
    """Writes the run `out` with zeros; returns it and a dict that describes the change.

    Args:
        sparsity, pattern: one of the two; see `prune.Prune`.
        names: regular expression for the arrays.

    Raises:
        lwt.errors.ConfigError: neither or both of sparsity and pattern are given, or no weight would be left.
    """
    if not 0 <= sparsity < 1:
        raise errors.ConfigError(f"--sparsity={sparsity:g} must be in [0, 1)")
    if bool(sparsity) == bool(pattern):
        raise errors.ConfigError("give either --sparsity or --pattern")
    pruning = prune.Prune(sparsity=sparsity, pattern=pattern, scope=scope, targets=names)
    weights = linear.merge(experiment.weights)
    made, chosen = pruning.expand(weights, {}, 0), pruning.select(weights)
    left, of = (sum(int(count(made[name])) for name in chosen) for count in (jnp.count_nonzero, jnp.size))
    if not left:
        raise errors.ConfigError(f"--sparsity={sparsity:g} would set all {of:,} weights to 0; give a smaller share")
    done = {"method": "sparsify", "kept": left, "of": of}
    return new_run.write(experiment, out, weights=made, how=done), done


def pattern_of(text):
    """Parses ``"n:m"`` to ``(n, m)`` and ``""`` to ``()``; raises ConfigError for anything else."""
    pattern = tuple(map(int, text.split(":"))) if re.fullmatch(r"\d+:\d+", text, re.ASCII) else ()
    if text and not (pattern and 1 <= pattern[0] <= pattern[1]):
        raise errors.ConfigError(f"--pattern={text} must be N:M, such as 2:4: keep N of every M")
    return pattern


def main(experiment, values):
    """Prunes as the flags say."""
    pattern = pattern_of(values.pattern)
    settings = dict(sparsity=values.sparsity, pattern=pattern, scope=values.scope, names=values.targets)
    return sparsify(experiment, values.out, **settings)[1]


if __name__ == "__main__":
    flags.DEFINE_float("sparsity", 0.0, "Share of the weights to set to 0.", lower_bound=0, upper_bound=1)
    flags.DEFINE_enum("scope", "layer", prune.SCOPES, "Apply the sparsity to each array, or to all by one threshold.")
    flags.DEFINE_string("pattern", "", "N:M instead of a sparsity: keep N of every M weights along the inputs.")
    command_line.define_regex("targets", prune.Prune.targets, help="Regular expression for the names of the arrays.")
    program.run(main)
