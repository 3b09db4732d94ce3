"""Writes a trained classifier, regression or encoder of texts as a folder that answers without lwt and JAX.

model.onnx         takes batches of texts of any length, if the model can leave sizes open
tokenizer.model    or tokenizer.json
settings.json      labels, cleaner, row, temperature (`lwt.export.phone.settings`), and checksums of these files
predict.py, rows.py, cleaner.py    copies of modules of lwt, which import each other instead of lwt
README.md, requirements.txt        how to use it, and the versions that were tried
report.json        what was measured
"""

import contextlib
import copy
import dataclasses
import importlib.metadata
import inspect
import logging
import pathlib
import re
import time

import numpy as np

import lwt
from lwt import errors, files
from lwt.data import cleaner, sources, text_fields
from lwt.export import folders
from lwt.export.phone import classify
from lwt.export.service import predict, rows
from lwt.layers import text_head
from lwt.machine import hardware
from lwt.tasks import similarity

LOG = logging.getLogger(__name__)
ONNX = classify.RUNTIMES["onnx"]
FORMATS = {"float32": "float32", "int8": "dynamic"}  # precision -> format of lwt/export/phone/onnx.py
# Largest difference of an output from lwt's, relative to the largest output; and least share of equal labels, or least
# cosine of two vectors, whose entries int8 may move further.
LIMITS = {"float32": (1e-4, 0.999), "int8": (0.1, 0.95)}
VECTORS = LIMITS | {"int8": (np.inf, 0.95)}
MODEL, SETTINGS = "model.onnx", "settings.json"
# Texts to compare on, of a run that names no data.
PROBES = (
    "A small model can be enough.",
    "Ein kleines Modell kann genügen; es kommt auf die Aufgabe an!",
    "Un modèle de 5,5 Mo — c'est peu",
    "小さなモデルで十分です。",
    "Небольшой модели бывает достаточно",
    "WHAT IS 17 + 25?",
    "don't",
    "",
    "one two three four five six seven eight nine ten " * 40,
)
ALONE, TOGETHER, ROUNDS = 200, 256, 3  # texts that are timed one at a time, and in batches; rounds of the latter
RUN = '\n\nif __name__ == "__main__":\n    main()\n'

CARD = """\
# {name}

Answers texts with the model `{model}` (task `{task}`, lwt {version}) in ONNX Runtime. lwt and JAX are not needed.

    pip install -r requirements.txt
    python predict.py texts.txt    # one text a line -> one answer a line
    echo "{example}" | python predict.py -

```python
import predict

model = predict.load(".")
{uses}
```

{about}`report.json` holds what was measured on `{data}`.
"""


def write(source, out, *, precision="float32", data="", records=None, threads=1):
    """Writes the folder of a run, whole or not at all, and returns its report.

    Args:
        source: an `experiment.Experiment` whose task gives classes or a number for texts, or a text encoder, which
            gives vectors; its precision is float32.
        out: the folder; an older export is replaced.
        precision: a key of `FORMATS`; int8 rounds as the format "dynamic" of `lwt.export.phone.classify` does.
        data: the set ``KIND:NAME@SPLIT`` to compare and to measure on; "": the run's test set, or `PROBES` if the run
            has none, if it is missing, or if the run gives vectors.
        records: number of its records; None: all.
        threads: of the measurements.

    Returns:
        ``bytes`` of the model; ``data``, its number of ``records``, and how many of them are longer than a row and
        ``cut``; ``largest_error`` of an output, relative to the largest; ``agreement``, the share of equal labels, or
        ``least_cosine`` of vectors; figures of the folder, and of lwt; milliseconds of a text alone (median and 99th
        percentile), and ``texts_per_second`` in batches, both with tokenizer and cleaner, with ``threads`` and
        ``hardware``.

    Raises:
        lwt.errors.ConfigError: the answers differ from lwt's by more than `LIMITS`; ONNX packages are missing, or do
            not support the model; the run reads no texts, or gives no answers; the folder holds something else.
    """
    classify.require(ONNX)
    source = _served(source)
    found = _texts(source, data, records or 0)
    with folders.new(out, marker=SETTINGS, key="tokenizer") as new:
        _write_parts(source, new, precision=precision)
        model = predict.load(new, threads=threads)
        report = {"precision": precision, "bytes": (new / MODEL).stat().st_size}
        limits = (VECTORS if _gives_vectors(source) else LIMITS)[precision]
        with _silent(rows.LOG):  # which warns of texts that are cut each time that it gets them
            report |= _compared(source, model, found=found, limits=limits)
            report |= _measured(model, found.sources)
        report |= {"threads": threads, "hardware": hardware.describe()}
        files.write_json(new / "report.json", report)
        card = _card(source, pathlib.Path(out).name, example=found.sources[0], data=found.name)
        (new / "README.md").write_text(card, encoding="utf-8")
    return report


def _served(source):
    """The run, if it answers texts, or else its text encoder, with the task of giving vectors.

    Raises:
        lwt.errors.ConfigError: it does neither.
    """
    classify.require_precision(source)
    has_head = getattr(source.model, "head", "") == "classify"
    if hasattr(source.data, "fields") and hasattr(source.task, "predict") and has_head:
        return source
    if isinstance(source.model, text_head.TextModel) and source.model.pool != "pair":
        encoder = copy.copy(source)
        encoder.task, encoder.labels = similarity.Vectors(), ()
        return encoder
    kind, name = source.config.data.kind, source.config.task.name
    raise errors.ConfigError(
        f"{source.workdir}: data.kind={kind!r} with task.name={name!r} must classify, rate or encode texts"
    )


def _gives_vectors(source):
    return isinstance(source.task, similarity.Vectors)


def _texts(source, data, limit):
    """The records to compare on, a `lwt.data.kinds.common.Evaluation`; of vectors, without references."""
    if not _gives_vectors(source) and (data or source.config.data.train):
        try:
            return source.data.evaluation(data or source.data.test, limit=limit)
        except errors.DataError as error:
            if data:
                raise
            LOG.warning("the answers are compared on other texts, since those of the run are missing: %s", error)
    if data:
        given = sources.load(data).subset(limit)
        fields = text_fields.choose(given.name, given.fields)
        name, texts = given.name, [text_fields.texts_of(record, fields)[0] for record in given.read(0, len(given))]
    else:
        pairs = [f"{first}\t{second}" for first, second in zip(PROBES, PROBES[::-1], strict=True)]
        texts = pairs if len(getattr(source.data, "fields", ())) == 2 else PROBES
        name, texts = "texts of lwt.export.service", [*texts[: limit or None]]
    read = source.data.alone if _gives_vectors(source) else source.data.from_texts
    return dataclasses.replace(read(texts), name=name)


def _write_parts(source, new, *, precision):
    """Writes model, tokenizer, settings and code to the folder `new`."""
    example = next(iter(source.data.batches(source.data.alone(["a"]))))
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
    return {
        "predict.py": inspect.getsource(predict).replace("from lwt.export.service import rows", "import rows") + RUN,
        "rows.py": inspect.getsource(rows).replace("from lwt.data import cleaner", "import cleaner"),
        "cleaner.py": inspect.getsource(cleaner),
    }


def _compared(source, model, *, found, limits):
    """The part of the report about answers; raises a ConfigError if they differ too much from those of `source`."""
    texts, vectors = found.sources, _gives_vectors(source)
    wanted, outputs = np.asarray(source.embed(texts) if vectors else source.outputs(texts)[0]), model.outputs(texts)
    error, alike = float(np.abs(outputs - wanted).max() / np.abs(wanted).max()), {}
    if vectors:
        lengths = np.linalg.norm(outputs, axis=-1) * np.linalg.norm(wanted, axis=-1)
        alike["least_cosine"] = float(((outputs * wanted).sum(-1) / np.maximum(lengths, 1e-12)).min())
    elif source.labels:
        equal = [a == b for a, b in zip(model.predict(texts), source.answers(wanted), strict=True)]
        alike["agreement"] = float(np.mean(equal))
    if not (error <= limits[0] and all(share >= limits[1] for share in alike.values())):
        shares = "".join(f"; {name} is {share:.4f} and must be at least {limits[1]}" for name, share in alike.items())
        raise errors.ConfigError(
            f"the folder is not written: on {found.name} the largest error of an output is {error:.2g} of the largest "
            f"output of {source.workdir}, and must be at most {limits[0]:g}{shares}"
        )
    report = {"data": found.name, "records": len(texts), "cut": source.data.cut(found)}
    report |= {"largest_error": float(f"{error:.2g}"), **alike}
    if found.references is not None:
        scores = {"": source.task.score(outputs, found.references), "lwt_": source.task.score(wanted, found.references)}
        report |= {prefix + name: x[name] for prefix, x in scores.items() for name in classify.FIGURES if name in x}
    return report


def _measured(model, texts):
    """The part of the report about time, of all that `predict.Model.outputs` does."""
    alone, together = list(texts[:ALONE]), [texts[i % len(texts)] for i in range(TOGETHER)]
    model.outputs(together[: rows.MOST])  # the first call is slower
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


@contextlib.contextmanager
def _silent(logger):
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False


def _card(source, name, *, example, data):
    """The folder's README."""
    example, labels = " ".join(example.split("\n"))[:60], source.labels
    uses = f"model.predict([{example!r}])\nmodel.outputs([...])  # numbers"
    if labels:
        uses = f"model.predict([{example!r}])\nmodel.predict_proba([...])  # the columns are model.labels"
    if _gives_vectors(source):
        uses = f"model.embed([{example!r}])"
    about = f"Labels: {', '.join(labels[:12])}{', ...' if len(labels) > 12 else ''}. " if labels else ""
    values = {"model": source.config.model.name, "task": source.config.task.name, "version": lwt.__version__}
    shown = re.sub(r'[$`"\\]', "'", example)
    return CARD.format(**values, name=name, example=shown, uses=uses, about=about, data=data)
