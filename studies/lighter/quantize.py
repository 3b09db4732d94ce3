"""One run in every format of numbers: what each costs in quality, and saves in bytes and time.

    python -m studies.lighter.quantize --workdir=runs/mt --out=docs/results/quantization
    python -m studies.lighter.quantize --workdir=runs/mt --out=docs/results/quantization --only=int8 --records=200

Every format of `WAYS` becomes a file in ``WORKDIR/quantize_study/``, and the model is evaluated on the run's test set
from that file. What was evaluated there is not evaluated again, so that a study that broke off goes on. Then all models
are timed in turn (`lwt/machine/latency.py`), and README.md, results.json, formats.csv and a picture are written.
"""

import csv
import dataclasses
import os
import pathlib
import re
import time

from absl import flags

from lwt import errors
from lwt.export import calibrate
from lwt.export import quantize as export
from lwt.inspect import fronts, measuring
from lwt.layers import linear
from lwt.machine import command_line, hardware, latency
from lwt.reparam import quantize
from lwt.report import pages, results, study
from lwt.runs import experiment
from lwt.runs import integer_file as artefact

INTEGERS = {"block": 0}  # a scale for every output, which products of integers take
WAYS = {  # name -> arguments of `quantize.Quantize`, or a type of floats
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
The files are those of `lwt.export.quantize`; biases, norms and other vectors are float16 in them, of float32 float32.
"int8" and "fp8" have a scale for 64 weights, "int4-32" one for 32, "int8-rows" one for every output of a kernel.
"int8-dynamic" and "int8-static" multiply integers with integers: what meets the kernels is rounded to int8, by each
token's own maximum, or by ranges from {calibrate} records of the validation set. All others multiply floats with the
integers as they are, or, of more than eight blocks, with what these stand for. Float16 is float32 again once it is
loaded. Times: {machine}, medians of {rounds} rounds in which all models take turns, of a record alone and in batches
of {rows}. ▪ marks what no other model beats for as many bytes, or as much time.
"""


def choose(only=""):
    """The names of `WAYS` that have a part that the regex `only` matches; float32 always.

    Raises:
        lwt.errors.ConfigError: it is no regular expression.
    """
    try:
        return [name for name in WAYS if name == "float32" or re.search(only, name)]
    except re.error as error:
        raise errors.ConfigError(f"--only={only!r} is not a regular expression: {error}") from error


def write(opened, name, path, *, limits=None):
    """Writes the file of one of `WAYS`; returns its bytes.

    Args:
        opened: an `experiment.Experiment` whose weights are arrays.
        name: a key of `WAYS`.
        path: of the file.
        limits: of static activations, from `calibrate.limits`.
    """
    way = WAYS[name]
    if isinstance(way, str):
        info = {**opened.identity, "step": opened.step}
        return artefact.write(path, opened.weights, rest=way, info=info)
    return export.export(opened, path, quantization=quantize.Quantize(**way), limits=limits)


def evaluate(opened, names, *, records=0, calibrated=calibrate.RECORDS):
    """``{name: record}`` of what is kept beside the files: bytes and figures, and what they were measured with.

    Args:
        opened: an `experiment.Experiment` whose weights are arrays.
        names: from `choose`.
        records: of the test set; 0: all.
        calibrated: records for static ranges; 0: all.
    """
    folder, found = os.path.join(opened.workdir, FOLDER), {}
    for name in names:
        same = {"way": WAYS[name], "checkpoint": opened.step, "data": opened.test, "records": records}
        static = isinstance(WAYS[name], dict) and WAYS[name].get("activations") == "static"
        same |= {"calibrate": calibrated} if static else {}
        path, record = os.path.join(folder, f"{name}.safetensors"), f"{name}.json"
        kept = study.read_record(folder, record) or {}
        if not os.path.exists(path) or any(kept.get(key) != value for key, value in same.items()):
            limits = calibrate.limits(opened, records=calibrated) if static else None
            size = write(opened, name, path, limits=limits)
            figures = opened.with_file(path).evaluate(limit=records)[0]
            kept = {**same, "bytes": size, "parts": artefact.parts(path), "figures": figures}
            study.write_record(folder, kept, record=record)
        found[name] = kept
    return found


def points(opened, found, *, rounds):
    """`fronts.Point` objects of the evaluated files, timed in turn.

    Args:
        opened: an `experiment.Experiment` whose weights are arrays.
        found: from `evaluate`.
        rounds: turns of every model.
    """
    folder = os.path.join(opened.workdir, FOLDER)
    models = {name: opened.with_file(os.path.join(folder, f"{name}.safetensors")) for name in found}
    seconds, made = latency.of_runs(models, rows=measuring.ROWS, rounds=rounds), []
    task, origin = measuring.title(opened), measuring.made_by(opened.workdir)
    for name, record in found.items():
        metric, lower, quality = measuring.figure_of(opened.config, record["figures"])
        how = origin if name == "float32" else f"{origin}, rounded"
        point = fronts.Point(name, how, task, metric, lower, quality, 1, record["bytes"])
        alone, together = seconds[name]
        made.append(dataclasses.replace(point, milliseconds=1e3 * alone, rate=measuring.ROWS / together))
    return made


def page(measured, folder, *, command, **about):
    """The Markdown page; draws its picture into `folder`.

    Args:
        measured: from `points`.
        folder: of the page.
        command: what makes it again.
        about: ``calibrate``, ``machine``, ``rounds`` and ``records``.
    """
    text, names = fronts.sections(measured, folder, beside="")
    scored = f"the first {about['records']} records" if about["records"] else "all records"
    head = ["# One run in every format", "", f"    {command}", "", f"Quality is that on {scored} of the test set.", ""]
    return "\n".join([*head, HOW_TO_READ.format(rows=measuring.ROWS, **about), text]), names


def write_csv(path, measured):
    """The points as a table for other programs: quality, its difference to float32, bytes, milliseconds, rate."""
    whole = next(point.quality for point in measured if point.name == "float32")
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        metric = measured[0].metric
        table.writerow(["format", metric, "difference", "bytes", "milliseconds_alone", "records_a_second"])
        for p in measured:
            table.writerow(
                [p.name, f"{p.quality:.6g}", f"{p.quality - whole:.6g}", p.bytes, f"{p.milliseconds:.4g}",
                 f"{p.rate:.4g}"]
            )  # fmt: skip


def main():
    """The program: evaluates, times, and writes the page."""
    values, begin = flags.FLAGS, time.perf_counter()
    names = choose(values.only)
    loaded = experiment.load(values.workdir, checkpoint=values.checkpoint)
    opened = loaded.with_weights(linear.merge(loaded.weights), name="float32", step=loaded.step)
    found = evaluate(opened, names, records=values.records, calibrated=values.calibrate)
    measured = points(opened, found, rounds=values.rounds)
    about = {key: getattr(values, key) for key in ("calibrate", "rounds", "records")}
    machine, line = hardware.describe(), pages.command_line()
    out, seconds = pathlib.Path(values.out), round(time.perf_counter() - begin, 1)
    out.mkdir(parents=True, exist_ok=True)
    results.write(out / "results.json", fronts.rows(measured, machine=machine, seconds=seconds, command=line))
    write_csv(out / "formats.csv", measured)
    text, pictures = page(measured, out, command=line, machine=machine, **about)
    (out / "README.md").write_text(text, encoding="utf-8")
    command_line.report({"out": values.out, "formats": names, "files": ["README.md", "results.json", *pictures]})


if __name__ == "__main__":
    command_line.define_run()
    flags.DEFINE_string("out", "docs/results/quantization", "Folder of the page.")
    flags.DEFINE_string("only", "", "A regex for the formats to take, beside float32.")
    flags.DEFINE_integer("records", 0, "So many records of the test set; 0: all.", lower_bound=0)
    flags.DEFINE_integer("calibrate", calibrate.RECORDS, "Records of the validation set for static ranges; 0: all.")
    flags.DEFINE_integer("rounds", 7, "Turns of every model in the timing.", lower_bound=1)
    command_line.run(main, required=["workdir"])
