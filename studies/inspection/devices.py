"""Measures a program in C and WebAssembly: bytes, instructions, and how many answers equal those of the model.

    python -m studies.inspection.devices --workdir=pretrained/snips-int4 --emulated=50 --out=docs/results/devices
    python -m studies.inspection.devices --workdir=runs/snips --activations=int8 --out=docs/results/devices
    python -m studies.inspection.devices --out=docs/results/devices --report_only

A run adds its program to the page, or measures it anew. Needs Node, a compiler for this machine, and:

    pip install '.[c]'

The figures are the same at every repetition; times are not among them.
"""

import pathlib
import tempfile
import time

from absl import flags

from lwt.export.c import check, export, tasks
from lwt.export.wasm import check as wasm_check
from lwt.export.wasm import folder
from lwt.machine import command_line, hardware
from lwt.report import pages, results

HOW_TO_READ = """\
A column is the program in C of one run, made by one of the commands below. Runs in `pretrained/` are shipped; [the
programs' figures](../../microcontroller_figures.md), [many tasks](../../many_tasks.md) and [the page of
files](../files/README.md) say how the others were trained. Sizes are in bytes. Instructions are those for a short
sentence, or for the longest text that the program takes.

"The model" is the run in JAX, with the exported integers. "With rounded states" is a program in JAX (classifiers) or
NumPy (translators) that rounds states as the program in C does. The device is an emulated Cortex-M4F; ziglang compiles
for it. The texts are those of the run's test set. Flash includes the texts of the self-test, which come from the
validation set if its data are there, and are built in otherwise.
"""
BYTES, SHARE, BLEU = "{:,.0f}", "{:.2f} %", "{:.2f}"
LINES = {  # metric -> line of the table, and how its numbers are written
    "flash_weights": ("weights", BYTES),
    "flash_scales": ("scales", BYTES),
    "flash_tokenizer": ("tokenizer", BYTES),
    "flash_tasks": ("slots for tasks", BYTES),
    "flash": ("flash", BYTES),
    "ram": ("RAM", BYTES),
    "ram_arena": ("arena, part of the RAM", BYTES),
    "total": ("flash + RAM", BYTES),
    "slot": ("bytes of the slot in use", BYTES),
    "tokens": ("tokens of the sentence", BYTES),
    "instructions": ("instructions", BYTES),
    "worst_case": ("instructions, longest text", BYTES),
    "instructions_a_token": ("instructions per source token", BYTES),
    "instructions_a_step": ("instructions per decoding step", BYTES),
    "self_test_failures": ("failures of the self-test", BYTES),
    "texts": ("texts", BYTES),
    "eval_accuracy": ("accuracy of the model", SHARE),
    "model_accuracy": ("accuracy with rounded states", SHARE),
    "program_accuracy": ("accuracy of the program", SHARE),
    "model_bleu": ("BLEU of the model", BLEU),
    "bleu": ("BLEU of the program", BLEU),
    "agree": ("answers equal to those with rounded states", BYTES),
    "as_model": ("answers equal to those of the model", BYTES),
    "emulated": ("texts on the device", BYTES),
    "emulated_agree": ("answers equal to those of the device", BYTES),
    "wasm": ("`model.wasm`", BYTES),
    "gzip": ("`model.wasm`, gzipped", BYTES),
    "memory": ("memory of WebAssembly", BYTES),
    "wasm_equal": ("answers equal to those in Node", BYTES),
}
OF_TRANSLATORS = "instructions per decoding step"  # a line that only they have
OF_REPORT = ("total", "tokens", "instructions", "instructions_a_token", "instructions_a_step", "self_test_failures")


def measure(source, *, activations, emulated, records=0, many=None):
    """``{task: {metric: number}}`` of a program; the task is "" for what all tasks share.

    Arguments are those of `export.export` and `check.check`.
    """
    with tempfile.TemporaryDirectory() as place:
        made, page = pathlib.Path(place, "firmware"), pathlib.Path(place, "browser")
        report = export.export(source, made, activations=activations, many=many)
        answers = check.check(source, made, records=records, emulated=emulated, many=many)
        sizes = folder.export(source, page, activations=activations, many=many)
        again = wasm_check.check(source, page, records=records, many=many)
        parts = {f"flash_{part}": size for part, size in report["flash"].items()}
        shared = {key: parts[key] for key in LINES if parts.get(key)}
        shared |= {"flash": report["flash_total"], "ram": report["ram_total"], "ram_arena": report["ram"]["arena"]}
        shared |= {key: report[key] for key in OF_REPORT if key in report}
        shared |= {"worst_case": report["worst_case"]["instructions"]} if "worst_case" in report else {}
        shared |= {"wasm": sizes["files"][folder.WASM], "gzip": sizes["gzip"]}
        shared |= {"memory": wasm_check.node(page, "model.memory")}
    if not many:
        answers, again = {"": answers}, {"": again}
    found = {task: _known(row) | {"wasm_equal": again[task]["equal"]} for task, row in answers.items()}
    for task, about in report.get("tasks", {}).items():
        found[task] |= {"slot": about["bytes"]["total"]}
    return {"": shared | found.pop("", {})} | found


def _known(figures):
    """The figures of a check that are kept, under one name for both kinds of models."""
    names = {"sentences": "texts", "equal": "agree"}
    found = {names.get(key, key): value for key, value in figures.items()}
    return {key: found[key] for key in LINES if key in found}


def name(row):
    """The program of a row."""
    chosen = row["overrides"]
    parts = [pathlib.Path(row["config"]).name, pathlib.Path(chosen["weights"]).stem]
    return f"{' '.join(filter(None, parts))}, {chosen['states']} states"


def cells(rows):
    """``{program: {task: {line of the table: text}}}``; the task is "" for what all tasks share."""
    found = {}
    for row in rows:
        line, form = LINES[row["metric"]]
        columns = found.setdefault(name(row), {})
        columns.setdefault(row["overrides"]["task"], {})[line] = form.format(row["value"])
    return found


def write(out, rows):
    """Writes README.md and results.json into the folder `out`; returns their names."""
    commands = [*dict.fromkeys(row["command"] for row in rows)]
    page = pages.Page(out, "Programs for devices", command_line=commands[0])
    found = cells(page.rows(rows))
    page.add(HOW_TO_READ, "\n".join(f"    {command}" for command in commands))
    shared = {program: columns[""] for program, columns in found.items()}
    for kind in ("Classifiers", "Translators"):
        translates = kind == "Translators"
        chosen = {program: column for program, column in shared.items() if (OF_TRANSLATORS in column) == translates}
        lines = _lines(chosen)
        body = [[line, *(column.get(line, "") for column in chosen.values())] for line in lines]
        if chosen:
            page.add(f"## {kind}", results.markdown(["", *chosen], body))
    for program, columns in found.items():
        own = {task: column for task, column in columns.items() if task}
        lines = _lines(own)
        body = [[task, *(column.get(line, "") for line in lines)] for task, column in own.items()]
        if own:
            page.add(f"## Tasks of {program}", results.markdown(["task", *lines], body))
    return page.write()


def _lines(columns):
    """The lines that at least one of ``{name: {line: text}}`` has, in order."""
    return [line for line, _ in LINES.values() if any(line in column for column in columns.values())]


def main():
    """The program: measures one program, and writes the page of all."""
    values, line = flags.FLAGS, pages.command_line()
    path = pathlib.Path(values.out, "results.json")
    rows = results.load(path) if path.exists() else []
    if not values.report_only:
        begin, source = time.perf_counter(), tasks.open_run()
        options = {"activations": values.activations, "records": values.records, "emulated": values.emulated}
        found = measure(source, many=tasks.of_flags(source), **options)
        fixed = {"config": values.workdir, "seed": None, "split": source.config.data.test, "paper": None}
        fixed |= {"hardware": hardware.describe(), "seconds": round(time.perf_counter() - begin, 2), "command": line}
        about = {"weights": pathlib.Path(values.weights).name, "states": values.activations}
        new = [
            fixed | {"overrides": about | {"task": task}, "metric": metric, "value": value}
            for task, figures in found.items()
            for metric, value in figures.items()
        ]
        named = {name(row) for row in new}
        rows = [row for row in rows if name(row) not in named] + new
    print(f"wrote {values.out}/{', '.join(write(values.out, rows))}")


if __name__ == "__main__":
    command_line.define_run(out="Folder of the page.")
    flags.DEFINE_enum("activations", "int8", export.ACTIVATIONS, "Type that states between the layers are rounded to.")
    flags.DEFINE_integer("records", 0, "Number of texts to draw from every test set; 0: all.", lower_bound=0)
    flags.DEFINE_integer("emulated", 10, "Number of texts to run on the emulated device.", lower_bound=0)
    tasks.define_flags()
    pages.define_report_only()
    command_line.run(main, required=["out"])
