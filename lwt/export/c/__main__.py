"""Writes a trained text classifier or translator as C for a microcontroller.

    python -m lwt.export.c --workdir=runs/snips --out=firmware
    python -m lwt.export.c --workdir=runs/snips --out=firmware --activations=int8 --budget=502908
    python -m lwt.export.c --workdir=runs/snips --out=intents --prefix=intents --sentence="turn on the light" --clock=80
    python -m lwt.export.c --workdir=pretrained/multi30k-small --out=translator --activations=int8
    python -m lwt.export.c --workdir=runs/embbert --adapter=topic=runs/topic --adapter=mood=runs/mood --out=firmware
    make -C firmware test

Prints the report as JSON on the last line, and writes it to report.json; docs/microcontroller.md explains it.
"""

import logging

from absl import flags

from lwt.export.c import costs, export, tasks
from lwt.machine import command_line

LOG = logging.getLogger(__name__)


def main():
    """The program: writes the folder, and prints the report."""
    values = flags.FLAGS
    decoding = {"beams": values.beams} if values.beams else None
    source = tasks.open_run(decoding=decoding)
    many = tasks.of_flags(source)
    options = {"activations": values.activations, "budget": values.budget, "prefix": values.prefix}
    options |= {"sentences": values.sentence or (), "clock": values.clock, "many": many}
    report = export.export(source, values.out, **options)
    if "flash_total" in report:
        LOG.info("flash: %s bytes, RAM: %s bytes", *(f"{report[name]:,}" for name in ("flash_total", "ram_total")))
    if "not_measured" in report:
        LOG.warning("not measured: %s", report["not_measured"])
    LOG.info("next: make -C %s test", values.out)
    command_line.report({"folder": values.out, **report})


if __name__ == "__main__":  # flags belong to the program
    command_line.define_run(out="Folder to write.")
    flags.DEFINE_enum("activations", "fp16", export.ACTIVATIONS, "Type that states between the layers are rounded to.")
    flags.DEFINE_string("prefix", "lwt", "First part of all names in C; another one for each model of a program.")
    flags.DEFINE_multi_string("sentence", None, "Text to measure; twice for a record of two texts.")
    tasks.define_flags()
    flags.DEFINE_float("clock", costs.CLOCK, "Clock of the device in MHz, to estimate the time.", lower_bound=1e-3)
    flags.DEFINE_integer("beams", None, "Beams of a translator; default: the run's.", lower_bound=1, upper_bound=8)
    flags.DEFINE_integer("budget", None, "Most bytes of flash and RAM together; more is an error.", lower_bound=1)
    command_line.run(main, required=["workdir", "out"])
