"""Builds a classifier for every core, compiler and type of states, and runs its self-test on QEMU's boards.

    python -m studies.inspection.boards --workdir=runs/intents --out=docs/results/boards
    python -m studies.inspection.boards --workdir=runs/mamba-snips \
        --weights=runs/mamba-snips/export/int4-calibrated.safetensors --out=docs/results/boards
    python -m studies.inspection.boards --out=docs/results/boards --report_only

A run adds its table to the page, or measures it anew. Needs QEMU and both compilers:

    apt install qemu-system-arm gcc-arm-none-eabi libnewlib-arm-none-eabi
    pip install '.[c]'
"""

import pathlib
import tempfile
import time

from absl import flags

from lwt import errors
from lwt.export.c import export, tasks, toolchain
from lwt.machine import command_line, hardware
from lwt.report import pages, results

COMPILERS = ("gcc", "zig")
HOW_TO_READ = """\
A cell has the bytes of the linked firmware, flash and RAM together, if its self-test passes on the emulated board with
the same result, bit for bit, as on this machine; otherwise it says **what went wrong**. "fp16" and "int8" are the types
of the states between layers, gcc and zig the compilers. The boards are those of `make qemu`;
[microcontroller.md](../../microcontroller.md) lists them.
"""
ABOUT = {  # name of a run -> what it is
    "intents": """\
A classifier that fits on every board: an EmbBERT with 27 kB of weights and scales, trained by

    python train.py --workdir=runs/intents \\
        --config=configs/embbert_finetune.py:task=snips,recipe=tuned,vocabulary=1024,epochs=3,precision=bfloat16 \\
        --config.model.width=32 --config.model.reduced=16 --config.model.layers=2 --config.model.kernel_size=8 \\
        --config.model.max_length=32 --config.data.row_length=32
""",
    "mamba-snips": """\
MAMBA(2MB) with weights of four bits; with those of eight it is some kilobytes larger than the flash of the board with a
Cortex-M0+ (256 kB). Made by

    python train.py --config=configs/finetune.py:base=pretrained/mamba-2mb-tinynlp,data=folder:snips,epochs=3 \\
        --workdir=runs/mamba-snips
    python -m lwt.export.quantize --workdir=runs/mamba-snips --format=int4 --block=32 --rounding=calibrated
""",
}


def cell(folder, *, core, compiler, bits):
    """``{"bytes", "passed", "same_bits"}`` of an exported folder; without bytes if it is not built.

    `bits` are those of the self-test on this machine.
    """
    try:
        path, _ = toolchain.firmware(folder, core=core, compiler=compiler)
    except errors.ConfigError:
        return {"built": 0}
    found = {"built": 1, "bytes": toolchain.read(path).sizes()["total"]}
    try:
        said = toolchain.qemu(folder, core=core, compiler=compiler)
    except errors.ConfigError:
        return found | {"passed": 0}
    return found | {"passed": 1, "same_bits": int(said == f"self-test: passed, bits {bits}")}


def measure(source, *, command_line):
    """Rows for ``results.json`` of a run, one per figure."""
    rows = []
    for activations in export.ACTIVATIONS:
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            export.write(source, folder, activations=activations)
            bits = toolchain.make(folder, "test", CC=toolchain.host()).split()[-1]
            for core in toolchain.CORES:
                for compiler in COMPILERS:
                    begin = time.perf_counter()
                    figures = cell(folder, core=core, compiler=compiler, bits=bits)
                    fixed = {
                        "config": str(source.workdir),
                        "overrides": {"core": core, "compiler": compiler, "states": activations},
                        "seed": None,
                        "split": "none",
                        "paper": None,
                        "hardware": hardware.describe(),
                        "seconds": round(time.perf_counter() - begin, 2),
                        "command": command_line,
                    }
                    rows += [fixed | {"metric": name, "value": value} for name, value in figures.items()]
    return rows


def write(out, rows):
    """Writes README.md and results.json into the folder `out`; returns their names."""
    first, found = rows[0]["command"], {}
    page = pages.Page(out, "Cores, compilers and types of states", command_line=first)
    for row in page.rows(rows):
        key = tuple(row["overrides"][name] for name in ("core", "states", "compiler"))
        found.setdefault((row["config"], row["command"]), {}).setdefault(key, {})[row["metric"]] = row["value"]
    columns = [(states, compiler) for states in export.ACTIVATIONS for compiler in COMPILERS]
    header = ["core", *(f"{states}, {compiler}" for states, compiler in columns)]
    page.add(HOW_TO_READ)
    for (config, command), cells in found.items():
        name = pathlib.Path(config).name
        body = [[f"`{core}`", *(text(cells[core, *column]) for column in columns)] for core in toolchain.CORES]
        again = "" if command == first else f"    {command}"
        page.add(f"## {name}", again, ABOUT.get(name, ""), results.markdown(header, body))
    return page.write()


def text(figures):
    """A cell of the table."""
    if not figures["built"]:
        return "**not built**"
    if not figures["passed"]:
        return "**failed**"
    return f"{figures['bytes']:,}" if figures["same_bits"] else "**other bits**"


def main():
    """The program: builds, runs, and writes the page."""
    values, line = flags.FLAGS, pages.command_line()
    path = pathlib.Path(values.out, "results.json")
    rows = results.load(path) if path.exists() else []
    if not values.report_only:
        rows = [row for row in rows if row["config"] != values.workdir]
        rows += measure(tasks.open_run(), command_line=line)
    print(f"wrote {values.out}/{', '.join(write(values.out, rows))}")


if __name__ == "__main__":
    command_line.define_run(out="Folder of the page.")
    flags.DEFINE_string("weights", "", "File of lwt.export.quantize, in place of the run's own weights.")
    pages.define_report_only()
    command_line.run(main, required=["out"])
