"""A training set whose targets are a teacher's translations: what sequence-level distillation trains on.

    python -m lwt.compress.translate_set --workdir=runs/mt --out=data/mt_by_mt --beams=4
    python train.py --config=configs/lightweight.py:teacher=runs/mt,layers=2,data=folder:data/mt_by_mt --workdir=...

The sources are those of the teacher's training set, or of another one (``--data``); ``OUT/train.jsonl.gz`` has the
fields of the original, with the best translation of a beam search in the place of the reference (Kim and Rush 2016,
arXiv 1606.07947, section 3.2). The same call goes on where one was stopped. The last line is one JSON object.
"""

import gzip
import json
import os
import shutil
import time

from absl import flags

from lwt import errors
from lwt.data import sources
from lwt.machine import command_line
from lwt.reparam import adapters
from lwt.training import experiment

SETTINGS, PARTS = "origin.json", "parts"
PART = 1024  # records that are decoded, and kept, at a time


def write(found, folder, *, data="", records=0):
    """Translates a set of pairs; a folder of finished parts makes it resumable.

    Args:
        found: an `experiment.Experiment` of a translator, with its decoding settings.
        folder: of the new set; made if need be.
        data: ``KIND:NAME@SPLIT``; empty for the run's own training set.
        records: so many of them, drawn once; 0: all.

    Returns:
        ``{"file", "records", "empty"}``; a record whose translation is empty is left out, and counted as such.

    Raises:
        lwt.errors.ConfigError: the run does not translate, or `folder` has been begun with other settings.
    """
    if not hasattr(found.task, "generate"):
        raise errors.ConfigError(f"{found.workdir}: task.name={found.config.task.name!r} gives no texts to learn from")
    section = found.config.data
    name, limit = (data, records) if data else (section.train, records or section.max_train_records)
    source = sources.load(name, fields=tuple(section.fields), max_malformed=section.max_malformed).subset(limit)
    settings = {
        "run": found.workdir,
        "weights": adapters.fingerprint(found.weights),
        "data": source.name,
        "records": len(source),
        "fingerprint": source.fingerprint,
        "decoding": found.task.decoding(),
    }
    _begin(folder, settings)
    path = os.path.join(folder, "train.jsonl.gz")
    if not os.path.exists(path):
        parts = os.path.join(folder, PARTS)
        os.makedirs(parts, exist_ok=True)
        for start in range(0, len(source), PART):
            part = os.path.join(parts, f"{start:08d}")
            if not os.path.exists(part):
                _translate(found, source.read(start, start + PART), part)
        _join(parts, path)
        shutil.rmtree(parts)
    with gzip.open(path, "rb") as file:
        count = sum(1 for _ in file)
    return {"file": path, "records": count, "empty": len(source) - count}


def _begin(folder, settings):
    """Notes what the set is made of; refuses a folder that is of something else."""
    path = os.path.join(folder, SETTINGS)
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(path):
        with open(path, "w") as file:
            json.dump(settings, file, indent=2)
    with open(path) as file:
        there = json.load(file)
    for key, value in settings.items():
        if there.get(key) != value:
            raise errors.ConfigError(
                f"{folder} was begun with {key}={there.get(key)!r:.60}, and not {value!r:.60}; give another --out"
            )


def _translate(found, records, path):
    source, target = found.config.data.fields
    answers = found.predict([record[source] for record in records])
    lines = (
        json.dumps({source: record[source], target: answer}, ensure_ascii=False) + "\n"
        for record, answer in zip(records, answers, strict=True)
        if answer.strip()
    )
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.writelines(lines)
    os.replace(f"{path}.new", path)


def _join(parts, path):
    """One file of all parts; what an interrupted call left half written is none of them."""
    with gzip.open(f"{path}.new", "wb") as file:
        for part in sorted(name for name in os.listdir(parts) if not name.endswith(".new")):
            with open(os.path.join(parts, part), "rb") as lines:
                shutil.copyfileobj(lines, file)
    os.replace(f"{path}.new", path)


def main():
    """The program: writes the set, and prints what it holds."""
    values, begin = flags.FLAGS, time.perf_counter()
    found = experiment.load(values.workdir, checkpoint=values.checkpoint, decoding={"beams": values.beams})
    made = write(found, values.out, data=values.data, records=values.records)
    command_line.report({**made, "decoding": found.task.decoding(), "seconds": round(time.perf_counter() - begin, 1)})


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "Folder of the teacher's run.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
    flags.DEFINE_string("out", None, "Folder of the new set.")
    flags.DEFINE_string("data", "", "The sources, KIND:NAME@SPLIT; default: what the teacher was trained on.")
    flags.DEFINE_integer("records", 0, "So many records; 0: all.", lower_bound=0)
    flags.DEFINE_integer("beams", 5, "Beam size; 1 is greedy.", lower_bound=1)
    command_line.run(main, required=["workdir", "out"])
