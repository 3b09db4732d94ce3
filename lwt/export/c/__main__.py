"""A trained classifier of texts as C for a microcontroller.

    python -m lwt.export.c --workdir=runs/snips --out=firmware
    python -m lwt.export.c --workdir=runs/snips --out=firmware --activations=int8 --budget=502908
    make -C firmware test

The last line is the report as JSON, also in the folder's report.json; docs/microcontroller.md explains it.
"""

from absl import flags

from lwt.export.c import export
from lwt.machine import command_line
from lwt.runs import experiment


def main():
    """The program: writes the folder, and prints the report."""
    values = flags.FLAGS
    opened = experiment.load(values.workdir, checkpoint=values.checkpoint)
    command_line.report(
        {
            "folder": values.out,
            **export.export(opened, values.out, activations=values.activations, budget=values.budget),
        }
    )


if __name__ == "__main__":  # flags belong to the program
    flags.DEFINE_string("workdir", None, "Folder of a run.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
    flags.DEFINE_string("out", None, "The folder to write.")
    flags.DEFINE_enum("activations", "fp16", export.ACTIVATIONS, "What the states of the positions are rounded to.")
    flags.DEFINE_integer("budget", None, "Bytes that flash and RAM together may take; more is an error.", lower_bound=1)
    command_line.run(main, required=["workdir", "out"])
