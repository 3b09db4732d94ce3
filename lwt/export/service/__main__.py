"""Writes a trained text classifier as a folder that answers without lwt and JAX, and compares its answers with lwt's.

    python -m lwt.export.service --workdir=runs/snips --out=service
    python -m lwt.export.service --workdir=runs/snips --out=service --precision=int8 --records=500

The folder's own program is ``python predict.py FILE``. Prints the report as JSON on the last line, and writes it to
report.json; docs/serve.md explains it.
"""

from absl import flags

from lwt.export.phone import classify
from lwt.export.service import folder
from lwt.machine import command_line
from lwt.runs import experiment


def main():
    """The program: writes the folder, and prints the report."""
    values = flags.FLAGS
    source = experiment.load(
        values.workdir, checkpoint=values.checkpoint, base=values.base, precision=classify.PRECISION
    )
    wanted = {name: values[name].value for name in ("precision", "data", "records", "threads")}
    command_line.report({"folder": values.out, "checkpoint": source.step, **folder.write(source, values.out, **wanted)})


if __name__ == "__main__":  # flags belong to the program
    command_line.define_run(out="Folder to write.")
    flags.DEFINE_enum("precision", "float32", folder.FORMATS, "Number format of the weights.")
    flags.DEFINE_string("data", "", "Data set to compare and to measure on, KIND:NAME@SPLIT; default: the test set.")
    flags.DEFINE_integer("records", None, "Number of its records; default: all.", lower_bound=1)
    flags.DEFINE_integer("threads", 1, "Threads of the measurements.", lower_bound=1)
    command_line.run(main, required=["workdir", "out"])
