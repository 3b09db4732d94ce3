"""What the files of sentence-transformers say beside the model: how states become a vector, how long texts may be."""

import json
import pathlib

from lwt import errors, files
from lwt.huggingface import reading

MODULES, SETTINGS = "modules.json", "sentence_bert_config.json"
POOLS = {"pooling_mode_cls_token": "first", "pooling_mode_mean_tokens": "mean"}


def model_folder(folder):
    """The folder of the model itself: `folder`, or the one below it that ``modules.json`` names."""
    return pathlib.Path(folder, *(path for kind, path in _modules(folder) if kind == "Transformer"))


def section(folder):
    """The keys of ``config.model`` that say how a text becomes a vector; empty without ``modules.json``.

    Raises:
        lwt.errors.CheckpointError: the vector is computed in a way that lwt does not know; names the module or the key.
    """
    found, where = {}, pathlib.Path(folder, MODULES)
    for kind, path in _modules(folder):
        if kind == "Pooling":
            found["pool"] = _pool(pathlib.Path(folder, path, reading.CONFIG))
        elif kind == "Normalize":
            found["normalize"] = True
        elif kind != "Transformer":
            raise errors.CheckpointError(f"{where}: the module {kind} must be Transformer, Pooling or Normalize")
    return found


def max_length(folder):
    """The most tokens of a text, special ones included; 0 if no file says it.

    Raises:
        lwt.errors.CheckpointError: the file is damaged, or asks for lower-cased texts.
    """
    path = pathlib.Path(folder, SETTINGS)
    settings = files.load_json(path) if path.exists() else {}
    if settings.get("do_lower_case"):
        raise errors.CheckpointError(f"{path}: do_lower_case must be false: only the tokenizer may change a text")
    length = settings.get("max_seq_length")
    return length if isinstance(length, int) and length > 0 else 0


def write(folder, model):
    """Writes the files for an encoder without a head, a linen module, into a folder."""
    kinds = [
        ("Transformer", ""),
        ("Pooling", "1_Pooling"),
        *([("Normalize", "2_Normalize")] if model.normalize else []),
    ]
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(kinds)
    ]
    modes = {mode: ours == model.pool for mode, ours in POOLS.items()}
    for _, path in kinds[1:]:
        pathlib.Path(folder, path).mkdir()
    files.write_text(pathlib.Path(folder, MODULES), json.dumps(listed, indent=2) + "\n")
    pooling = pathlib.Path(folder, kinds[1][1], reading.CONFIG)
    files.write_json(pooling, {"word_embedding_dimension": model.width, **modes})


def _modules(folder):
    """``[(kind, path)]`` of ``modules.json``; empty without it."""
    path = pathlib.Path(folder, MODULES)
    if not path.exists():
        return []
    listed = files.load_json(path, kind=list)
    try:
        return [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in listed]
    except (KeyError, TypeError) as error:
        raise errors.CheckpointError(f"{path} is damaged: {error!r}; it must be a list of modules") from error


def _pool(path):
    modes = {key for key, value in files.load_json(path).items() if key.startswith("pooling_mode_") and value}
    if len(modes) != 1 or not modes <= POOLS.keys():
        given = ", ".join(sorted(modes)) or "no mode"
        raise errors.CheckpointError(f"{path}: {given} must be one of {', '.join(POOLS)}")
    return POOLS[modes.pop()]
