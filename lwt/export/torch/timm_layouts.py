"""Reads the files in which Vision Transformers are published, and converts weights to timm's names and layouts.

.npz            the original release, github.com/google-research/vision_transformer: kernels ``[in out]``; of
                patches ``[p p c d]``; of attention, per head, ``[d h k]`` and ``[h k d]``
.safetensors    timm's `VisionTransformer`: weights ``[out in]``; of patches ``[d c p p]``; of query, key and
                value together ``[3d d]``
"""

import pathlib
import zipfile
import zlib

import numpy as np

from lwt import errors
from lwt.huggingface import layouts, names, reading, vit
from lwt.layers import linear

QKV = ("query", "key", "value")
DAMAGED = (  # what reading a damaged .npz raises; a header may also claim any size, or an unknown compression
    *(ValueError, KeyError, EOFError, OverflowError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error),
)
BLOCK = "Transformer/encoderblock_{}"
TOKEN, POSITION = "embed/class_token", "embed/position"
NPZ = {  # their name of a module or a weight -> ours; {} is a number
    "embedding": "embed/patch",
    "cls": TOKEN,
    "Transformer/posembed_input/pos_embedding": POSITION,
    f"{BLOCK}/LayerNorm_0": "block_{}/attention_norm",
    **{f"{BLOCK}/MultiHeadDotProductAttention_1/{part}": f"block_{{}}/attention/{part}" for part in (*QKV, "out")},
    f"{BLOCK}/LayerNorm_2": "block_{}/mlp_norm",
    f"{BLOCK}/MlpBlock_3/Dense_0": "block_{}/mlp/fc1",
    f"{BLOCK}/MlpBlock_3/Dense_1": "block_{}/mlp/fc2",
    "Transformer/encoder_norm": "norm",
    "head": "head",
}
TIMM = {
    "patch_embed.proj": "embed/patch",
    "cls_token": TOKEN,
    "pos_embed": POSITION,
    "blocks.{}.norm1": "block_{}/attention_norm",
    "blocks.{}.attn.qkv": "block_{}/attention/qkv",
    "blocks.{}.attn.proj": "block_{}/attention/out",
    "blocks.{}.norm2": "block_{}/mlp_norm",
    "blocks.{}.mlp.fc1": "block_{}/mlp/fc1",
    "blocks.{}.mlp.fc2": "block_{}/mlp/fc2",
    "norm": "norm",
    "head": "head",
}


def read(path):
    """Reads a checkpoint; returns ``(weights, heads)``.

    ``weights`` is a flat dict of float32 arrays under lwt's names; what is not part of a `vit.ViT` keeps its name.
    ``heads`` is the number of heads, or 0 if the file does not say (.safetensors).

    Raises:
        lwt.errors.CheckpointError: the file is missing, damaged, not a checkpoint, or neither .npz nor .safetensors.
    """
    readers = {".npz": (_load_npz, _from_npz), ".safetensors": (reading.read_arrays, _from_safetensors)}
    suffix = pathlib.Path(path).suffix
    if suffix not in readers:
        raise errors.CheckpointError(
            f"{path} must be a .npz (original release) or a .safetensors (timm's or transformers' names)"
        )
    load, rename = readers[suffix]
    arrays = load(path)
    try:
        return rename(arrays)
    except (ValueError, IndexError) as error:
        raise errors.CheckpointError(f"{path} is not a checkpoint of a ViT: {error}") from error


def to_timm(weights, model):
    """Converts weights to timm's names and layouts.

    ``model.pool="mean"`` is timm's ``VisionTransformer(class_token=False, global_pool="avg", fc_norm=False)``.

    Args:
        weights: flat dict of arrays or nodes.
        model: the `vit.ViT` that the weights belong to.

    Raises:
        lwt.errors.ConfigError: timm's class does not support the model: a hybrid, fixed positions, or a distillation
            token.
    """
    if (model.stem, model.positions) != ("patches", "learned"):
        raise errors.ConfigError(
            f"model.stem={model.stem!r}, model.positions={model.positions!r}: timm has only 'patches' and 'learned'"
        )
    if model.distilled:
        raise errors.ConfigError("model.distilled=True must be False: timm has another class for it")
    ours = {name: np.asarray(linear.dense(w), np.float32) for name, w in weights.items()}
    named, table = {}, {ours: theirs for theirs, ours in TIMM.items()}
    for name, array in ours.items():
        module, _, kind = name.rpartition("/")
        kind = "bias" if kind == "bias" else "weight"
        if whole := names.renamed(name, table):
            named[whole] = array.reshape(1, -1, model.width)
        elif name == "embed/patch/kernel":
            cut = array.reshape(model.patch, model.patch, model.channels, model.width)
            named["patch_embed.proj.weight"] = cut.transpose(3, 2, 0, 1)
        elif module.endswith("/query"):
            joined = np.concatenate([ours[name.replace("/query/", f"/{part}/")] for part in QKV], axis=-1)
            named[f"{names.renamed(module.replace('/query', '/qkv'), table)}.{kind}"] = joined.T
        elif not module.endswith(("/key", "/value")):
            named[f"{names.renamed(module, table)}.{kind}"] = array.T
    return {name: np.ascontiguousarray(array) for name, array in named.items()}


def _load_npz(path):
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ValueError("it holds one array")
        with file:
            return reading.as_weights(dict(file), path)
    except OSError as error:
        raise errors.CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except DAMAGED as error:
        raise errors.CheckpointError(f"{path} is damaged, or not an .npz file: {error}") from error


def _from_npz(arrays):
    weights, heads = {}, 0
    for name, array in arrays.items():
        module, _, kind = name.rpartition("/")
        if (whole := names.renamed(name, NPZ)) and array.ndim == 3:
            weights[whole] = _without_batch(whole, array)
        elif (ours := names.renamed(module, NPZ)) and array.ndim:
            if array.ndim == 3 and ours.endswith(QKV):
                heads, array = array.shape[1], array.reshape(len(array), -1)
            weights[f"{ours}/{kind}"] = array.reshape((-1, array.shape[-1]) if kind == "kernel" else -1)
        else:
            weights[name] = array
    return weights, heads


def _from_safetensors(arrays):
    layout = vit.VIT.layout
    if any(name.removeprefix(layout.body) == "embeddings.cls_token" for name in arrays):
        return layouts.from_hf(arrays, layout, where="the file"), 0
    return _from_timm(arrays), 0


def _from_timm(arrays):
    weights = {}
    for name, array in arrays.items():
        module, _, kind = name.rpartition(".")
        if (whole := names.renamed(name, TIMM)) and array.ndim in (2, 3):
            weights[whole] = _without_batch(whole, array)
        elif (ours := names.renamed(module, TIMM)) and kind in ("weight", "bias") and array.ndim in (1, 2, 4):
            kind = "bias" if kind == "bias" else "scale" if array.ndim == 1 else "kernel"
            if array.ndim == 4:
                array = array.transpose(0, 2, 3, 1).reshape(len(array), -1)
            if ours.endswith("/qkv"):
                parts = zip(QKV, np.split(array, 3))
                weights |= {f"{ours.removesuffix('qkv')}{part}/{kind}": split.T for part, split in parts}
            else:
                weights[f"{ours}/{kind}"] = array.T
        else:
            weights[name] = array
    return weights


def _without_batch(name, array):
    """Reshapes a class token [1 1 d] to [d], and positions [1 n d] to [n d]."""
    return array.reshape(-1) if name == TOKEN else array.reshape(array.shape[-2:])
