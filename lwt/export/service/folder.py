"""Writes a trained classifier or regression of texts as a folder that answers without lwt and JAX.

model.onnx         takes batches of texts of any length, if the model can leave sizes open
tokenizer.model    or tokenizer.json
settings.json      labels, cleaner, row, temperature (`lwt.export.phone.settings`), and checksums of these files
predict.py, rows.py, cleaner.py    copies of modules of lwt, which import each other instead of lwt
README.md, requirements.txt        how to use it, and the versions that were tried
report.json        what was measured
"""

import importlib.metadata
import inspect
import pathlib
import re
import time

import numpy as np

import lwt
from lwt import errors, files
from lwt.data import text
from lwt.export import folders
from lwt.export.phone import classify
from lwt.export.service import predict, rows
from lwt.machine import hardware

ONNX = classify.RUNTIMES["onnx"]
FORMATS = {"float32": "float32", "int8": "dynamic"}  # precision -> format of lwt/export/phone/onnx.py
# Largest difference of an output from lwt's, relative to the largest output, and least share of equal labels.
LIMITS = {"float32": (1e-4, 0.999), "int8": (0.1, 0.95)}
MODEL, SETTINGS = "model.onnx", "settings.json"
ALONE, TOGETHER, ROUNDS = 200, 512, 3  # texts that are timed one at a time, and in batches; rounds of the latter
RUN = '\n\nif __name__ == "__main__":\n    main()\n'

CARD = """\
# {name}

Answers texts with the model `{model}` (task `{task}`, lwt {version}) in ONNX Runtime. lwt and JAX are not needed.

    pip install -r requirements.txt
    python predict.py texts.txt             # one text a line -> one answer a line
    python predict.py texts.txt --scores    # with a probability
    echo "{example}" | python predict.py -

```python
import predict

model = predict.load(".")
model.predict([{text!r}])
{more}
```

{about}`report.json` holds what was measured on `{data}`.
"""


def write(source, out, *, precision="float32", data="", records=None, threads=1):
    """Writes the folder of a run, whole or not at all, and returns its report.

    Args:
        source: an `experiment.Experiment` whose task gives classes or a number for texts; its precision is float32.
        out: the folder; an older export is replaced.
        precision: a key of `FORMATS`; int8 rounds as the format "dynamic" of `lwt.export.phone.classify` does.
        data: the set ``KIND:NAME@SPLIT`` to compare and to measure on; "": the run's test set.
        records: number of its records; None: all.
        threads: of the measurements.

    Returns:
        ``bytes`` of the model; ``largest_error`` of an output, relative to the largest; ``agreement``, the share of
        equal labels; figures of the folder, and of lwt; milliseconds of a text alone (median and 99th percentile), and
        ``texts_per_second`` in batches, both with tokenizer and cleaner, with ``threads`` and ``hardware``.

    Raises:
        lwt.errors.ConfigError: the answers differ from lwt's by more than `LIMITS`; ONNX packages are missing, or do
            not support the model; the run reads no texts, or gives no answers; the folder holds something else.
    """
    classify.require(ONNX)
    _check(source)
    found = source.data.evaluation(data or source.data.test, limit=records or 0)
    with folders.new(out, marker=SETTINGS) as new:
        _write_parts(source, new, precision=precision)
        model = predict.load(new, threads=threads)
        report = {"precision": precision, "bytes": (new / MODEL).stat().st_size}
        report |= _compared(source, model, found=found, limits=LIMITS[precision])
        report |= _measured(model, found.sources) | {"threads": threads, "hardware": hardware.describe()}
        files.write_json(new / "report.json", report)
        card = _card(source, pathlib.Path(out).name, example=found.sources[0], data=found.name)
        (new / "README.md").write_text(card, encoding="utf-8")
    return report


def _check(source):
    """Raises a ConfigError for a run that the folder cannot hold."""
    classify.require_precision(source)
    if not hasattr(source.data, "fields") or not hasattr(source.task, "predict"):
        kind, name = source.config.data.kind, source.config.task.name
        raise errors.ConfigError(
            f"{source.workdir}: data.kind={kind!r} with task.name={name!r} must classify or rate texts"
        )


def _write_parts(source, new, *, precision):
    """Writes model, tokenizer, settings and code to the folder `new`."""
    example = next(iter(source.data.batches(source.data.from_texts(["\t".join("a" for _ in source.data.fields)]))))
    model, about = classify.convert(source, ONNX, format=FORMATS[precision], example=example)
    files.write_bytes(new / MODEL, model)
    tokenizer = about["tokenizer"]["file"]
    files.write_bytes(new / tokenizer, files.read(source.tokenizer.path))
    about["files"] = {name: files.sha256(new / name) for name in (MODEL, tokenizer)}
    files.write_json(new / SETTINGS, about)
    for name, code in code_of_folder().items():
        (new / name).write_text(code, encoding="utf-8")
    packages = ("numpy", "onnxruntime", "tokenizers" if tokenizer.endswith(".json") else "sentencepiece")
    lines = [f"{package}=={importlib.metadata.version(package)}\n" for package in packages]
    (new / "requirements.txt").write_text("".join(lines), encoding="utf-8")


def code_of_folder():
    """The Python files of a folder, ``{name: text}``, made of modules of lwt."""
    check = inspect.getsource(text.Cleaner.__post_init__)  # of arguments that a run has used
    cleaner = inspect.getsource(text).replace(f"{check}\n", "").replace("from lwt import errors\n\n", "")
    return {
        "predict.py": inspect.getsource(predict).replace("from lwt.export.service import rows", "import rows") + RUN,
        "rows.py": inspect.getsource(rows).replace("from lwt.data import text as cleaner", "import cleaner"),
        "cleaner.py": re.sub(r'\n    Raises:\n(?:        .*\n)+(?=    """)', "", cleaner),
    }


def _compared(source, model, *, found, limits):
    """The part of the report about answers; raises a ConfigError if they differ too much from those of `source`."""
    wanted, outputs = np.asarray(source.outputs(found.sources)[0]), model.outputs(found.sources)
    error = float(np.abs(outputs - wanted).max() / np.abs(wanted).max())
    equal = np.mean([a == b for a, b in zip(model.predict(found.sources), source.answers(wanted), strict=True)])
    share = float(equal) if source.labels else 1.0  # a number is not equal as text
    if not (error <= limits[0] and share >= limits[1]):
        raise errors.ConfigError(
            f"the folder is not written: on {found.name} the largest error of an output is {error:.2g} of the largest "
            f"output of {source.workdir} and must be at most {limits[0]:g}; {share:.2%} of the labels are equal, and "
            f"{limits[1]:.1%} must be"
        )
    scores = {"": source.task.score(outputs, found.references), "lwt_": source.task.score(wanted, found.references)}
    return {
        "data": found.name,
        "records": len(found.sources),
        "largest_error": float(f"{error:.2g}"),
        **({"agreement": share} if source.labels else {}),
        **{prefix + name: x[name] for prefix, x in scores.items() for name in classify.FIGURES if name in x},
    }


def _measured(model, texts):
    """The part of the report about time, of all that `predict.Model.outputs` does."""
    alone, together = list(texts[:ALONE]), [texts[i % len(texts)] for i in range(TOGETHER)]
    model.outputs(together)  # the first call is slower
    seconds = []
    for one in alone:
        begin = time.perf_counter()
        model.outputs([one])
        seconds.append(time.perf_counter() - begin)
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        model.outputs(together)
        rounds.append(TOGETHER / (time.perf_counter() - begin))
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    figures = {"p50_milliseconds": round(float(p50), 3), "p99_milliseconds": round(float(p99), 3)}
    return figures | {"batch": model.settings["rows"] or rows.MOST, "texts_per_second": round(float(np.median(rounds)))}


def _card(source, name, *, example, data):
    """The folder's README."""
    example, labels = " ".join(example.split("\n"))[:60], source.labels
    more = "model.predict_proba([...])  # the columns are model.labels" if labels else "model.outputs([...])  # numbers"
    about = f"Labels: {', '.join(labels[:12])}{', ...' if len(labels) > 12 else ''}. " if labels else ""
    values = {"model": source.config.model.name, "task": source.config.task.name, "version": lwt.__version__}
    shown = re.sub(r'[$`"\\]', "'", example)
    return CARD.format(**values, name=name, example=shown, text=example, more=more, about=about, data=data)
