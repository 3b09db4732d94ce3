"""Writes a trained classifier or regression as a file for phones and desktops, and compares it with JAX.

    python -m lwt.export.phone.classify --runtime=litert --workdir=runs/snips  # .../export/float32.tflite
    python -m lwt.export.phone.classify --runtime=litert --workdir=runs/snips --format=dynamic  # a quarter of the bytes
    python -m lwt.export.phone.classify --runtime=onnx --workdir=runs/snips --length=64  # .../export/float32.onnx

Prints the report as JSON on the last line; docs/phone.md explains it. The file takes ``ids`` and ``segments``
``[b length]`` int32 (segment 0 is padding), or ``image`` ``[b h w c]``, as the run's pipeline makes them. An ONNX file
takes any number of records of any length, unless ``--length`` fixes it to one record of this length, as all LiteRT
files are. Its ``output`` is the task's prediction, ``[b c]`` logits or ``[b]``; its metadata hold the settings of
`lwt.export.phone.settings`. The formats:

- "float32": the run's weights, and its logits up to rounding.
- "dynamic": weights and the table of tokens in int8, with a scale per row; depthwise convolutions stay in float32.
  Activations are rounded to int8 by their own range at run time.
- "int8": everything except the softmax and its masks in int8, with ranges from records of the validation set. It is for
  accelerators that support nothing else; on a CPU it is slower and less exact than "dynamic". LiteRT and texts only.

Source of the arithmetic: Jacob et al. 2018, arXiv 1712.05877, section 2.
"""

import functools
import logging
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from jax import export as stablehlo

from lwt import errors, extras, files, trees
from lwt.export import folders
from lwt.export.phone import layers, litert, onnx, settings
from lwt.layers import linear, quantized_weight
from lwt.machine import command_line, latency
from lwt.runs import experiment
from lwt.tasks import similarity

LOG = logging.getLogger(__name__)
RUNTIMES = {"litert": litert, "onnx": onnx}
TABLES = r"embed/(token|embedding)"
CALIBRATION = 64  # records that give the ranges of activations
PRECISION = "float32"  # of all products; phones have no bfloat16
FIGURES = ("loss", "accuracy", "subset_accuracy", "pearson")  # in the report, if the task has them


def export(source, path, *, runtime="litert", format="float32", length=None, lengths=(), records=None):
    """Writes a run as a file for a runtime, whole or not at all, and measures it.

    Args:
        source: an `experiment.Experiment` whose task predicts classes or a number; its precision is `PRECISION`.
        path: the file to write.
        runtime: one of `RUNTIMES`.
        format: one of the runtime's ``FORMATS``.
        length: tokens that texts are padded to, one record at a time; None: see `convert`.
        lengths: shorter lengths, for which a LiteRT file has signatures of their own, such as "length_16".
        records: number of test records to compare; None: all.

    Returns:
        The report: ``inputs`` and ``bytes`` of the file; ``milliseconds`` per record on one thread, and those of JAX
        (jit, all threads); the largest error of a prediction, relative to the largest prediction; the share of equal
        answers (``agreement``); and the figures on the test set, of the file and of JAX.

    Raises:
        lwt.errors.ConfigError: the runtime is not installed or does not support the model; the task predicts nothing; a
            record is longer than `length`; the file is there and is not an export, or cannot be written.
    """
    runtime = RUNTIMES[runtime]
    require(runtime)
    _check(source, runtime, format)
    _check_lengths(source, runtime, format, length, lengths)
    figures, _, predicted, references = source.evaluate(limit=records or 0)
    batch = latency.records(source, len(references))
    model, about = convert(source, runtime, format=format, length=length, lengths=lengths, example=batch)
    batch = _padded(batch, about["length"])
    with folders.new_file(path, kind=runtime.SUFFIX):
        files.write_bytes(path, model)
    outputs, seconds = _measured(source, runtime.runner(model), batch, lengths=lengths)
    scores = source.task.score(outputs, references)
    return {
        "format": format,
        "inputs": {name: [*map(_size, x.shape)] for name, x in inputs(source, batch, length=about["length"]).items()},
        **({"lengths": [*lengths]} if lengths else {}),
        "bytes": len(model),
        "milliseconds": round(seconds["file"] * 1e3, 2),
        "jax_milliseconds": round(seconds["jax"] * 1e3, 2),
        "records": len(references),
        "relative_error": float(f"{np.abs(outputs - predicted).max() / np.abs(predicted).max():.2g}"),
        **({"agreement": agreement(source, outputs, wanted=predicted)} if source.labels else {}),
        **{name: scores[name] for name in FIGURES if name in scores},
        **{f"jax_{name}": figures[name] for name in FIGURES if name in figures},
    }


def agreement(source, outputs, *, wanted):
    """The share of equal answers of two arrays of raw outputs."""
    return float(np.mean([a == b for a, b in zip(source.answers(outputs), source.answers(wanted), strict=True)]))


def require(runtime):
    """Imports the packages that a module of `RUNTIMES` needs, or raises a ConfigError that says how to install them."""
    for name in runtime.PACKAGES:
        extras.load(name, f"--runtime={runtime.__name__.rpartition('.')[2]}")


def convert(source, runtime, *, format, example, length=None, lengths=()):
    """Converts a run to ``(bytes, settings)`` of a file; its metadata hold the settings (`settings.of`), too.

    Args:
        source, format, lengths: as in `export`.
        runtime: a module of `RUNTIMES`.
        example: a batch of records.
        length: None: the file takes any number of rows of any length. If the runtime or the model cannot leave sizes
            open, it takes one row of ``data.row_length``.
    """
    model = None
    if length is None and runtime.OPEN:
        try:
            model = _converted(source, runtime, format, inputs(source, example, length=None))
        except errors.ConfigError as error:
            LOG.warning("the file takes one record at a time, of one size: %s", errors.first_line(error))
    if model is None:
        length = length or source.config.data.row_length
        more = {f"length_{short}": inputs(source, example, length=short) for short in lengths}
        model = _converted(source, runtime, format, inputs(source, example, length=length), more)
    about = settings.of(source, length=length) | {"format": format}
    return runtime.describe(model, **settings.as_metadata(about)), about


def inputs(source, example, *, length):
    """The inputs of a file as ``{name: jax.ShapeDtypeStruct}``: one row of `length` tokens; or for None, any.

    `example` is a batch of records.
    """
    rows = 1
    if length is None:
        limit = getattr(source.model, "max_length", 1)
        rows, length = stablehlo.symbolic_shape("batch, length", constraints=[f"length <= {limit}"])
    arrays = {name: np.asarray(example[name]) for name in source.model.example()}
    shapes = {name: (rows, length) if x.ndim == 2 else (rows, *x.shape[1:]) for name, x in arrays.items()}
    return {name: jax.ShapeDtypeStruct(shapes[name], x.dtype) for name, x in arrays.items()}


def _size(size):
    return size if isinstance(size, int) else str(size)


def _converted(source, runtime, format, shapes, more=None):
    """The bytes of a file whose inputs have these `shapes`, and of other signatures those of `more`."""
    params = {"params": trees.unflatten(weights(source, format))}

    def predict(batch):
        with layers.forms(batch):
            return {"output": source.task.predict(functools.partial(source.model.apply, params), batch)}

    model = runtime.convert(predict, shapes, **({"more": more} if more else {}))
    if format == "float32":
        return model
    if format == "dynamic":
        return runtime.quantize(model)
    calibration = []
    for batch in source.batches(limit=CALIBRATION):
        real = batch["example"] >= 0
        calibration += _rows(
            source, _padded({key: value[real] for key, value in batch.items()}, shapes["ids"].shape[1])
        )
    return runtime.quantize(model, calibration=calibration)


def weights(source, format):
    """The run's weights as arrays; for "dynamic" with the table of tokens as integers.

    The runtimes' own quantizers round products only, and the table is looked up.
    """
    arrays = linear.merge(source.weights)
    if format == "dynamic":
        for name in [name for name in arrays if re.fullmatch(TABLES, name)]:
            arrays[name] = quantized_weight.quantize(arrays[name], block=0, axis=-1, scale_dtype=jnp.float32)
    return arrays


def _check(source, runtime, format):
    if format not in runtime.FORMATS:
        raise errors.ConfigError(f"format={format!r}; {errors.suggest(format, runtime.FORMATS)}")
    require_precision(source)
    # With ai-edge-litert 2.3.0 the export of ViT crashes, and the logits of LH-ViT are wrong.
    if format == "int8" and "image" in source.model.example():
        raise errors.ConfigError("format='int8' is for texts; for images it must be 'dynamic' or 'float32'")
    if not hasattr(source.task, "predict"):
        raise errors.ConfigError(
            f"{source.workdir}: task.name={source.config.task.name!r} predicts neither classes nor numbers; use "
            "lwt.export.phone.translate to export a translation"
        )
    if isinstance(source.task, similarity.Similarity):
        raise errors.ConfigError(
            f"{source.workdir}: task.name='similarity' compares vectors; use lwt.export.service to export its encoder"
        )


def _check_lengths(source, runtime, format, length, lengths):
    if (length is not None or lengths) and "image" in source.model.example():
        flag = f"--length={length}" if length is not None else f"--lengths={','.join(map(str, lengths))}"
        raise errors.ConfigError(f"{flag} has no effect on images, which all have one size")
    longest = length or source.config.data.row_length
    if lengths and (runtime is not litert or format == "int8"):
        raise errors.ConfigError("--lengths is for LiteRT in the formats float32 and dynamic")
    if lengths and (len({*lengths}) < len(lengths) or max(lengths) >= longest):
        raise errors.ConfigError(f"--lengths={','.join(map(str, lengths))} must differ, and be less than {longest}")


def require_precision(source):
    """Raises a ConfigError for a run that was opened with a precision other than `PRECISION`."""
    if source.config.precision != PRECISION:
        raise errors.ConfigError(
            f"{source.workdir}: precision={source.config.precision!r}; open it with precision={PRECISION!r}"
        )


def _padded(batch, length):
    """Pads or cuts the texts of a batch to `length` tokens (None: leaves them); cuts off padding only."""
    if "ids" not in batch or length is None:
        return batch
    longest = int((batch["segments"] > 0).sum(1).max())
    if longest > length:
        raise errors.ConfigError(f"a record has {longest} tokens; --length={length} must be at least as many")

    def fit(x):
        return np.pad(x[:, :length], ((0, 0), (0, max(0, length - x.shape[1])))) if x.ndim == 2 else x

    return {key: fit(x) for key, x in batch.items()}


def _rows(source, batch):
    """The model's inputs for each record of a batch, as batches of one."""
    arrays = {name: np.asarray(batch[name]) for name in source.model.example()}
    return [{name: x[i : i + 1] for name, x in arrays.items()} for i in range(len(batch["example"]))]


def _measured(source, call, batch, *, lengths):
    """The predictions of a file's function for all records, and seconds per record: ``{"file": ..., "jax": ...}``."""
    rows = [_fitted(row, lengths) for row in _rows(source, batch)]
    few = {key: value[: latency.ALONE] for key, value in batch.items()}
    alone, _ = latency.answers(source, few)
    calls = {"jax": alone, "file": lambda: [call(row) for row in rows[: latency.ALONE]]}
    seconds = {name: value / len(few["example"]) for name, value in latency.interleaved(calls).items()}
    return np.concatenate([call(row)["output"] for row in rows]), seconds


def _fitted(row, lengths):
    """A batch of one record, cut to the shortest of `lengths` that holds its text; a longer text is not cut."""
    size = int((row["segments"] > 0).sum()) if lengths else 0
    return _padded(row, min((length for length in lengths if length >= size), default=None))


def main():
    """The program: writes the file, and prints the report."""
    values = flags.FLAGS
    source = experiment.load(values.workdir, checkpoint=values.checkpoint, base=values.base, precision=PRECISION)
    suffix = RUNTIMES[values.runtime].SUFFIX
    path = values.out or os.path.join(source.workdir, "export", f"{values.format}.{suffix}")
    wanted = {name: values[name].value for name in ("runtime", "format", "length", "records")}
    report = export(source, path, lengths=sorted(map(int, values.lengths)), **wanted)
    command_line.report({"file": path, "checkpoint": source.step, **report})


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    command_line.define_run()
    flags.DEFINE_enum("runtime", "litert", RUNTIMES, "Runtime that the file is for.")
    flags.DEFINE_string("out", "", "File to write; default: export/FORMAT.tflite, or .onnx, in the workdir.")
    flags.DEFINE_enum("format", "float32", litert.FORMATS, "Number format of weights and activations.")
    flags.DEFINE_integer(
        "length", None, "Tokens that texts are padded to; default: data.row_length, and with ONNX any.", lower_bound=1
    )
    command_line.define_integers(
        "lengths", [], help="LiteRT: shorter lengths, each a signature of the file, as in 16,32.", low=1, high=1 << 20
    )
    flags.DEFINE_integer("records", None, "Number of test records to compare; default: all.", lower_bound=1)
    command_line.run(main, required=["workdir"])
