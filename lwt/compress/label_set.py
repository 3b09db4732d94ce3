"""Labels variants of the training texts with a teacher: a larger training set for a small student.

    python -m lwt.compress.label_set --workdir=runs/teacher --out=data/stsb-labelled --records=60000
    python -m lwt.compress.label_set --workdir=runs/teacher --out=data/intents-labelled --records=20000 --seed=1
    python train.py --config=configs/embbert_finetune.py:task=stsb,added=data/stsb-labelled --workdir=runs/student

The teacher is a run that answers texts, or pairs of texts, with a class or a number. ``OUT/train.jsonl.gz`` has the
records that the teacher was trained on, as they are, and variants of them (`lwt/compress/variants.py`) with the
teacher's answers; ``OUT/labels.txt`` names the classes. A variant that equals a text of the validation or test set is
left out. A set helps most where there are few records and the teacher knows more than they tell. Repeating the command
resumes an interrupted one. The last line of output is one JSON object.
"""

import functools
import pathlib
import time

from absl import flags

from lwt import errors, files
from lwt.compress import answered, variants
from lwt.data import layout, text_fields
from lwt.machine import command_line
from lwt.reparam import adapters
from lwt.runs import experiment
from lwt.tasks import classify, regress


def write(teacher, folder, *, records, seed=0):
    """Writes the labelled set in resumable parts.

    Args:
        teacher: a run of texts with one class or one number each.
        records: number of variants to draw; those that are not new are left out.
        seed: of the variants.

    Returns:
        ``{"file", "records", "own", "variants"}``; "own" counts the records of the teacher's training set.

    Raises:
        lwt.errors.ConfigError: the run has another task or data, or `folder` was begun with other settings.
    """
    if not isinstance(teacher.task, classify.Classify | regress.Regress) or teacher.config.data.kind != "labelled":
        raise errors.ConfigError(
            f"{teacher.workdir}: task.name={teacher.config.task.name!r} must give texts one class or one number each"
        )

    def number_or_name(answer):
        return float(answer) if isinstance(teacher.task, regress.Regress) else answer

    section, splits, fields = teacher.config.data, teacher.data.splits, teacher.data.fields
    parts = {name: [text_fields.texts_of(record, fields) for record in source.each()] for name, source in _of(splits)}
    references, _ = teacher.data.labels.encode([record[section.label] for record in splits.train.each()])
    known = teacher.data.labels.known(references)  # the teacher was not trained on the others
    given = [record for record, there in zip(parts.pop("train"), known, strict=True) if there]
    labels = [*map(number_or_name, teacher.data.answers(references[known]))]
    settings = {
        "run": teacher.workdir,
        "weights": adapters.fingerprint(teacher.weights),
        "data": splits.train.name,
        "fingerprint": splits.train.fingerprint,
        "records": records,
        "seed": seed,
    }

    def record_of(texts, label):
        """A record with the fields of the teacher's; of joined fields, the first one has the whole text."""
        record = dict.fromkeys(text_fields.names_in(fields), "")
        record |= {field.split("+")[0]: text for field, text in zip(fields, texts, strict=True)}
        return {**record, section.label: label}

    def answer(start, stop, *, drawn):
        own = [record_of(*pair) for pair in zip(given[start:stop], labels[start:stop], strict=True)]
        new = drawn[max(start - len(given), 0) : max(stop - len(given), 0)]
        answers = teacher.predict(["\t".join(" ".join(text.split()) for text in texts) for texts in new]) if new else []
        return [*own, *map(record_of, new, map(number_or_name, answers))]

    made = answered.finished(folder, settings)
    if not made:
        held = {text_fields.key(record) for part in parts.values() for record in part}
        drawn = variants.draw([record for record in given if all(record)], count=records, seed=seed, without=held)
        answer_part = functools.partial(answer, drawn=drawn)
        made = answered.write(folder, settings, count=len(given) + len(drawn), answer=answer_part)
    path, count = made
    if names := teacher.data.labels.names:
        files.write_text(pathlib.Path(folder, layout.LABELS), "".join(f"{name}\n" for name in names))
    return {"file": str(path), "records": count, "own": len(given), "variants": count - len(given)}


def _of(splits):
    """``(name, source)`` of all parts."""
    return [("train", splits.train), ("validation", splits.validation), *splits.tests.items()]


def main():
    """Labels, and prints what the set holds."""
    values, begin = flags.FLAGS, time.perf_counter()
    teacher = experiment.load(values.workdir, checkpoint=values.checkpoint, base=values.base)
    made = write(teacher, values.out, records=values.records, seed=values.seed)
    command_line.report({**made, "seconds": round(time.perf_counter() - begin, 1)})


if __name__ == "__main__":
    command_line.define_run(workdir="Folder of the teacher's run or bundle.", out="Folder of the new set.")
    flags.DEFINE_integer("records", 60_000, "Number of variants to draw.", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "Seed of the variants.", lower_bound=0)
    command_line.run(main, required=["workdir", "out"])
