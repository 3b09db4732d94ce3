"""Joins sets of texts and classes into one, whose classes are "TASK: CLASS": data to fine-tune one base for many tasks.

    python -m studies.data.joined --tasks="snips=folder:snips|emotion=folder:emotion" --out=joined
    python -m studies.data.joined --tasks="snips=folder:snips|emotion=folder:emotion" --repeat=emotion=2 --out=joined
    python train.py --config=configs/finetune.py:data=folder:joined@train --workdir=runs/base

The folder gets the splits train and validation, and never a test text. A task with ``--repeat=TASK=N`` has each of its
training records N times. Two fields of a text that belong together are joined, as in training.
"""

import gzip
import json

from absl import flags

from lwt import errors
from lwt.data import sources, text_fields
from lwt.export import folders
from lwt.machine import command_line

SPLITS = ("train", "validation")


def tasks_of(text):
    """``"snips=folder:snips|emotion=folder:emotion"`` -> ``{"snips": "folder:snips", "emotion": "folder:emotion"}``."""
    found = {}
    for part in text.split("|"):
        name, _, data = part.partition("=")
        if not name or not data or name in found:
            raise errors.ConfigError(f"--tasks: {part!r} should be TASK=KIND:NAME, with a task of its own")
        found[name] = data
    return found


def repeats_of(texts, tasks):
    """``["emotion=2"]`` -> ``{"snips": 1, "emotion": 2}``."""
    found = dict.fromkeys(tasks, 1)
    for text in texts:
        name, _, count = text.partition("=")
        if name not in tasks or not count.isdecimal() or int(count) < 1:
            raise errors.ConfigError(f"--repeat={text} should be TASK=N, with a task of {', '.join(tasks)} and N >= 1")
        found[name] = int(count)
    return found


def records(task, data, *, split):
    """Yields the records of a task's split, ``{"text", "label"}``."""
    there = sources.load(data, split=split, fields=()).fields
    fields = text_fields.choose(data, there)
    if len(fields) > 1 or "label" not in there:
        raise errors.DataError(f"{data}: a joined set takes single texts with a field 'label'")
    source = sources.load(data, split=split, fields=(*text_fields.required(fields), "label"))
    for record in source.each():
        (text,), label = text_fields.texts_of(record, fields), record["label"]
        name = source.classes[label] if source.classes and isinstance(label, int) else label
        yield {"text": text, "label": f"{task}: {name}"}


def write(tasks, out, *, repeats):
    """Writes the folder `out`.

    Args:
        tasks: ``{task: KIND:NAME}``.
        out: a folder that does not exist yet.
        repeats: ``{task: number of times that each training record is written}``.
    """
    with folders.new(out) as folder:
        for split in SPLITS:
            with gzip.open(folder / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
                for task, data in tasks.items():
                    for record in records(task, data, split=split):
                        line = json.dumps(record, ensure_ascii=False) + "\n"
                        file.write(line * (repeats[task] if split == "train" else 1))


def main():
    """The program."""
    given = flags.FLAGS
    tasks = tasks_of(given.tasks)
    write(tasks, given.out, repeats=repeats_of(given.repeat, tasks))


if __name__ == "__main__":
    flags.DEFINE_string("tasks", None, "TASK=KIND:NAME|TASK=KIND:NAME ...")
    flags.DEFINE_multi_string("repeat", [], "TASK=N: writes each training record of a task N times.")
    flags.DEFINE_string("out", None, "Folder to write.")
    command_line.run(main, required=["tasks", "out"])
