"""A run as one file of integers, and back: the same task, data and figures.

    python -m lwt.export.quantize --workdir=runs/snips                          # runs/snips/export/int8.safetensors
    python -m lwt.export.quantize --workdir=runs/snips --format=int4 --block=32 --rest=float32
    python -m lwt.export.quantize --workdir=runs/mt --activations=dynamic        # .../int8-dynamic.safetensors
    python -m lwt.export.quantize --workdir=runs/mt --activations=static --calibrate=256 --percentile=99.9
    python eval.py --workdir=runs/snips --weights=runs/snips/export/int8.safetensors

The last line is one JSON object: the file, its bytes, and what they hold. `lwt/runs/integer_file.py` has the format.

What a run trained on top of quantized weights (an adapter) is added to them in float32, and the sum is rounded again:
the file is no larger than one without, and it is the file that is to be evaluated. The adapter as arrays of its own
would be 54 kB more for EmbBERT at rank 8, a seventh of the file.

With ``--activations`` what meets the weights is rounded to int8, too, and integers are multiplied with integers: by
every token's own maximum, or, static, by ranges that some records of the validation set (or of ``--data``) have.
"""

import dataclasses
import os

import jax
from absl import flags

from lwt import errors
from lwt.export import calibrate
from lwt.layers import linear, quantized_weight
from lwt.machine import command_line
from lwt.reparam import compose, quantize
from lwt.runs import experiment
from lwt.runs import integer_file as artefact


def export(opened, path, *, quantization=None, rest="float16", limits=None):
    """Writes the weights of a run, quantized, and what they belong to; returns the file's bytes.

    Args:
        opened: an `experiment.Experiment`.
        path: of the file.
        quantization: a `quantize.Quantize`; None for `quantization_of` the run.
        rest: type of what is not quantized.
        limits: of static activations, from `calibrate.limits`.

    Raises:
        lwt.errors.ConfigError: see `weights`; or the file cannot be written.
        lwt.errors.NotFinite: a weight is not a number, or too large for float16.
    """
    used = quantization or quantization_of(opened)
    info = {**opened.identity, "step": opened.step, "quantization": dataclasses.asdict(used)}
    try:
        return artefact.write(path, weights(opened, used, limits), rest=rest, info=info)
    except OSError as error:
        raise errors.ConfigError(f"{path} cannot be written ({error.strerror}); give another --out") from error


def weights(opened, quantization, limits=None):
    """The weights of a run as a file has them: `quantized_weight.Quantized` nodes, factors of these, and arrays.

    What is quantized already keeps its integers; with an adapter on top, it is rounded anew.

    Args:
        opened: an `experiment.Experiment`.
        quantization: a `quantize.Quantize`.
        limits: of static activations, from `calibrate.limits`.

    Raises:
        lwt.errors.ConfigError: the run's weights are quantized already, in another way; or static activations have no
            limits.
    """
    if quantization.activations == "static" and not limits:
        raise errors.ConfigError("static activations need limits, which lwt.export.calibrate finds")
    own = quantization_of(opened)
    there = jax.tree.leaves(opened.weights, is_leaf=_is_quantized)
    if any(map(_is_quantized, there)) and dataclasses.replace(quantization, activations=own.activations) != own:
        raise errors.ConfigError(
            f"the weights of {opened.workdir} are quantized already, with {_differences(own, quantization)}"
        )
    expanded = quantization.expand(opened.weights, limits or {}, opened.step)
    kept = (quantized_weight.Quantized, linear.Factors)
    return {name: w if isinstance(w, kept) else linear.dense(w) for name, w in expanded.items()}


def quantization_of(opened):
    """How a run quantizes its weights (the last time, if there are several), or else the default: int8."""
    found = [part for part in _parts(compose.build(opened.config.reparam)) if isinstance(part, quantize.Quantize)]
    return dataclasses.replace(found[-1], aware=False) if found else quantize.Quantize()


def _is_quantized(w):
    return isinstance(w, quantized_weight.Quantized)


def _parts(reparam):
    return [p for part in reparam.parts for p in _parts(part)] if isinstance(reparam, compose.Compose) else [reparam]


def _differences(own, other):
    own, other = dataclasses.asdict(own), dataclasses.asdict(other)
    return ", ".join(f"{key}={own[key]!r} instead of {other[key]!r}" for key in own if own[key] != other[key])


def main():
    """The program: writes the file, and prints what it holds."""
    values = flags.FLAGS
    given = {key: getattr(values, key) for key in ("format", "block", "outliers") if getattr(values, key) is not None}
    if values.outliers:
        given["threshold"] = values.threshold
    if values.activations:
        given = {"block": 0, **given, "activations": values.activations}
    opened = experiment.load(values.workdir, checkpoint=values.checkpoint)
    used = quantize.Quantize(**given) if given else quantization_of(opened)
    limits = None
    if used.activations == "static":
        how = {"records": values.calibrate, "percentile": values.percentile, "data": values.data}
        limits = calibrate.limits(opened, **how)
    stem = "-".join(filter(None, [used.format, used.activations]))
    path = values.out or os.path.join(values.workdir, "export", f"{stem}.safetensors")
    written = export(opened, path, quantization=used, rest=values.rest, limits=limits)
    command_line.report({"file": path, "bytes": written, "checkpoint": opened.step, **artefact.parts(path)})


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    flags.DEFINE_string("workdir", None, "Folder of a run.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
    flags.DEFINE_string("out", "", "The file; default: export/FORMAT.safetensors in the workdir.")
    flags.DEFINE_enum("format", None, sorted(quantized_weight.FORMATS), "Default: the run's own, or else int8.")
    flags.DEFINE_integer("block", None, "Weights that share a scale; 0: row-wise. Default: the run's own, or else 64.")
    flags.DEFINE_float("outliers", None, "The share of each weight's entries, the largest, that may stay float16.")
    flags.DEFINE_float("threshold", 6.0, "With --outliers: only entries above it in magnitude stay float16.")
    flags.DEFINE_enum("rest", "float16", artefact.REST, "Type of what is not quantized.")
    flags.DEFINE_enum("activations", "", quantize.ACTIVATIONS, "Round what meets the weights, too; takes --block=0.")
    flags.DEFINE_integer("calibrate", calibrate.RECORDS, "With --activations=static: records that ranges come from.")
    flags.DEFINE_float("percentile", 100.0, "With --activations=static: of the tokens' maxima; beyond it is clipped.")
    flags.DEFINE_string("data", "", "With --activations=static: KIND:NAME@SPLIT; default: the validation set.")
    command_line.run(main, required=["workdir"])
