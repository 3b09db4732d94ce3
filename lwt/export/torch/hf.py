"""Runs as folders of Hugging Face's transformers, and back: BERT, Marian and ViT.

    python -m lwt.export.torch.hf --workdir=runs/mt --out=mt-hf  # MarianMTModel.from_pretrained("mt-hf")
    python -m lwt.export.torch.hf --checkpoint=mt-hf --base=runs/mt --workdir=runs/mt-back
    python -m lwt.export.torch.hf --checkpoint=bert-tiny --base=runs/snips --workdir=runs/tiny --new_head

A folder has config.json and model.safetensors, and for texts lwt's tokenizer.model: transformers has no tokenizer that
numbers its pieces alike, so that ids are made here. `configs.py` says which models are the same in both, and the
logits then are, too; `names.py` has the names.

The way back takes the model and its weights from the folder, and the data, labels and tokenizer from a run of the same
architecture, whatever its size. Nothing is passed over: a name that is missing, or one too many, ends it. With
``--new_head`` the head stays that of the run, and what the folder has in its place is not read. A public ViT, which
needs no tokenizer, becomes a run without another one by `lwt/export/torch/timm.py`.
"""

import pathlib
import re
import shutil

from absl import flags

from lwt import errors, files, trees
from lwt.data.kinds import pairs
from lwt.export import folders
from lwt.export.torch import configs, layouts, names
from lwt.machine import command_line
from lwt.runs import experiment
from lwt.training import new_run

CONFIG, WEIGHTS = "config.json", "model.safetensors"
HEAD = r"(cls|classifier|head)[./].*"  # names of heads, theirs and ours


def write(opened, folder):
    """Writes the folder of a run, and returns the number of its weights.

    Args:
        opened: an `experiment.Experiment`; adapters are merged.
        folder: that is not there yet.

    Raises:
        lwt.errors.ConfigError: see `configs.of_model`; or the folder holds something, or cannot be written.
    """
    name = opened.config.model.name
    config = configs.of_model(name, opened.model, labels=opened.labels, task=opened.config.task.name)
    arrays = layouts.to_hf(opened.weights, names.LAYOUTS[name], opened.model)
    with folders.new(folder) as new:
        files.write_json(new / CONFIG, config)
        folders.write_arrays(new / WEIGHTS, arrays)
        if opened.tokenizer:
            shutil.copyfile(opened.tokenizer.path, new / pairs.TOKENIZER)
    return trees.count(opened.weights)


def read(folder):
    """``(section, weights)`` of a folder: the keys of ``config.model``, and a flat dict of float32 arrays under lwt's
    names; what is no part of lwt's model keeps its name.

    Raises:
        lwt.errors.CheckpointError: a file is missing or damaged, or lwt has no such model.
    """
    folder = pathlib.Path(folder)
    section = configs.to_section(folders.read_json(folder / CONFIG), where=folder / CONFIG)
    path = folder / WEIGHTS
    weights = layouts.from_hf(folders.read_arrays(path), names.LAYOUTS[section["name"]], where=path)
    return section, weights


def convert(folder, base, workdir, *, new_head=False):
    """Leaves a run in `workdir` whose checkpoint of step 0 has the weights of a folder; returns it, opened.

    Args:
        folder: of Hugging Face's.
        base: an opened run of the same architecture, for the data, the labels and the tokenizer.
        workdir: that holds no run yet.
        new_head: whether the head is that of `base`.

    Raises:
        lwt.errors.ConfigError: `base` is of another architecture, or `workdir` holds a run.
        lwt.errors.CheckpointError: see `read`; or the weights are not those of the model: names what is missing,
            unexpected, or of another shape.
    """
    section, weights = read(folder)
    name = base.config.model.name
    if name != section["name"]:
        raise errors.ConfigError(f"{folder} holds a {section['name']!r}; --base={base.workdir} is a {name!r}")
    if new_head:
        weights, _ = trees.split(weights, lambda name: not re.fullmatch(HEAD, name))
        weights |= trees.split(base.weights, lambda name: re.fullmatch(HEAD, name))[0]
    return new_run.write(base, workdir, weights=weights, model=section, how={"checkpoint": str(folder)})


def main():
    """The program: converts one way or the other, and prints what came of it."""
    values = flags.FLAGS
    if bool(values.out) == bool(values.checkpoint and values.base):
        raise errors.ConfigError("give --out to write the weights of a run, or --checkpoint and --base to make one")
    if values.out:
        opened = experiment.load(values.workdir, checkpoint=values.which)
        command_line.report({"folder": values.out, "checkpoint": opened.step, "weights": write(opened, values.out)})
        return
    base = experiment.load(values.base, checkpoint=values.which)
    made = convert(values.checkpoint, base, values.workdir, new_head=values.new_head)
    command_line.report({"workdir": values.workdir, "weights": trees.count(made.weights)})


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    flags.DEFINE_string("workdir", None, "Folder of the run to make, or with --out of the one to read.")
    flags.DEFINE_string("out", "", "Folder to write for transformers.")
    flags.DEFINE_string("checkpoint", "", "Folder to read, of transformers.")
    flags.DEFINE_string("base", "", "With --checkpoint: a run whose data, labels and tokenizer are taken over.")
    flags.DEFINE_bool("new_head", False, "With --checkpoint: the head is that of --base.")
    flags.DEFINE_string("which", "best", "Of the run that is read: the checkpoint best, last or a step.")
    command_line.run(main, required=["workdir"])
