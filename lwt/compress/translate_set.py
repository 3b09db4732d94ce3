"""Translates a training set with a teacher: the data of sequence-level distillation.

    python -m lwt.compress.translate_set --workdir=runs/mt --out=data/mt_by_mt --beams=4
    python -m lwt.compress.translate_set --workdir=runs/mt --out=data/pool_by_mt --data=folder:mt_de_en_train
    python train.py --config=configs/lightweight.py:teacher=runs/mt,layers=2,data=folder:data/mt_by_mt --workdir=...

The sources are those of the teacher's training set, or of another one (``--data``). ``OUT/train.jsonl.gz`` has the
fields of the original, with the best translation of a beam search instead of the reference (Kim and Rush 2016,
arXiv 1606.07947, section 3.2). Repeating the command resumes an interrupted one. The last line of output is one JSON
object.
"""

import time

from absl import flags

from lwt import errors
from lwt.compress import answered
from lwt.data import sources
from lwt.machine import command_line
from lwt.reparam import adapters
from lwt.runs import experiment


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

    def answer(start, stop):
        records, (first, second) = source.read(start, stop), section.fields
        pairs = zip(records, teacher.predict([record[first] for record in records]), strict=True)
        return [{first: record[first], second: translation} for record, translation in pairs if translation.strip()]

    path, count = answered.write(folder, settings, count=len(source), answer=answer)
    return {"file": str(path), "records": count, "empty": len(source) - count}


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
