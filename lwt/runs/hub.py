"""Models of Hugging Face as bundles of lwt: ``hf:FOLDER``, or ``hf:NAME`` of the Hub.

A folder, as ``save_pretrained`` or the Hub lays it out, is imported once, into ``$LWT_CACHE/hf``, and again when its
files change. An encoder without a classifier becomes a bundle of a pre-trained model, which answers nothing but gives
vectors and can be fine-tuned. A classifier of texts or images, and a translator, become bundles that predict.
"""

import functools
import logging
import os
import pathlib

from lwt import errors, extras, files
from lwt.data import hf_tokenizer, labels
from lwt.huggingface import configs, images, model_folder, old_tokenizers, reading, sentence, translator
from lwt.machine import config_folder
from lwt.runs import bundle

LOG = logging.getLogger(__name__)
PREFIX = "hf:"
WANTED = ("*.json", "*.safetensors", "vocab.txt", "merges.txt", "*.spm", "*/config.json")  # files of the Hub
FIELDS = ("text",)  # of what an imported classifier predicts
SEPARATOR = "|"  # between the answers of an imported classifier that gives several
LONGEST = 512  # tokens of a row, where no file says less


def folder(name):
    """The folder of a run or bundle: that of the imported model for ``hf:...``; any other name is one already.

    Raises:
        lwt.errors.ConfigError: there is no such folder, and no such model can be downloaded.
        lwt.errors.CheckpointError, lwt.errors.DataError: lwt cannot hold the model or its tokenizer; names what is
            wrong.
    """
    if not str(name).startswith(PREFIX):
        return str(name)
    source = find(name)
    model = sentence.model_folder(source)
    target = files.cache_folder() / "hf" / f"{source.resolve().name}-{_fingerprint(source)[:16]}"
    if not bundle.is_bundle(target):
        LOG.info("importing %s into %s", source, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing_folder(target) as new:
            _write(new, source, model)
    return str(target)


def named_in(arguments):
    """The names ``hf:...`` among the arguments ``key=value,...`` of a config; several are joined by ``+``."""
    given = (argument.partition("=")[2] for argument in arguments.split(","))
    return [name for value in given for name in value.split("+") if name.startswith(PREFIX)]


def find(name):
    """The folder of files of Hugging Face that ``hf:...`` names, here or among those downloaded from the Hub."""
    name = str(name).removeprefix(PREFIX)
    if os.path.isdir(name):
        return pathlib.Path(name)
    if not name or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise errors.ConfigError(f"{PREFIX}{name}: there is no such folder; give one with config.json and the weights")
    return _downloaded(name)


@functools.cache  # a run asks for it several times
def _downloaded(name):
    """The folder of the model `name` of the Hub."""
    huggingface_hub = extras.load("huggingface_hub", f"{PREFIX}{name} is not a folder here, and its download")
    try:
        return pathlib.Path(huggingface_hub.snapshot_download(name, allow_patterns=list(WANTED)))
    except Exception as error:  # of the network, of the Hub, of the disk
        raise errors.ConfigError(
            f"{PREFIX}{name} is not a folder here and cannot be downloaded ({errors.first_line(error):.200})"
        ) from error


def _fingerprint(source):
    """A hash of the files of a folder that an import reads."""
    folders = {source, sentence.model_folder(source)}
    paths = sorted({path for folder in folders for pattern in WANTED for path in folder.glob(pattern)})
    sums = [f"{path.relative_to(source)} {_hash(path, path.stat().st_mtime_ns)}" for path in paths if path.is_file()]
    return files.sha256("\n".join(["import 1", *sums]).encode())


@functools.cache  # a run asks for it several times, and weights are large
def _hash(path, changed):
    """The hash of a file that was last changed at a time."""
    del changed
    return files.sha256(path)


def _write(new, source, model):
    """Writes the bundle of the model in the folder `model`, which `source` contains or is, into the folder `new`."""
    section, weights = model_folder.read(model)
    config = config_folder.defaults()
    config.data.clean = {key: type(value)() for key, value in config.data.clean.items()}  # every step is off
    if section["name"] != "bert":
        fill = {"seq2seq": translator.fill, "vit": images.fill}[section["name"]]
        weights = fill(config, model, new=new, section=section, weights=weights)
    else:
        _fill_encoder(config, new, source=source, model=model, section=section, weights=weights)
    files.write_json(new / bundle.CONFIG, config.to_dict())
    bundle.write_weights(new / bundle.WEIGHTS, weights, precision="float32")
    bundle.describe(new, precision="float32", step=0, source=str(source))


def _fill_encoder(config, new, *, source, model, section, weights):
    """Fills the config of a text encoder, and writes its tokenizer and labels into the folder `new`."""
    tokens = _tokenizer(new, model)
    where, rows = model / reading.CONFIG, len(weights.get("embed/token", ()))
    if tokens.pieces > rows:
        raise errors.CheckpointError(f"{where}: the table has {rows} rows, and {tokens.path.name} {tokens.pieces} ids")
    if rows > tokens.pieces:
        section["vocabulary"] = rows
    section["pool"] = "first" if section["pooler"] else "mean"
    section |= sentence.section(source)
    config.model = section
    config.data.fields, config.data.eval_batch = FIELDS, 64
    given = sentence.max_length(model) or sentence.max_length(source) or _limit(model) or LONGEST
    config.data.row_length = min(given, section["max_length"])
    described = files.load_json(where)
    if section["head"] == "classify":
        config.data.kind, config.task = "labelled", {"name": configs.task(described, where=where)}
        names = configs.labels(described, rows=len(weights["head/classifier/bias"]), where=where)
        names = [] if config.task.name == "regress" else names
        if config.task.name == "multilabel":
            config.data.label_separator = SEPARATOR
        files.write_json(new / labels.FILE, {"names": names, "fields": [*FIELDS]}, indent=None)
    else:
        config.data.kind, config.task = "masked", {"name": "masked_lm"}


def _limit(model):
    """The most tokens that the files of a tokenizer allow; 0 if they do not say."""
    path = model / "tokenizer_config.json"
    limit = files.load_json(path).get("model_max_length") if path.exists() else None
    return limit if isinstance(limit, int) and 0 < limit < 1 << 20 else 0


def _tokenizer(new, model):
    """Copies the tokenizer of a folder, or makes one from its old files; returns it."""
    path = new / hf_tokenizer.FILE
    if (model / hf_tokenizer.FILE).exists():
        files.write_bytes(path, files.read(model / hf_tokenizer.FILE))
    else:
        old_tokenizers.write(model, path)
    return hf_tokenizer.Tokenizer(path)
