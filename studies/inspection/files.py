"""Measures a run as files for LiteRT, ONNX Runtime and the service: bytes, time, error, and answers equal to JAX.

    python -m studies.inspection.files --workdir=runs/snips-float32 --out=docs/results/files
    python -m studies.inspection.files --workdir=pretrained/multi30k-small --records=100 --out=docs/results/files
    python -m studies.inspection.files --out=docs/results/files --report_only

A run adds the table of its files to the page, or measures them anew. All files that the run can have are written and
compared with it, in every format. Nothing else should run on the machine meanwhile. What the columns mean:
`lwt/export/phone/classify.py`, `lwt/export/phone/translate.py` and `lwt/export/service/folder.py`. Needs:

    pip install '.[litert,onnx]' && pip install --no-deps litert-converter==0.5.0 jax2onnx==0.17.1
"""

import pathlib
import tempfile
import time

from absl import flags

from lwt.export.phone import classify, translate
from lwt.export.service import folder
from lwt.machine import command_line, hardware
from lwt.report import pages, results
from lwt.runs import experiment
from lwt.tasks import similarity

HOW_TO_READ = """\
A row is a file; the formats are those of [phones and desktops](../../phone.md), and of [the service](../../serve.md).
A translator has two files, whose bytes are added. Errors and answers are compared with the run in JAX, in float32;
"least cosine" is the least between a vector and that of JAX.

"ms" is the median time of one text alone. LiteRT and ONNX files run on one thread and take turns with JAX, which is
compiled and uses all threads. The service runs on one thread, and its time includes cleaner and tokenizer. "99 %" is
the time that one text in a hundred exceeds; "texts/s" counts batches of 32.
"""
SHARE = "{:.2f} %"
COLUMNS = {  # metric -> column of the table, and how its numbers are written
    "bytes": ("bytes", "{:,.0f}"),
    "milliseconds": ("ms", "{:.2f}"),
    "jax_milliseconds": ("ms, JAX", "{:.2f}"),
    "p99_milliseconds": ("ms, 99 %", "{:.2f}"),
    "texts_per_second": ("texts/s", "{:,.0f}"),
    "relative_error": ("largest error / largest output", "{:.2g}"),
    "agreement": ("equal answers", SHARE),
    "least_cosine": ("least cosine", "{:.4f}"),
    "accuracy": ("accuracy", SHARE),
    "jax_accuracy": ("accuracy in JAX", SHARE),
    "bleu": ("BLEU", "{:.2f}"),
    "jax_bleu": ("BLEU in JAX", "{:.2f}"),
    "records": ("records", "{:,.0f}"),
}
TITLES = {"litert": "LiteRT", "onnx": "ONNX", "service": "service"}
OF_SERVICE = {"p50_milliseconds": "milliseconds", "largest_error": "relative_error", "lwt_accuracy": "jax_accuracy"}
ABOUT = {  # name of a run -> what it is
    "snips-float32": """\
EmbBERT with 358,151 weights on Snips, rows of 256 tokens, trained by

    python train.py --workdir=runs/snips-float32 \\
        --config=configs/embbert_finetune.py:recipe=tuned,precision=float32,base=pretrained/embbert-tinynlp,task=snips
""",
    "mamba-snips": """\
MAMBA(2MB) with 220,423 weights on Snips, rows of 256 tokens, trained by

    python train.py --config=configs/finetune.py:base=pretrained/mamba-2mb-tinynlp,data=folder:snips,epochs=3 \\
        --workdir=runs/mamba-snips
""",
    "lh-vit": """\
LH-ViT with 231,866 weights on generated radar maps of 128 × 128, almost untrained:

    python train.py --config=configs/lh_vit.py:model=lh_vit,epochs=0.06 --workdir=runs/lh-vit
""",
    "radar-vit": """\
The ViT that LH-ViT is compared with, with 231,576 weights, almost untrained:

    python train.py --config=configs/lh_vit.py:model=vit,epochs=0.06 --workdir=runs/radar-vit
""",
    "multi30k-small": "The small translator of this repository (2.0 MB), German to English, up to 64 tokens.\n",
    "all-MiniLM-L6-v2": "An encoder with 22.7 M weights that gives vectors, in `models/all-MiniLM-L6-v2`.\n",
}


def files_of(source):
    """``[(runtime, format)]`` of all files that a run can have."""
    if hasattr(source.task, "generate"):
        return [(runtime, format) for runtime in classify.RUNTIMES for format in translate.FORMATS]
    image, found = "image" in source.model.example(), []
    if hasattr(source.task, "predict") and not isinstance(source.task, similarity.Similarity):
        for runtime, module in classify.RUNTIMES.items():
            found += [(runtime, format) for format in module.FORMATS if not (image and format == "int8")]
    return found + [("service", precision) for precision in folder.FORMATS if not image]


def measure(source, runtime, format, *, records=None, data=""):
    """``{metric: number}`` of a file; the metrics are those of `COLUMNS`.

    Args:
        source: the run.
        runtime, format: one of `files_of`.
        records: number of test records to compare; None: all.
        data: set that the service is compared on; "": see `folder.write`.
    """
    with tempfile.TemporaryDirectory() as place:
        out = pathlib.Path(place, "made")
        if runtime == "service":
            report = folder.write(source, out, precision=format, records=records, data=data)
        elif hasattr(source.task, "generate"):
            report = translate.export(source, out, runtime=runtime, format=format, records=records)
            report["bytes"] = sum(report["bytes"].values())
        else:
            path = out.with_suffix(f".{classify.RUNTIMES[runtime].SUFFIX}")
            report = classify.export(source, path, runtime=runtime, format=format, records=records)
    named = {OF_SERVICE.get(key, key): value for key, value in report.items()}
    return {key: (100 if form is SHARE else 1) * named[key] for key, (_, form) in COLUMNS.items() if key in named}


def rows_of(source, *, name, command_line, **options):
    """Rows for ``results.json`` of all files of a run, one per figure."""
    rows = []
    for runtime, format in files_of(source):
        begin = time.perf_counter()
        figures = measure(source, runtime, format, **options)
        fixed = {
            "config": name,
            "overrides": {"runtime": runtime, "format": format},
            "seed": None,
            "split": options.get("data") or source.test or "none",
            "paper": None,
            "hardware": hardware.describe(),
            "seconds": round(time.perf_counter() - begin, 2),
            "command": command_line,
        }
        rows += [fixed | {"metric": metric, "value": value} for metric, value in figures.items()]
    return rows


def cells(rows):
    """``{run: {file: {column: text}}}``."""
    found = {}
    for row in rows:
        own, (column, form) = row["overrides"], COLUMNS[row["metric"]]
        files = found.setdefault(pathlib.PurePosixPath(row["config"]).name, {})
        files.setdefault(f"{TITLES[own['runtime']]} {own['format']}", {})[column] = form.format(row["value"])
    return found


def write(out, rows):
    """Writes README.md and results.json into the folder `out`; returns their names."""
    first = rows[0]["command"]
    page = pages.Page(out, "Files for phones, desktops and the service", command_line=first)
    found = cells(page.rows(rows))
    page.add(HOW_TO_READ)
    for name, files in found.items():
        own = [row for row in rows if pathlib.PurePosixPath(row["config"]).name == name]
        again = "" if own[0]["command"] == first else f"    {own[0]['command']}"
        columns = [column for column, _ in COLUMNS.values() if any(column in file for file in files.values())]
        body = [[file, *(line.get(column, "") for column in columns)] for file, line in files.items()]
        machine = f"Measured on {pages.machines(own)}."
        page.add(f"## {name}", again, ABOUT.get(name, ""), machine, results.markdown(["file", *columns], body))
    return page.write()


def main():
    """The program: measures the files of one run, and writes the page of all."""
    values, line = flags.FLAGS, pages.command_line()
    path = pathlib.Path(values.out, "results.json")
    rows = results.load(path) if path.exists() else []
    if not values.report_only:
        source = experiment.load(
            values.workdir, checkpoint=values.checkpoint, base=values.base, precision=classify.PRECISION
        )
        options = {"records": values.records, "data": values.data}
        new = rows_of(source, name=values.workdir, command_line=line, **options)
        rows = [row for row in rows if row["config"] != values.workdir] + new
    print(f"wrote {values.out}/{', '.join(write(values.out, rows))}")


if __name__ == "__main__":
    command_line.define_run(out="Folder of the page.")
    flags.DEFINE_integer("records", None, "Number of test records to compare; default: all.", lower_bound=1)
    flags.DEFINE_string("data", "", "Set that the service is compared on, KIND:NAME@SPLIT; default: the test set.")
    pages.define_report_only()
    command_line.run(main, required=["out"])
