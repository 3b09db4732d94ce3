"""Calls Google's packages: converts StableHLO to a LiteRT file, quantizes it and runs it.

`litert_converter` has no public function for a JAX program. This module uses the functions of its front end for
PyTorch, which another release may change: the three packages are pinned (setup.py), and nothing else imports them.
"""

import contextlib
import io

import jax
import numpy as np
from jax import export as stablehlo

from lwt import errors
from lwt.layers import blocks

PACKAGES = ("litert_converter.converter_api_ext", "ai_edge_quantizer.quantizer", "ai_edge_litert.interpreter")
FORMATS = ("float32", "dynamic", "int8")
SUFFIX = "tflite"
OPEN = False  # whether sizes of inputs can stay open: LiteRT lacks operations that the converter writes for them
# Composites such as "chlo.erf" become calls, which are inlined into the only function.
PASSES = (
    "builtin.module(vhlo-legalize-stablehlo,func.func(stablehlo-legalize-composite-to-call),"
    "reconcile-unrealized-casts,inline,symbol-dce,strip-debuginfo)"
)
DIALECTS, LOOPS = ("tfl", "func", "builtin", "arith"), ("tfl.while",)  # a file holds operations of these, but no loops
SIGNATURE = "serving_default"
# Operations that stay in floats. Static: masked scores (-1e9 would be in their range), their softmax, and the outputs.
# Dynamic: depthwise convolutions, which are small, and half as fast with int8 weights.
STATIC_FLOATS, DYNAMIC_FLOATS = ("SELECT_V2", "SOFTMAX", "OUTPUT"), ("DEPTHWISE_CONV_2D",)


@blocks.exporting()
def convert(function, example, *, more=None):
    """Converts a function to the bytes of a .tflite file of floats.

    Args:
        function: maps a dict of arrays to a dict of arrays, and is traced; the result's names name the file's outputs.
        example: a dict of arrays whose names, shapes and types become the file's inputs.
        more: further examples ``{signature: example}``. For each, the file has a signature with inputs of these shapes;
            all share their weights.

    Raises:
        lwt.errors.ConfigError: LiteRT does not support an operation of the function.
    """
    from litert_converter import converter_api_ext as converter
    from litert_converter.mlir import ir, passmanager

    context = ir.Context()
    converter.prepare_mlir_context(context)
    config = converter.ConvertToTFLConfig()
    config.model_origin_framework = "JAX"
    modules = []
    with context:
        try:
            for name, one in {SIGNATURE: example, **(more or {})}.items():
                program, outputs = _program(function, one)
                module = ir.Module.parse(program)
                passmanager.PassManager.parse(PASSES).run(module.operation)
                (main,) = module.body.operations
                if modules:
                    main.operation.attributes["sym_name"] = ir.StringAttr.get(name)
                converter.set_signature(main.operation, name, list(one), outputs)
                modules.append(module)
            module = converter.merge_modules(modules) if more else modules[0]
            converter.run_convert_to_tfl_passes(module, passmanager.PassManager(), config)
            return converter.export_flatbuffer_to_bytes(module.operation)
        except (ir.MLIRError, ValueError, RuntimeError) as error:
            names = ", ".join(_unsupported(modules))
            reason = errors.first_line(error) + (f" (unsupported: {names})" if names else "")
            raise errors.ConfigError(f"the model cannot be converted to LiteRT: {reason}") from error


def _unsupported(modules):
    """The names of the operations of MLIR modules, converted as far as possible, that a LiteRT file cannot hold."""
    from litert_converter.mlir import ir

    found = set()

    def note(operation):
        found.add(operation.name)
        return ir.WalkResult.ADVANCE

    for module in modules:
        module.operation.walk(note)
    return sorted(name for name in found if name in LOOPS or name.partition(".")[0] not in DIALECTS)


def _program(function, example):
    """The StableHLO of a function, as bytes, and the names of its outputs in the order of a dict's leaves."""
    names = list(example)
    shapes = [jax.ShapeDtypeStruct(example[name].shape, example[name].dtype) for name in names]
    program = stablehlo.export(jax.jit(lambda *arrays: function(dict(zip(names, arrays)))))(*shapes)
    return program.mlir_module_serialized, sorted(jax.eval_shape(function, dict(zip(names, shapes))))


def quantize(model, *, calibration=()):
    """Converts the products of a file of floats to int8, with one scale per row (or channel) of a weight.

    Args:
        model: bytes from `convert`.
        calibration: inputs, as dicts of arrays, that give the ranges of the activations ("static"); if empty, each
            activation is rounded by its own range at run time ("dynamic").
    """
    from ai_edge_quantizer import algorithm_manager, qtyping, quantizer, recipe

    float_ = algorithm_manager.AlgorithmName.NO_QUANTIZE
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # progress bars
        work = quantizer.Quantizer(model)
        work.load_quantization_recipe(recipe.static_wi8_ai8() if calibration else recipe.dynamic_wi8_afp32())
        for name in STATIC_FLOATS if calibration else DYNAMIC_FLOATS:
            operation = qtyping.TFLOperationName[name]
            work.update_quantization_recipe(regex=".*", operation_name=operation, algorithm_key=float_)
        ranges = work.calibrate({SIGNATURE: calibration}, num_threads=1) if calibration else None
        return bytes(work.quantize(ranges).quantized_model)


def describe(model, **texts):
    """The bytes of a .tflite file with `texts` in its metadata, each in a buffer of its own."""
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.tools import flatbuffer_utils

    file = flatbuffer_utils.convert_bytearray_to_object(model)
    for buffer in file.buffers:  # the quantizer puts large ones after the flatbuffer, where rewriting loses them
        if buffer.offset:
            buffer.data = np.frombuffer(model, np.uint8, buffer.size, buffer.offset)
            buffer.offset = buffer.size = 0
    for name, text in texts.items():
        entry, buffer = schema.MetadataT(), schema.BufferT()
        entry.name, entry.buffer, buffer.data = name, len(file.buffers), np.frombuffer(text.encode(), np.uint8)
        file.buffers.append(buffer)
        file.metadata = [*(file.metadata or ()), entry]
    return bytes(flatbuffer_utils.convert_object_to_bytearray(file))


def runner(model, *, threads=1):
    """The function that the bytes of a .tflite file compute, on this machine's CPU: a dict of arrays to another.

    Of several signatures, it takes the one with inputs of the arrays' shapes.
    """
    from ai_edge_litert import interpreter

    try:
        file = interpreter.Interpreter(model_content=model, num_threads=threads)
        calls = [file.get_signature_runner(name) for name in file.get_signature_list()]
    except ValueError as error:
        raise errors.ConfigError(f"LiteRT cannot run the file: {error}") from error
    by_shape = {}
    for call in calls:
        shapes = {name: tuple(about["shape"].tolist()) for name, about in call.get_input_details().items()}
        by_shape[tuple(sorted(shapes.items()))] = call

    def run(batch):
        call = by_shape[tuple(sorted((name, x.shape) for name, x in batch.items()))] if len(calls) > 1 else calls[0]
        return {name: np.array(x) for name, x in call(**batch).items()}

    return run
