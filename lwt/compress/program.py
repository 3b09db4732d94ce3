"""The shell around a compression program: it reads a run and writes a new one, so that methods chain."""

import jax.numpy as jnp
from absl import flags

import lwt
from lwt import errors
from lwt.layers import linear
from lwt.machine import command_line


def run(compress, *, required=(), checkpoint="best"):
    """Parses the flags, opens the run, calls ``compress(experiment, flags)`` and prints the figures that it returns.

    Args:
        required: the program's own required flags, besides --workdir and --out.
        checkpoint: default of --checkpoint.
    """
    command_line.define_run(out="Folder of the new run.", checkpoint=checkpoint)

    def main():
        values = flags.FLAGS
        experiment = lwt.load(values.workdir, checkpoint=values.checkpoint, base=values.base)
        for name, weight in linear.merge(experiment.weights).items():
            if not jnp.isfinite(weight).all():
                raise errors.NotFinite(f"{values.workdir}: the weight {name} is not finite; give another --checkpoint")
        command_line.report({"workdir": values.out, **compress(experiment, values)})

    command_line.run(main, required=["workdir", "out", *required])
