"""Compares a run in every number format: quality, bytes and time.

    python -m studies.lighter.quantize --workdir=runs/mt --out=docs/results/quantization
    python -m studies.lighter.quantize --workdir=runs/mt --out=docs/results/quantization --only=int8 --records=200

Writes each format of `WAYS` to a file in ``WORKDIR/quantize_study/`` and evaluates the model on the run's test set from
that file. An interrupted study resumes: it does not evaluate a format twice. Then it times all models in turn
(`lwt/machine/latency.py`) and writes README.md, results.json, formats.csv and a picture.
"""

import dataclasses
import os
import re
import time

from absl import flags

import lwt
from lwt import errors
from lwt.export import calibrate
from lwt.export import quantize as export
from lwt.inspect import measuring
from lwt.layers import linear
from lwt.machine import command_line, hardware, latency
from lwt.reparam.compression import quantize
from lwt.report import pages, results, study
from lwt.runs import integer_file as artefact
from studies.lighter import fronts

INTEGERS = {"block": 0}  # one scale per output, which integer products need
WAYS = {  # name -> arguments of `quantize.Quantize`, or a float type
    "float32": "float32",
    "float16": "float16",
    "int8": {},
    "int8-rows": INTEGERS,
    "int8-dynamic": {**INTEGERS, "activations": "dynamic"},
    "int8-static": {**INTEGERS, "activations": "static"},
    "fp8": {"format": "fp8"},
    "int4-32": {"format": "int4", "block": 32},
    "int4-64": {"format": "int4", "block": 64},
}
FOLDER = "quantize_study"
HOW_TO_READ = """\
All files hold the weights of one run, so small differences of quality may be chance. `lwt.export.quantize` writes
them. Biases, norms and other vectors are float16, but float32 in the file "float32". "int8" and "fp8" have one scale
for 64 weights of a kernel or table, "int4-64" too, "int4-32" one for 32, and "int8-rows" one for every output.

"int8-dynamic" and "int8-static" multiply integers by integers: the inputs of the kernels are rounded to int8 as well,
by the maximum of each token, or by ranges from {calibrate} records of the validation set. All other formats of integers
multiply floats by the integers as they are, or, in kernels of more than eight blocks, by the floats that these stand
for. Float16 is converted to float32 when it is loaded.

Times are medians on {machine}, over {rounds} rounds in which all models take turns, of one record alone and of batches
of {rows}. ▪ marks what no other model beats in quality at as many bytes, or at as much time.
"""


def choose(only=""):
    """The names of `WAYS` that the regular expression `only` finds; float32 is always included.

    Raises:
        lwt.errors.ConfigError: `only` is not a regular expression.
    """
    try:
        return [name for name in WAYS if name == "float32" or re.search(only, name)]
    except re.error as error:
        raise errors.ConfigError(f"--only={only!r} is not a regular expression: {error}") from error


def write(experiment, name, *, path, limits=None):
    """Writes the weights in one of `WAYS`; returns the bytes of the file.

    Args:
        experiment: an experiment whose weights are arrays.
        name: a key of `WAYS`.
        path: the file.
        limits: limits of static activations, from `calibrate.limits`.
    """
    way = WAYS[name]
    if isinstance(way, str):
        info = {**experiment.identity, "step": experiment.step}
        return artefact.write(path, experiment.weights, rest=way, info=info)
    return export.export(experiment, path, quantization=quantize.Quantize(**way), limits=limits)


def evaluate(experiment, names, *, records=0, calibrated=calibrate.RECORDS):
    """Evaluates formats, or reads their records: ``{name: record}``, with bytes, figures and settings.

    Args:
        experiment: an experiment whose weights are arrays.
        names: from `choose`.
        records: number of test records; 0: all.
        calibrated: number of validation records for static ranges; 0: all.
    """
    folder, evaluated = os.path.join(experiment.workdir, FOLDER), {}
    for name in names:
        same = {"way": WAYS[name], "checkpoint": experiment.step, "data": experiment.test, "records": records}
        static = isinstance(WAYS[name], dict) and WAYS[name].get("activations") == "static"
        same |= {"calibrate": calibrated} if static else {}
        path, record = os.path.join(folder, f"{name}.safetensors"), f"{name}.json"
        kept = study.read_record(folder, record) or {}
        if not os.path.exists(path) or any(kept.get(key) != value for key, value in same.items()):
            limits = calibrate.limits(experiment, records=calibrated) if static else None
            size = write(experiment, name, path=path, limits=limits)
            figures = experiment.with_file(path).evaluate(limit=records)[0]
            kept = {**same, "bytes": size, "parts": artefact.parts(path), "figures": figures}
            study.write_record(folder, kept, record=record)
        evaluated[name] = kept
    return evaluated


def points(experiment, evaluated, *, rounds):
    """`measuring.Point` objects of the evaluated files, timed in turn.

    Args:
        experiment: an experiment whose weights are arrays.
        evaluated: from `evaluate`.
        rounds: number of turns of every model.
    """
    folder = os.path.join(experiment.workdir, FOLDER)
    models = {name: experiment.with_file(os.path.join(folder, f"{name}.safetensors")) for name in evaluated}
    seconds, made = latency.of_runs(models, rows=measuring.ROWS, rounds=rounds), []
    task, origin = measuring.title(experiment), measuring.made_by(experiment.workdir)
    for name, record in evaluated.items():
        metric, lower, quality = measuring.figure_of(experiment.config, record["figures"])
        how = origin if name == "float32" else f"{origin}, rounded"
        point = measuring.Point(name, how, task, metric, lower, quality, 1, record["bytes"])
        alone, together = seconds[name]
        made.append(dataclasses.replace(point, milliseconds=1e3 * alone, rate=measuring.ROWS / together))
    return made


def write_page(out, measured, *, command_line, rows, **about):
    """Writes README.md, results.json, formats.csv and pictures into the folder `out`; returns their names.

    Args:
        measured: from `points`.
        rows: of ``results.json``.
        about: ``calibrate``, ``machine``, ``rounds`` and ``records``.
    """
    data = measured[0].task.partition("@")[0].removeprefix("folder:")
    page = pages.Page(out, f"Number formats of {measured[0].made} on {data}", command_line=command_line)
    page.rows(rows)
    page.csv("formats.csv", table(measured))
    scored = f"the first {about['records']} records" if about["records"] else "all records"
    page.add(f"Quality is measured on {scored} of the test set.", HOW_TO_READ.format(rows=measuring.ROWS, **about))
    fronts.add(page, measured)
    return page.write()


def table(measured):
    """``(header, lines)``: quality, its difference from float32, bytes, milliseconds and rate of every point."""
    float32 = next(point.quality for point in measured if point.name == "float32")
    header = ["format", measured[0].metric, "difference", "bytes", "milliseconds_alone", "records_a_second"]
    return header, [
        [p.name, f"{p.quality:.6g}", f"{p.quality - float32:.6g}", p.bytes, f"{p.milliseconds:.4g}", f"{p.rate:.4g}"]
        for p in measured
    ]


def main():
    """The program: evaluates, times, and writes the page."""
    values = flags.FLAGS
    names, path = choose(values.only), os.path.join(values.out, "results.json")
    if not values.report_only:
        results.write(path, measured(values, names))
    rows = results.load(path)
    about = {key: getattr(values, key) for key in ("calibrate", "rounds", "records")}
    about |= {"machine": rows[0]["hardware"], "command_line": rows[0]["command"]}
    files = write_page(values.out, fronts.points_of(rows), rows=rows, **about)
    command_line.report({"out": values.out, "formats": names, "files": files})


def measured(values, names):
    """Evaluates and times the formats `names`; returns the rows of ``results.json``. `values` are the flags."""
    begin = time.perf_counter()
    stored = lwt.load(values.workdir, checkpoint=values.checkpoint, base=values.base)
    experiment = stored.with_weights(linear.merge(stored.weights), name="float32", step=stored.step)
    evaluated = evaluate(experiment, names, records=values.records, calibrated=values.calibrate)
    found = points(experiment, evaluated, rounds=values.rounds)
    seconds = round(time.perf_counter() - begin, 1)
    return fronts.rows(found, machine=hardware.describe(), seconds=seconds, command_line=pages.command_line())


if __name__ == "__main__":
    command_line.define_run()
    flags.DEFINE_string("out", "docs/results/quantization", "Folder of the page.")
    command_line.define_regex("only", "", help="Regular expression for the formats to measure besides float32.")
    flags.DEFINE_integer("records", 0, "Number of test records; 0: all.", lower_bound=0)
    flags.DEFINE_integer(
        "calibrate", calibrate.RECORDS, "Number of validation records for static ranges; 0: all.", lower_bound=0
    )
    flags.DEFINE_integer("rounds", 7, "Number of turns of every model in the timing.", lower_bound=1)
    pages.define_report_only()
    command_line.run(main, required=["workdir"])
