"""Converts runs to folders of Hugging Face's transformers, and back: text encoders, Marian and ViT.

    python -m lwt.export.torch.hf --workdir=runs/mt --out=mt-hf  # MarianMTModel.from_pretrained("mt-hf")
    python -m lwt.export.torch.hf --checkpoint=mt-hf --base=runs/mt --workdir=runs/mt-back
    python -m lwt.export.torch.hf --checkpoint=bert-tiny --base=runs/snips --workdir=runs/tiny --new_head

A folder has config.json, model.safetensors and, for text models, the run's tokenizer: a tokenizer.json, with which
AutoTokenizer gives the same ids; the files of MarianTokenizer, for a run that started from one; or lwt's
tokenizer.model, whose ids no tokenizer of transformers gives. The logits are equal. An encoder without a head also gets
the files of sentence-transformers, which say how it makes vectors. `lwt/huggingface/configs.py` says which models exist
on both sides, `names` maps their weights.

The way back takes the model and its weights from the folder. Data, labels and tokenizer come from a run of the same
architecture, of any size. A missing or unexpected name is an error. With ``--new_head`` the head is that of the run,
and the folder's head is ignored. A public ViT needs no tokenizer: `timm` converts it without another run.
"""

import logging
import pathlib
import re
import shutil

from absl import flags

from lwt import errors, files, trees
from lwt.data import marian_tokenizer
from lwt.export import folders
from lwt.huggingface import configs, layouts, marian, model_folder, reading, sentence
from lwt.layers import linear
from lwt.machine import command_line
from lwt.runs import experiment
from lwt.training import new_run

LOG = logging.getLogger(__name__)
CONFIG, WEIGHTS = reading.CONFIG, reading.WEIGHTS
HEAD = r"(cls|classifier|head)[./].*"  # names of heads, theirs and ours


def write(source, folder):
    """Writes a run, with its adapters merged, into a new folder; returns the number of its weights.

    Raises:
        lwt.errors.ConfigError: see `configs.of_model`; or the folder holds something, or cannot be written.
    """
    name = source.config.model.name
    pad = source.data.frame.pad if getattr(source.tokenizer, "frame", None) else 0
    config = configs.of_model(name, source.model, labels=source.labels, task=source.config.task.name, pad=pad)
    weights, pair = source.weights, isinstance(source.tokenizer, marian_tokenizer.Tokenizer)
    if pair:
        weights = marian.to_their_ids(linear.merge(weights), source.tokenizer)
        config |= marian.their_ids(source.tokenizer)
    arrays = layouts.to_hf(weights, configs.architecture(name, source.model).layout, model=source.model)
    with folders.new(folder) as new:
        files.write_json(new / CONFIG, config)
        folders.write_arrays(new / WEIGHTS, arrays)
        if pair:
            marian_tokenizer.export_folder(source.tokenizer, new)
        elif source.tokenizer:
            shutil.copyfile(source.tokenizer.path, new / source.tokenizer.path.name)
            if source.tokenizer.cleans:
                files.write_json(new / "tokenizer_config.json", source.tokenizer.settings(source.data.max_length))
        if getattr(source.model, "head", "") == "none":
            sentence.write(new, source.model)
    return trees.count(source.weights)


def convert(folder, base, *, workdir, new_head=False):
    """Writes a run whose checkpoint of step 0 has the weights of a folder; returns it as an `experiment.Experiment`.

    Args:
        folder: in the format of transformers.
        base: an `experiment.Experiment` of the same architecture; gives the data, the labels and the tokenizer.
        workdir: a folder that holds no run yet.
        new_head: whether to take the head of `base`.

    Raises:
        lwt.errors.ConfigError: `base` is of another architecture, or has the classes in another order; or `workdir`
            holds a run.
        lwt.errors.CheckpointError: see `model_folder.read`; or the weights do not fit the model: names what is
            missing, unexpected, or of another shape.
    """
    section, weights = model_folder.read(folder)
    name = base.config.model.name
    if name != section["name"]:
        raise errors.ConfigError(f"{folder} holds a {section['name']!r}; --base={base.workdir} is a {name!r}")
    if name == "seq2seq":
        marian.check_ids(files.load_json(pathlib.Path(folder, CONFIG)), marian.OWN_IDS, where=folder)
    if not new_head:
        _check_labels(folder, base.labels)
    else:
        weights, _ = trees.split(weights, lambda name: not re.fullmatch(HEAD, name))
        weights |= trees.split(base.weights, lambda name: re.fullmatch(HEAD, name))[0]
    section.pop("head", None)  # that of the run
    return new_run.write(base, workdir, weights=weights, model=section, how={"checkpoint": str(folder)})


def _check_labels(folder, labels):
    """Refuses a folder that has the run's classes in another order, and warns of one with other classes."""
    path = pathlib.Path(folder, CONFIG)
    theirs = files.load_json(path).get("id2label")
    theirs = theirs if isinstance(theirs, dict) else {}
    names = [theirs[key] for key in sorted(theirs, key=lambda key: int(key) if key.isdecimal() else 0)]
    if not labels or all(re.fullmatch(r"LABEL_\d+", str(name)) for name in names) or names == [*labels]:
        return
    if sorted(map(str, names)) == sorted(labels):
        raise errors.ConfigError(f"{path}: id2label={names} has the classes of --base in another order: {[*labels]}")
    LOG.warning("%s names the classes %s; the run names them %s", path, names, [*labels])


def main():
    """The program: converts in one direction, and prints the result."""
    values = flags.FLAGS
    if bool(values.out) == bool(values.checkpoint and values.base):
        raise errors.ConfigError("give --out to write the weights of a run, or --checkpoint and --base to make one")
    if values.out:
        command_line.refuse(["checkpoint", "new_head"], where="with --out")
        source = experiment.load(values.workdir, checkpoint=values.which, base=values.base)
        command_line.report({"folder": values.out, "checkpoint": source.step, "weights": write(source, values.out)})
        return
    base = experiment.load(values.base, checkpoint=values.which)
    made = convert(values.checkpoint, base, workdir=values.workdir, new_head=values.new_head)
    command_line.report({"workdir": values.workdir, "weights": trees.count(made.weights)})


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    flags.DEFINE_string("workdir", None, "Folder of the run to make, or with --out of the run to read.")
    flags.DEFINE_string("out", "", "Folder to write for transformers.")
    flags.DEFINE_string("checkpoint", "", "Folder of transformers to read.")
    flags.DEFINE_string(
        "base", "", "With --checkpoint: the run that gives data, labels and tokenizer. Else: the run --workdir adapts."
    )
    flags.DEFINE_bool("new_head", False, "With --checkpoint: take the head of --base.")
    flags.DEFINE_string("which", "best", "Checkpoint to read: best, last or a step.")
    command_line.run(main, required=["workdir"])
