"""Writes a run as one file of integers: the same task, data and figures in a quarter of the bytes or less.

    python -m lwt.export.quantize --workdir=runs/snips                          # runs/snips/export/int8.safetensors
    python -m lwt.export.quantize --workdir=runs/snips --format=int4 --block=32 --rest=float32
    python -m lwt.export.quantize --workdir=runs/mt --activations=dynamic        # .../int8-dynamic.safetensors
    python -m lwt.export.quantize --workdir=runs/mt --activations=static --calibrate=256 --percentile=99.9
    python -m lwt.export.quantize --workdir=runs/mt --format=int4 --rounding=calibrated
    python eval.py --workdir=runs/snips --weights=runs/snips/export/int8.safetensors

The last line is one JSON object: the file, its bytes, and what they hold. `lwt/runs/integer_file.py` has the format.

An adapter that was trained on top of quantized weights is added to them in float32, and the sum is rounded again. The
file is then no larger than without the adapter; evaluate this file. The adapter's own arrays would take 54 kB more for
EmbBERT at rank 8, a seventh of the file.

With ``--activations`` the inputs of the products are rounded to int8 too, and integers are multiplied with integers:
"dynamic" uses each token's own maximum, "static" ranges measured on records of the validation set (or ``--data``).

With ``--rounding=calibrated``, the integers of kernels are not the nearest ones but those that change the outputs least
on such records; see `lwt.export.rounding`. With ``--anew``, weights that are already integers are rounded once more.
"""

import dataclasses
import os

import jax
from absl import flags

from lwt import errors
from lwt.export import calibrate, folders, rounding
from lwt.layers import linear, quantized_weight
from lwt.machine import command_line
from lwt.reparam import compose
from lwt.reparam.compression import quantize
from lwt.runs import bundle, experiment, integer_file


def export(source, path, *, quantization=None, rest="float16", limits=None, calibration=None):
    """Writes the quantized weights of a run, with the identity of the run; returns the file's bytes.

    Args:
        source: an `experiment.Experiment`.
        path: of the file.
        quantization: a `quantize.Quantize`; None for `quantization_of` the run.
        rest: type of the weights that are not quantized.
        limits: of static activations, from `calibrate.limits`.
        calibration: arguments of `rounding.calibrated`; None rounds to nearest.

    Raises:
        lwt.errors.ConfigError: see `weights`, `rounding.calibrated`; or the file is there and is not an export,
            or cannot be written.
        lwt.errors.NotFinite: a weight is not a number, or too large for float16.
    """
    used = quantization or quantization_of(source)
    info = {**source.identity, "step": source.step, "quantization": dataclasses.asdict(used)}
    with folders.new_file(path, kind="safetensors"):
        rounded = weights(source, used, limits=limits)
        if calibration is not None:
            rounded = rounding.calibrated(source, rounded, **calibration)
        return integer_file.write(path, rounded, rest=rest, info=info)


def weights(source, quantization, *, limits=None):
    """The weights of a run as a file stores them: `quantized_weight.Quantized` nodes, factors of these, and arrays.

    Quantized weights keep their integers; with an adapter on top, they are rounded anew.

    Raises:
        lwt.errors.ConfigError: the run's weights are already quantized differently; or static activations have no
            limits, see `calibrate.limits`.
    """
    if quantization.activations == "static" and not limits:
        raise errors.ConfigError("static activations need limits, which lwt.export.calibrate measures")
    own = quantization_of(source)
    nodes = jax.tree.leaves(source.weights, is_leaf=_is_quantized)
    if any(map(_is_quantized, nodes)) and dataclasses.replace(quantization, activations=own.activations) != own:
        raise errors.ConfigError(
            f"the weights of {source.workdir} are already quantized, with {_differences(own, quantization)}"
        )
    expanded = quantization.expand(source.weights, limits or {}, source.step)
    kept = (quantized_weight.Quantized, linear.Factors)
    return {name: w if isinstance(w, kept) else linear.dense(w) for name, w in expanded.items()}


def quantization_of(source):
    """The `quantize.Quantize` of a run (its last, if there are several) or of a bundle of integers; default: int8."""
    parts = _parts(compose.build(source.config.reparam))
    of_run = [part for part in parts if isinstance(part, quantize.Quantize)]
    if of_run:
        return dataclasses.replace(of_run[-1], aware=False)
    if bundle.is_bundle(source.workdir) and bundle.read_info(source.workdir)["precision"] in bundle.INTEGERS:
        info = integer_file.read_info(os.path.join(source.workdir, bundle.WEIGHTS))
        return quantize.Quantize(**info["quantization"])
    return quantize.Quantize()


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
    else:
        command_line.refuse(["threshold"], where="without --outliers")
    if values.activations:
        given = {"block": 0, **given, "activations": values.activations}
    source = experiment.load(values.workdir, checkpoint=values.checkpoint, base=values.base)
    used = quantize.Quantize(**given) if given else quantization_of(source)
    if values.anew:
        source = source.with_weights(linear.merge(source.weights), name="floats", step=source.step)
    limits = calibration = None
    records = {"records": values.calibrate, "data": values.data}
    calibrated = values.rounding == "calibrated"
    if used.activations == "static":
        limits = calibrate.limits(source, percentile=values.percentile, **records)
    else:
        command_line.refuse(["percentile"], where="without --activations=static")
    if calibrated:
        calibration = records
    elif used.activations != "static":
        command_line.refuse(["calibrate", "data"], where="without --activations=static or --rounding=calibrated")
    stem = "-".join(filter(None, [used.format, used.activations, values.rounding * calibrated]))
    path = values.out or os.path.join(source.workdir, "export", f"{stem}.safetensors")
    options = {"quantization": used, "rest": values.rest, "limits": limits, "calibration": calibration}
    written = export(source, path, **options)
    command_line.report({"file": path, "bytes": written, "checkpoint": source.step, **integer_file.parts(path)})


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    command_line.define_run()
    flags.DEFINE_string("out", "", "File to write; default: export/FORMAT.safetensors in the workdir.")
    flags.DEFINE_enum(
        "format", None, sorted(quantized_weight.FORMATS), "Number format; default: the run's own, else int8."
    )
    flags.DEFINE_integer(
        "block", None, "Weights that share a scale; 0: row-wise. Default: the run's own, else 64.", lower_bound=0
    )
    flags.DEFINE_float(
        "outliers",
        None,
        "Largest share of each weight's entries that may stay in float16.",
        lower_bound=0,
        upper_bound=1,
    )
    flags.DEFINE_float(
        "threshold", 6.0, "With --outliers: only entries above it in magnitude stay in float16.", lower_bound=0
    )
    flags.DEFINE_enum("rounding", "nearest", ["nearest", "calibrated"], "How kernels become integers.")
    flags.DEFINE_boolean("anew", False, "Round weights that are already integers once more.")
    flags.DEFINE_enum("rest", "float16", integer_file.REST, "Type of the weights that are not quantized.")
    flags.DEFINE_enum("activations", "", quantize.ACTIVATIONS, "Round the inputs of products too; needs --block=0.")
    flags.DEFINE_integer(
        "calibrate", calibrate.RECORDS, "Records that give the ranges, or calibrate the rounding.", lower_bound=1
    )
    flags.DEFINE_float(
        "percentile",
        100.0,
        "With --activations=static: this percentile of the tokens' maxima is the range; larger values are clipped.",
        lower_bound=0,
        upper_bound=100,
    )
    flags.DEFINE_string("data", "", "Data set of these records, KIND:NAME@SPLIT; default: the validation set.")
    command_line.run(main, required=["workdir"])
