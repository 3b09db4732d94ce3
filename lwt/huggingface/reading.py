"""Reads the arrays of a folder of transformers, in one or several files of safetensors."""

import pathlib
import re

import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.flax

from lwt import errors, files

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
CONSTANTS = r"(.*\.)?(position_ids|token_type_ids)"
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")


def weights(folder):
    """The arrays of a folder by name, as float32: of ``model.safetensors``, or of the files that its index names.

    Numbers of positions and segments, constants that older files hold, are left out.

    Raises:
        lwt.errors.CheckpointError: there is neither; a file is missing or damaged; or an array is in no file, or in
            two.
    """
    folder = pathlib.Path(folder)
    index = folder / INDEX
    if (folder / WEIGHTS).exists() or not index.exists():
        _refuse_pickled(folder)
        return read_arrays(folder / WEIGHTS, without=CONSTANTS)
    shards = files.load_json(index).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise errors.CheckpointError(f"{index} has no weight_map of names to files; transformers writes it")
    arrays = {}
    for shard in sorted({*shards.values()}):
        if shard != pathlib.Path(shard).name:
            raise errors.CheckpointError(f"{index} names {shard!r:.80}, which is not a file of its folder")
        found = read_arrays(folder / shard, without=CONSTANTS)
        arrays |= {name: array for name, array in found.items() if shards.get(name) == shard}
    if missing := sorted(name for name in shards.keys() - arrays.keys() if not re.fullmatch(CONSTANTS, name)):
        raise errors.CheckpointError(f"{folder / shards[missing[0]]} lacks {missing[0]}, which {INDEX} says it holds")
    return arrays


def _refuse_pickled(folder):
    found = [name for name in PICKLED if (folder / name).exists()]
    if found and not (folder / WEIGHTS).exists():
        raise errors.CheckpointError(
            f"{folder} has {found[0]} and no {WEIGHTS}, and lwt does not unpickle files; convert it where transformers "
            f"is installed: AutoModel.from_pretrained({str(folder)!r}).save_pretrained(NEW_FOLDER), and copy the "
            "tokenizer's files"
        )


def read_arrays(path, *, without="(?!)", integers="(?!)"):
    """The arrays of a .safetensors file by name, converted to float32.

    Args:
        path: the file.
        without: arrays whose names match are left out.
        integers: arrays whose names match may hold whole numbers.

    Raises:
        lwt.errors.CheckpointError: the file cannot be read or is damaged; or see `as_weights`.
    """
    try:
        arrays = safetensors.flax.load_file(path)
        arrays = {name: a for name, a in arrays.items() if not re.fullmatch(without, name)}
        return as_weights(arrays, path, integers=integers)
    except OSError as error:
        raise errors.CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, safetensors.SafetensorError) as error:
        raise errors.CheckpointError(f"{path} is damaged: {error}") from error


def as_weights(arrays, path, *, integers="(?!)"):
    """The arrays of the file `path` as float32; those whose names match `integers` may hold whole numbers.

    Raises:
        lwt.errors.CheckpointError: one holds integers, as files of quantized models do, or a number that is not finite.
    """
    for name, array in arrays.items():
        if not jnp.issubdtype(array.dtype, jnp.floating) and not re.fullmatch(integers, name):
            raise errors.CheckpointError(f"{path}: {name} is of type {array.dtype}; lwt reads weights that are floats")
        if not np.isfinite(np.asarray(array, np.float32)).all():
            raise errors.CheckpointError(f"{path}: {name} is not finite")
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}
