"""Calls the ONNX packages: converts a JAX function to an ONNX file, quantizes it and runs it.

`jax2onnx` requires an old orbax-checkpoint that it does not use, so it is installed without dependencies (setup.py).
Nothing else imports these packages.
"""

import contextlib
import logging
import pathlib
import tempfile
import warnings
from unittest import mock

import jax
import jax.extend.core

from lwt import errors
from lwt.layers import blocks

PACKAGES = ("jax2onnx", "onnxruntime.quantization")
FORMATS = ("float32", "dynamic")
SUFFIX = "onnx"
OPEN = True  # whether sizes of inputs can stay open
NEXT = "next/"
PRODUCTS = ("MatMul", "Gemm")  # operations that "dynamic" rounds
NOISY = ("jax2onnx", "onnx_ir", "root")  # loggers that report missing plug-ins and give advice


@blocks.exporting()
def convert(function, example):
    """Converts a function to the bytes of an .onnx file of floats.

    Args:
        function: maps a dict of arrays to a dict of arrays, and is traced. The result's names name the file's outputs;
            one that is an input's name too gets the prefix `NEXT`, since ONNX requires unique names.
        example: a dict of arrays or `jax.ShapeDtypeStruct` whose names, shapes and types become the file's inputs. A
            size may be a symbol of `jax.export.symbolic_shape`, which stays open: the file takes inputs of any size.

    Raises:
        lwt.errors.ConfigError: ONNX does not support an operation of the function, or not with open sizes.
    """
    import jax2onnx

    names = list(example)
    shapes = [jax.ShapeDtypeStruct(example[name].shape, example[name].dtype) for name in names]
    refusals = (NotImplementedError, ValueError, RuntimeError, TypeError, jax.errors.InconclusiveDimensionOperation)
    try:
        outputs = sorted(jax.eval_shape(function, dict(zip(names, shapes))))

        def listed(*arrays):
            result = function(dict(zip(names, arrays)))
            return tuple(result[name] for name in outputs)

        unique = [NEXT + name if name in names else name for name in outputs]
        with _silence(), _old_names():
            model = jax2onnx.to_onnx(listed, shapes, input_names=names, output_names=unique)
    except refusals as error:
        raise errors.ConfigError(f"the model cannot be converted to ONNX: {error}") from error
    return model.SerializeToString()


def describe(model, **texts):
    """The bytes of an .onnx file with `texts` in its metadata, which ONNX Runtime gives as ``custom_metadata_map``."""
    import onnx

    file = onnx.load_from_string(model)
    onnx.helper.set_model_props(file, texts)
    return file.SerializeToString()


def quantize(model):
    """Converts the products of a file of floats (from `convert`) to eight bits, with one scale per column of a weight.

    Activations are rounded by their own range at run time. Weights are unsigned as well: on x86 processors without
    VNNI, ONNX Runtime adds products of unsigned and signed bytes in 16 bits, which overflow.
    """
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder, _silence():
        floats, integers = (pathlib.Path(folder, name) for name in ("floats.onnx", "integers.onnx"))
        floats.write_bytes(model)
        unsigned = quantization.QuantType.QUInt8
        quantization.quantize_dynamic(
            floats, integers, op_types_to_quantize=list(PRODUCTS), per_channel=True, weight_type=unsigned
        )
        return integers.read_bytes()


def runner(model, *, threads=1):
    """The function that the bytes of an .onnx file compute, on this machine's CPU: a dict of arrays to another."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except (native.InvalidProtobuf, native.InvalidGraph, native.NotImplemented, native.Fail) as error:
        raise errors.ConfigError(f"ONNX Runtime cannot run the file: {error}") from error
    inputs, outputs = ([x.name for x in nodes] for nodes in (session.get_inputs(), session.get_outputs()))
    outputs = [name.removeprefix(NEXT) for name in outputs]
    return lambda batch: dict(zip(outputs, session.run(None, {name: batch[name] for name in inputs})))


@contextlib.contextmanager
def _old_names():
    """A context in which JAX's core has the name that jax2onnx 0.17.1 asks for, and JAX 0.12 no longer has."""
    from jax._src import core

    with contextlib.ExitStack() as stack:
        if not hasattr(core, "ClosedJaxpr"):
            stack.enter_context(mock.patch.object(core, "ClosedJaxpr", jax.extend.core.ClosedJaxpr, create=True))
        yield


@contextlib.contextmanager
def _silence():
    """A context without Python's warnings, in which the packages log only errors."""
    levels = {name: logging.getLogger(name).level for name in NOISY}
    try:
        for name in NOISY:
            logging.getLogger(name).setLevel(logging.ERROR)
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
