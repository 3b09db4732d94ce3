"""What is asked of the ONNX packages: a JAX function to an ONNX file, floats to integers, and running it.

`jax2onnx` asks for an old orbax-checkpoint, which it does not use, and so has to be installed apart (setup.py). Nothing
else imports these packages.
"""

import contextlib
import logging
import pathlib
import tempfile
import warnings

import jax

from lwt import errors

PACKAGES = ("jax2onnx", "onnxruntime.quantization")
INSTALL = "pip install 'lwt[onnx]' && pip install --no-deps jax2onnx==0.17.1"
FORMATS = ("float32", "dynamic")
SUFFIX = "onnx"
AGAIN = "next/"
PRODUCTS = ("MatMul", "Gemm")  # what "dynamic" rounds
TALKATIVE = ("jax2onnx", "onnx_ir", "root")  # loggers: of packages of plug-ins that are not there, and advice


def convert(function, example):
    """A function as the bytes of an .onnx file of floats.

    Args:
        function: of a dict of arrays, to a dict of arrays; traced. Its names are those of the file's outputs, with
            `AGAIN` before what is the name of an input, too, which ONNX does not allow.
        example: such a dict: its names, shapes and types are those of the file's inputs.

    Raises:
        lwt.errors.ConfigError: ONNX lacks an operation of the function.
    """
    import jax2onnx

    names = list(example)
    shapes = [jax.ShapeDtypeStruct(example[name].shape, example[name].dtype) for name in names]
    outputs = sorted(jax.eval_shape(function, dict(zip(names, shapes))))

    def listed(*arrays):
        found = function(dict(zip(names, arrays)))
        return tuple(found[name] for name in outputs)

    unique = [AGAIN + name if name in names else name for name in outputs]
    try:
        with _silence():
            model = jax2onnx.to_onnx(listed, shapes, input_names=names, output_names=unique)
    except (NotImplementedError, ValueError, RuntimeError) as error:
        raise errors.ConfigError(f"the model cannot be converted to ONNX: {error}") from error
    return model.SerializeToString()


def quantize(model):
    """A file of floats with its products in int8: every column of a weight has its own scale, and what meets a weight
    is rounded by its own range at run time.

    Args:
        model: bytes from `convert`.
    """
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder, _silence():
        floats, integers = (pathlib.Path(folder, name) for name in ("floats.onnx", "integers.onnx"))
        floats.write_bytes(model)
        int8 = quantization.QuantType.QInt8
        quantization.quantize_dynamic(
            floats, integers, op_types_to_quantize=list(PRODUCTS), per_channel=True, weight_type=int8
        )
        return integers.read_bytes()


def runner(model, *, threads=1):
    """The function of a dict of arrays, to another, that the bytes of an .onnx file are, on this machine's CPU.

    Raises:
        lwt.errors.ConfigError: the bytes are no such file.
    """
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except (native.InvalidProtobuf, native.InvalidGraph, native.Fail) as error:
        raise errors.ConfigError(f"ONNX Runtime does not run the file: {error}") from error
    inputs, outputs = ([x.name for x in found] for found in (session.get_inputs(), session.get_outputs()))
    outputs = [name.removeprefix(AGAIN) for name in outputs]
    return lambda batch: dict(zip(outputs, session.run(None, {name: batch[name] for name in inputs})))


@contextlib.contextmanager
def _silence():
    """Errors only, from the packages' loggers and Python's warnings."""
    levels = {name: logging.getLogger(name).level for name in TALKATIVE}
    try:
        for name in TALKATIVE:
            logging.getLogger(name).setLevel(logging.ERROR)
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
