"""One file that holds a quantized model: integers, scales, and everything else, heads included.

The file is in the safetensors format (a length, a JSON header, the arrays; no code is run by reading it), so that
other tools open it too. A plain weight NAME is the array ``NAME``, in float16 or float32. A quantized one is

    NAME/values     int8; "fp8": the bits of float8 e4m3 as uint8; "int4": uint8 ``[ceil(size / 2)]``, two per byte of
                    the flattened weight, offset by 8, the first in the low half
    NAME/scales     as in `layers/quantized_weight.py`
    NAME/outliers   float16 ``[m]``, if there are any
    NAME/gaps       uint8: how many places of the flattened weight are passed over before the next outlier;
                    255: pass over 255 and as many as the next byte says
    NAME/limit      float32 ``[]``, if inputs are rounded to a calibrated range

and a factorised one is two weights, ``NAME/a`` and ``NAME/b``, of either kind;
the header's metadata say ``nodes`` (JSON: NAME -> [format, block, axis, shape], and a fifth entry "integer inputs"
where the inputs are rounded too; or ["factors"]), ``info`` (the caller's JSON), and ``sha256`` of these and of all
arrays.
"""

import hashlib
import json
import math
import os

import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from lwt import errors, files
from lwt.layers import linear, quantized_weight

KIND = "lwt quantized weights, 1"
INTEGER_INPUTS = "integer inputs"
FACTORS = ["factors"]
REST = ("float16", "float32")


def write(path, weights, *, rest="float32", info=None):
    """Writes the file, whole or not at all.

    Args:
        path: of the file.
        weights: flat dict of arrays, `quantized_weight.Quantized` nodes and `linear.Factors` of these.
        rest: type of the plain arrays: biases, norms, scalars.
        info: anything JSON can hold, such as the model's config and labels; `read_info` reads it.

    Returns:
        The file's size in bytes.

    Raises:
        lwt.errors.ConfigError: the weights hold another kind of node, or `rest` is not one of `REST`.
        lwt.errors.NotFinite: a weight is not a number, or too large for float16.
    """
    if rest not in REST:
        raise errors.ConfigError(f"rest is {rest!r}; {errors.suggest(rest, REST)}")
    arrays, nodes, whole = {}, {}, {}
    for name, w in weights.items():
        if isinstance(w, linear.Factors):
            nodes[name] = FACTORS
            whole |= {f"{name}/a": w.a, f"{name}/b": w.b}
        else:
            whole[name] = w
    for name, w in whole.items():
        if isinstance(w, quantized_weight.Quantized):
            nodes[name] = [w.format, w.block, w.axis, list(w.shape), *([INTEGER_INPUTS] if w.integer_inputs else [])]
            arrays.update(_pack(name, w))
        elif linear.is_node(w):
            raise errors.ConfigError(
                f"{name!r} is a {type(w).__name__}, which the file cannot hold; merge it and quantize the result"
            )
        else:
            with np.errstate(over="ignore"):  # an overflow is reported below, by name
                arrays[name] = np.asarray(w).astype(rest)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise errors.NotFinite(f"{name!r} is not finite in {array.dtype}")
    texts = (json.dumps(value, separators=(",", ":")) for value in (nodes, info))
    meta = dict(zip(("kind", "nodes", "info"), (KIND, *texts), strict=True))
    meta["sha256"] = _digest(meta, arrays)
    files.write_bytes(path, safetensors.numpy.save(arrays, metadata=meta))
    return size(path)


def load(path):
    """The weights of a file: a flat dict of float32 arrays, `quantized_weight.Quantized` nodes and `linear.Factors`.

    The model gives the same logits with them, bit for bit, as with ``as_stored`` of what was written.

    Raises:
        lwt.errors.CheckpointError: the file is missing, damaged, or of another format.
    """
    meta, arrays = _read(path)
    weights, nodes = {}, json.loads(meta["nodes"])
    factorised = [name for name, node in nodes.items() if node == FACTORS]
    for name, (format, block, axis, shape, *flags) in ((n, node) for n, node in nodes.items() if node != FACTORS):
        parts = {part: arrays.pop(f"{name}/{part}", None) for part in ("values", "scales", "outliers", "gaps", "limit")}
        parts["values"] = _unpack(parts["values"], format, shape)
        gaps = parts.pop("gaps")
        parts["positions"] = None if gaps is None else _positions(gaps)
        parts = {part: None if array is None else jnp.asarray(array) for part, array in parts.items()}
        options = {"format": format, "block": block, "axis": axis, "integer_inputs": INTEGER_INPUTS in flags}
        weights[name] = quantized_weight.Quantized(**parts, **options)
    weights |= {name: jnp.asarray(array, jnp.float32) for name, array in arrays.items()}
    for name in factorised:
        weights[name] = linear.Factors(*(weights.pop(f"{name}/{part}") for part in "ab"))
    return weights


def read_info(path):
    """The `info` that `write` was given."""
    return json.loads(_read(path)[0]["info"])


def size(path):
    """Bytes of the file on disk: the figure to quote."""
    return os.path.getsize(path)


def parts(path):
    """Bytes of the file by what they hold: integers, scales and limits, outliers, rest, heads, header.

    ``rest`` are plain arrays, ``heads`` everything below the name ``head/``.
    """
    meta, arrays = _read(path)
    kinds = {"values": "integers", "scales": "scales", "limit": "scales", "outliers": "outliers", "gaps": "outliers"}
    nodes, sums = json.loads(meta["nodes"]), dict.fromkeys((*kinds.values(), "rest", "heads"), 0)
    for name, array in arrays.items():
        stem, _, part = name.rpartition("/")
        kind = kinds[part] if stem in nodes else "rest"
        sums["heads" if name.startswith("head/") else kind] += array.nbytes
    return sums | {"header": size(path) - sum(sums.values())}


def as_stored(weights, *, rest="float32"):
    """The weights as the file stores them: plain arrays are rounded to `rest`, and back to float32."""
    return {n: w if linear.is_node(w) else jnp.asarray(w).astype(rest).astype(jnp.float32) for n, w in weights.items()}


def _pack(name, w):
    """The arrays of a node."""
    values = np.asarray(w.values)
    if w.format == "int4":
        flat = (values.reshape(-1) + 8).astype(np.uint8)
        low, high = np.pad(flat, (0, flat.size % 2)).reshape(-1, 2).T
        values = low | high << 4
    packed = {f"{name}/values": values.view(np.uint8) if w.format == "fp8" else values}
    packed[f"{name}/scales"] = np.asarray(w.scales)
    if w.limit is not None:
        packed[f"{name}/limit"] = np.asarray(w.limit, np.float32)
    if w.outliers is not None:
        positions = np.asarray(w.positions)
        used = positions < math.prod(w.shape)
        packed[f"{name}/outliers"], packed[f"{name}/gaps"] = np.asarray(w.outliers)[used], _gaps(positions[used])
    return packed


def _unpack(values, format, shape):
    if format == "fp8":
        return values.view(quantized_weight.FORMATS[format][0])
    if format == "int4":
        flat = np.stack([values & 15, values >> 4], axis=1).reshape(-1)[: math.prod(shape)]
        return (flat.astype(np.int8) - np.int8(8)).reshape(shape)
    return values


def _gaps(positions):
    """Ascending places -> bytes; see above."""
    full, last = np.divmod(np.diff(positions, prepend=-1) - 1, 255)
    gaps = np.full(len(positions) + full.sum(), 255, np.uint8)
    gaps[np.cumsum(full + 1) - 1] = last
    return gaps


def _positions(gaps):
    """The inverse of `_gaps`."""
    here = gaps < 255
    return (np.cumsum(gaps.astype(np.int32) + here)[here] - 1).astype(np.int32)


def _read(path):
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            meta = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except OSError as error:
        raise errors.CheckpointError(
            f"{path} cannot be read: {error.strerror or error}; lwt.export.quantize writes it"
        ) from error
    except safetensors.SafetensorError as error:
        raise errors.CheckpointError(f"{path} is damaged, or not a file of lwt.export.quantize: {error}") from error
    if meta.get("kind") != KIND:
        raise errors.CheckpointError(f"{path} is of kind {meta.get('kind')!r}; it must be {KIND!r}")
    if _digest(meta, arrays) != meta.get("sha256"):
        raise errors.CheckpointError(f"{path} is damaged: its checksum differs")
    return meta, arrays


def _digest(meta, arrays):
    digest = hashlib.sha256("\n".join(meta.get(key, "") for key in ("kind", "nodes", "info")).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
