"""Translates a training set with a teacher: the data of sequence-level distillation.

    python -m lwt.compress.translate_set --workdir=runs/mt --out=data/mt_by_mt --beams=4
    python -m lwt.compress.translate_set --workdir=runs/mt --out=data/pool_by_mt --data=folder:mt_de_en_train
    python train.py --config=configs/lightweight.py:teacher=runs/mt,layers=2,data=folder:data/mt_by_mt --workdir=...

The sources are those of the teacher's training set, or of another one (``--data``). ``OUT/train.jsonl.gz`` has the
fields of the original, with the best translation of a beam search instead of the reference (Kim and Rush 2016,
arXiv 1606.07947, section 3.2). Repeating the command resumes an interrupted one. The last line of output is one JSON
object.
"""

import gzip
import json
import logging
import pathlib
import shutil
import time
import zlib

from absl import flags

from lwt import errors, files
from lwt.data import sources
from lwt.machine import command_line
from lwt.reparam import adapters
from lwt.runs import experiment

LOG = logging.getLogger(__name__)
SETTINGS, PARTS = "origin.json", "parts"
PART = 1024  # records that are decoded and saved at a time


def write(teacher, folder, *, data="", records=0):
    """Translates a set of pairs in resumable parts.

    Args:
        teacher: a run that translates, with its decoding settings.
        data: ``KIND:NAME@SPLIT``; "" for the run's own training set.
        records: number of records to draw; 0 for all.

    Returns:
        ``{"file", "records", "empty"}``; "empty" counts the records left out because their translation is empty.

    Raises:
        lwt.errors.ConfigError: the run does not translate, or `folder` was begun with other settings.
    """
    if not hasattr(teacher.task, "generate"):
        raise errors.ConfigError(f"{teacher.workdir}: task.name={teacher.config.task.name!r} cannot translate")
    section = teacher.config.data
    name, limit = (data, records) if data else (section.train, records or section.max_train_records)
    source = sources.load(name, fields=tuple(section.fields), max_malformed=section.max_malformed).subset(limit)
    settings = {
        "run": teacher.workdir,
        "weights": adapters.fingerprint(teacher.weights),
        "data": source.name,
        "records": len(source),
        "fingerprint": source.fingerprint,
        "decoding": teacher.task.decoding(),
    }
    _begin(folder, settings)
    path, parts = pathlib.Path(folder, "train.jsonl.gz"), pathlib.Path(folder, PARTS)
    if not path.exists():
        for start in range(0, len(source), PART):
            part = parts / f"{start:08d}"
            if not _is_whole(part):
                _translate(teacher, source.read(start, start + PART), path=part)
        with files.replacing(path, checked=True) as temporary, gzip.open(temporary, "wb") as file:
            for part in sorted(parts.glob("[0-9]*")):
                file.write(files.read(part))
        shutil.rmtree(parts, ignore_errors=True)
    try:
        files.verify(path)
        with gzip.open(path, "rb") as file:
            count = sum(1 for _ in file)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise errors.DataError(f"{path} is damaged ({error}); remove it to translate the set again") from error
    return {"file": str(path), "records": count, "empty": len(source) - count}


def _begin(folder, settings):
    """Writes what the set is made of; refuses a folder begun with other settings."""
    path = pathlib.Path(folder, SETTINGS)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        files.write_json(path, settings, checked=True)
    try:
        begun = files.read_json(path)
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{path} is damaged ({error}); give another --out") from error
    for key, value in settings.items():
        if begun.get(key) != value:
            raise errors.ConfigError(
                f"{folder} was begun with {key}={begun.get(key)!r:.60}, not {value!r:.60}; give another --out"
            )


def _is_whole(part):
    """Whether a part was written and is as it was written."""
    try:
        files.verify(part)
    except FileNotFoundError:
        return False
    except ValueError as error:
        LOG.warning("%s is damaged (%s): its records are translated again", part, error)
        return False
    return part.exists()


def _translate(teacher, records, *, path):
    source, target = teacher.config.data.fields
    answers = teacher.predict([record[source] for record in records])
    lines = (
        json.dumps({source: record[source], target: answer}, ensure_ascii=False) + "\n"
        for record, answer in zip(records, answers, strict=True)
        if answer.strip()
    )
    files.write_text(path, "".join(lines), checked=True)


def main():
    """Translates, and prints what the set holds."""
    values, begin = flags.FLAGS, time.perf_counter()
    decoding = {"beams": values.beams}
    teacher = experiment.load(values.workdir, checkpoint=values.checkpoint, base=values.base, decoding=decoding)
    made = write(teacher, values.out, data=values.data, records=values.records)
    command_line.report({**made, "decoding": teacher.task.decoding(), "seconds": round(time.perf_counter() - begin, 1)})


if __name__ == "__main__":
    command_line.define_run(workdir="Folder of the teacher's run or bundle.", out="Folder of the new set.")
    flags.DEFINE_string("data", "", "Sources to translate, KIND:NAME@SPLIT; default: the teacher's training set.")
    flags.DEFINE_integer("records", 0, "Number of records to use; 0: all.", lower_bound=0)
    flags.DEFINE_integer("beams", 5, "Beam size; 1 is greedy.", lower_bound=1, upper_bound=1000)
    command_line.run(main, required=["workdir", "out"])
