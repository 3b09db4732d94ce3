"""A trained classifier (or regression) as a file for phones and desktops, measured beside JAX.

    python -m lwt.export.phone.classify --runtime=litert --workdir=runs/snips  # .../export/float32.tflite
    python -m lwt.export.phone.classify --runtime=litert --workdir=runs/snips --format=dynamic  # a quarter of the bytes
    python -m lwt.export.phone.classify --runtime=onnx --workdir=runs/snips --length=64  # .../export/float32.onnx

The last line is one JSON object; docs/phone.md explains it. The file takes one record: ``ids`` and ``segments``
``[1 length]`` int32 (segment 0 is padding), or ``image`` ``[1 h w c]``, as the run's own pipeline makes it; its
``output`` is what the task predicts, ``[1 c]`` logits or ``[1]``. The formats:

- "float32": the run's own weights, and its logits but for rounding.
- "dynamic": weights and the table of tokens in int8, every row with its own scale; depthwise convolutions stay floats.
  What meets a weight is rounded to int8 by its own range at run time.
- "int8": all but the softmax and its masks in int8, with ranges from records of the validation set, for accelerators
  that know nothing else. On a CPU it is slower than "dynamic", and less exact. Of LiteRT, and of texts, only.

Source of the arithmetic: Jacob et al. 2018, arXiv 1712.05877, section 2.
"""

import functools
import importlib
import os
import re

import jax.numpy as jnp
import numpy as np
from absl import flags

from lwt import errors, files, trees
from lwt.export.phone import layers, litert, onnx
from lwt.layers import linear, quantized_weight
from lwt.machine import command_line, latency
from lwt.runs import experiment

RUNTIMES = {"litert": litert, "onnx": onnx}
TABLES = r"embed/(token|embedding)"
CALIBRATION = 64  # records that ranges come from
PRECISION = "float32"  # of all products: those of bfloat16 are not what phones have
FIGURES = ("loss", "accuracy", "pearson")  # of a report, where the task has them


def export(opened, path, *, runtime="litert", format="float32", length=None, records=None):
    """Writes a run as a file of a runtime's, which appears whole or not at all, and measures it.

    Args:
        opened: an `experiment.Experiment` of a task that predicts: classes or a number; its precision is `PRECISION`.
        path: of the file.
        runtime: one of `RUNTIMES`.
        format: one of the runtime's ``FORMATS``.
        length: tokens of a text, shorter ones are padded; None: the run's ``data.row_length``. Of no use to images.
        records: so many of the test set are compared; None: all.

    Returns:
        The report: the file's ``inputs`` and ``bytes``; ``milliseconds`` of one record, on one thread, and those of JAX
        (jit, all threads); the largest error of a prediction, relative to the largest prediction; the share of equal
        classes (``agreement``); and the test set's figures, of the file and of JAX.

    Raises:
        lwt.errors.ConfigError: the runtime is not installed, or has no such model; the task predicts nothing; a
            record is longer than `length`; the file cannot be written.
    """
    runtime = RUNTIMES[runtime]
    require(runtime)
    _check(opened, runtime, format)
    length = length or opened.config.data.row_length
    wanted, _, predicted, references = opened.evaluate(limit=records or 0)
    batch = _padded(latency.records(opened, len(references)), length)
    model = convert(opened, runtime, format=format, length=length, example=_rows(opened, batch)[0])
    try:
        files.write_bytes(path, model)
    except OSError as error:
        raise errors.ConfigError(f"--out={path} cannot be written ({error.strerror}); give another file") from error
    outputs, seconds = _measured(opened, runtime.runner(model), batch)
    found = opened.task.score(outputs, references)
    return {
        "format": format,
        "inputs": {name: [*x.shape] for name, x in _rows(opened, batch)[0].items()},
        "bytes": len(model),
        "milliseconds": round(seconds["file"] * 1e3, 2),
        "jax_milliseconds": round(seconds["jax"] * 1e3, 2),
        "records": len(references),
        "relative_error": float(f"{np.abs(outputs - predicted).max() / np.abs(predicted).max():.2g}"),
        **({"agreement": float(np.mean(outputs.argmax(-1) == predicted.argmax(-1)))} if outputs.ndim == 2 else {}),
        **{figure: found[figure] for figure in FIGURES if figure in found},
        **{f"jax_{figure}": wanted[figure] for figure in FIGURES if figure in wanted},
    }


def require(runtime):
    """Imports the packages of a module of `RUNTIMES`.

    Raises:
        lwt.errors.ConfigError: they are not installed.
    """
    try:
        for name in runtime.PACKAGES:
            importlib.import_module(name)
    except ImportError as error:
        title = runtime.__name__.rpartition(".")[2]
        raise errors.ConfigError(f"--runtime={title} is not installed ({error}): {runtime.INSTALL}") from error


def convert(opened, runtime, *, format, length, example):
    """The bytes of a file.

    Args:
        opened: an `experiment.Experiment`.
        runtime: a module of `RUNTIMES`.
        format: one of its ``FORMATS``.
        length: tokens of a text.
        example: the arrays of one record, of which the names, shapes and types count.

    Raises:
        lwt.errors.ConfigError: the runtime has no such model.
    """
    params = {"params": trees.unflatten(weights(opened, format))}

    def predict(batch):
        with layers.forms(batch):
            return {"output": opened.task.predict(functools.partial(opened.model.apply, params), batch)}

    model = runtime.convert(predict, example)
    if format == "float32":
        return model
    if format == "dynamic":
        return runtime.quantize(model)
    calibration = []
    for batch in opened.batches(limit=CALIBRATION):
        real = batch["example"] >= 0
        calibration += _rows(opened, _padded({key: value[real] for key, value in batch.items()}, length))
    return runtime.quantize(model, calibration=calibration)


def weights(opened, format):
    """The run's weights as arrays; "dynamic": its table of tokens as integers, for only products are rounded later."""
    found = linear.merge(opened.weights)
    if format == "dynamic":
        tables = [name for name in found if re.fullmatch(TABLES, name)]
        found |= {
            name: quantized_weight.quantize(found[name], block=0, axis=-1, scale_dtype=jnp.float32) for name in tables
        }
    return found


def _check(opened, runtime, format):
    if format not in runtime.FORMATS:
        raise errors.ConfigError(f"format={format!r}; {errors.suggest(format, runtime.FORMATS)}")
    require_precision(opened)
    # With ai-edge-litert 2.3.0 the export of ViT crashes, and LH-ViT's logits are wrong.
    if format == "int8" and "image" in opened.model.example():
        raise errors.ConfigError("format='int8' is for texts; for images it should be 'dynamic' or 'float32'")
    if not hasattr(opened.task, "predict"):
        raise errors.ConfigError(
            f"{opened.workdir}: task.name={opened.config.task.name!r} predicts neither classes nor numbers; a "
            "translation is exported by lwt.export.phone.translate"
        )


def require_precision(opened):
    """Refuses a run that was opened to multiply in another precision.

    Raises:
        lwt.errors.ConfigError: naming the key.
    """
    if opened.config.precision != PRECISION:
        raise errors.ConfigError(
            f"{opened.workdir}: precision={opened.config.precision!r}; open it with precision={PRECISION!r}"
        )


def _padded(batch, length):
    """A batch with texts of `length` tokens."""
    if "ids" not in batch:
        return batch
    longest = int((batch["segments"] > 0).sum(1).max())
    if longest > length:
        raise errors.ConfigError(f"a record has {longest} tokens, more than --length={length}: it should be longer")
    fit = lambda x: np.pad(x[:, :length], ((0, 0), (0, max(0, length - x.shape[1]))))  # noqa: E731
    return {key: fit(x) if x.ndim == 2 else x for key, x in batch.items()}


def _rows(opened, batch):
    """What the model reads of each record, as a batch of one."""
    arrays = {name: np.asarray(batch[name]) for name in opened.model.example()}
    return [{name: x[i : i + 1] for name, x in arrays.items()} for i in range(len(batch["example"]))]


def _measured(opened, call, batch):
    """What a file's function predicts for all records, and the seconds of one: ``{"file": ..., "jax": ...}``."""
    rows = _rows(opened, batch)
    few = {key: value[: latency.ALONE] for key, value in batch.items()}
    alone, _ = latency.answers(opened, few)
    calls = {"jax": alone, "file": lambda: [call(row) for row in rows[: latency.ALONE]]}
    seconds = {name: value / len(few["example"]) for name, value in latency.interleaved(calls).items()}
    return np.concatenate([call(row)["output"] for row in rows]), seconds


def main():
    """The program: writes the file, and prints the report."""
    values = flags.FLAGS
    opened = experiment.load(values.workdir, checkpoint=values.checkpoint, precision=PRECISION)
    suffix = RUNTIMES[values.runtime].SUFFIX
    path = values.out or os.path.join(values.workdir, "export", f"{values.format}.{suffix}")
    report = export(
        opened, path, runtime=values.runtime, format=values.format, length=values.length, records=values.records
    )
    command_line.report({"file": path, "checkpoint": opened.step, **report})


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    flags.DEFINE_string("workdir", None, "Folder of a run.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
    flags.DEFINE_enum("runtime", "litert", RUNTIMES, "What runs the file.")
    flags.DEFINE_string("out", "", "The file; default: export/FORMAT.tflite, or .onnx, in the workdir.")
    flags.DEFINE_enum("format", "float32", litert.FORMATS, "What weights, and activations, are rounded to.")
    flags.DEFINE_integer("length", None, "Tokens of a text; default: the run's data.row_length.", lower_bound=1)
    flags.DEFINE_integer("records", None, "Of the test set, to compare; default: all.", lower_bound=1)
    command_line.run(main, required=["workdir"])
