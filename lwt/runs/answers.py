"""Answers of a run to the texts of a file: lines, or the file's records with columns added."""

import contextlib
import dataclasses
import logging
import os
import pathlib
import sys

from lwt import errors, files
from lwt.data import formats, inputs, record_writer
from lwt.runs import eval_files

LOG = logging.getLogger(__name__)
CHUNK = 1024  # most texts that are answered at a time
DIGITS = 6  # after the point, of a probability in a file


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What to write beside the answers.

    Attributes:
        scores: the probability of every class.
        threshold: an answer whose probability is lower is left out: the run abstains. Where a text may have several
            labels, those of a lower probability are left out. None: nothing is left out.
    """

    scores: bool = False
    threshold: float | None = None

    def __bool__(self):
        return self.scores or self.threshold is not None


def write(experiment, path, *, output=None, out="", wanted=None):
    """Answers the texts of the file `path` (see `inputs.read`), in order. Memory does not grow with the file.

    Without `wanted` and `out`, it writes one line an answer. Records are written as they were read (``.json`` as one
    object a line), with columns added: ``prediction``; if the task gives probabilities, ``score``, the highest of them;
    ``abstained`` with a threshold; and ``score_CLASS`` for each class with ``scores``. If a record has a field of such
    a name already, the new one ends with ``_2``. For lines, it writes the answer, a tab and the score; and for a folder
    of images, the path and a tab before. What the run abstains from has no prediction.

    Args:
        experiment: an `experiment.Experiment`.
        output: an open text file; None: standard output.
        out: a path to write in place of `output`, whole or not at all.
        wanted: a `Wanted`.

    Raises:
        lwt.errors.ConfigError: the task gives no probabilities, and `wanted` asks for them; or `out` has another format
            than the records.
        lwt.errors.DataError: see `inputs.read`.
    """
    wanted = wanted or Wanted()
    if wanted and not hasattr(experiment.task, "probabilities"):
        task = experiment.config.task["name"]
        raise errors.ConfigError(f"--scores and --threshold need probabilities, and task.name={task!r} gives none")
    as_table = (wanted or out) and inputs.holds_records(path, experiment.data)
    as_folder = os.path.isdir(path)
    cut = abstained = empty = total = 0
    with _writer(path, output, out=out, wanted=wanted, as_table=as_table) as add:
        texts = inputs.records(path, experiment.data) if as_table else inputs.read(path, experiment.data)
        rows = experiment.config.data.eval_batch
        for chunk in inputs.chunks(texts, first=rows, most=rows * max(1, CHUNK // rows)):
            asked = [text for _, text in chunk] if as_table else chunk
            outputs, more = experiment.outputs(asked)
            answers = _answers(experiment, outputs, wanted, probable=as_table or wanted)
            add([record for record, _ in chunk] if as_table else chunk if as_folder else None, answers)
            cut, total = cut + more, total + len(chunk)
            empty += sum(not text.strip() for text in asked if isinstance(text, str))
            abstained += sum(answer.get("abstained", False) for answer in answers)
    experiment.warn_of_cut(cut)
    if empty:
        LOG.warning("empty texts, whose answers mean nothing: %d", empty)
    if wanted.threshold is not None:
        LOG.info("abstained from %d of %d texts: no score of %g or more", abstained, total, wanted.threshold)


def _answers(experiment, outputs, wanted, *, probable):
    """One dict of new columns for each of the raw `outputs`."""
    answers = [{"prediction": answer} for answer in experiment.answers(outputs)]
    if not (probable and hasattr(experiment.task, "probabilities")):
        return answers
    shares, several = experiment.probabilities(outputs), experiment.data.labels.separator
    for answer, row in zip(answers, shares, strict=True):
        best = row.max()
        answer["score"] = round(float(best), DIGITS)
        if wanted.threshold is not None:
            answer["abstained"] = bool(best < wanted.threshold)
            if several:
                likely = [n for n, share in zip(experiment.labels, row, strict=True) if share >= wanted.threshold]
                answer["prediction"] = several.join(likely)
            answer["prediction"] = None if answer["abstained"] else answer["prediction"]
        if wanted.scores:
            for name, share in zip(experiment.labels, row, strict=True):
                answer[f"score_{name}"] = round(float(share), DIGITS)
    return answers


@contextlib.contextmanager
def _writer(path, output, *, out, wanted, as_table):
    """Yields ``(records, or paths, or None, answers) -> None``, which writes to `out` or `output`."""
    binary = as_table and formats.of(pathlib.Path(path)) in record_writer.BINARY
    if as_table and out:
        record_writer.check_out(path, out)
    if binary and not out:
        raise errors.ConfigError(f"{path}: its records are written to a file only; give --out=FILE.parquet")
    with contextlib.ExitStack() as stack:
        if out:
            temporary = stack.enter_context(files.replacing(out))
            how = {"mode": "wb"} if binary else {"mode": "w", "encoding": "utf-8", "newline": ""}
            output = stack.enter_context(open(temporary, **how))
        if not as_table:
            yield lambda paths, answers: eval_files.print_answers(_lines(answers, wanted, paths), output)
            return
        table = _Table(path, output or sys.stdout)
        yield table.add
        table.close()


def _lines(answers, wanted, paths):
    """The answers as lines, with their scores if any are `wanted`, and with the `paths` if there are any."""
    begins = [f"{path}\t" for path in paths] if paths else [""] * len(answers)
    texts = (" ".join((answer["prediction"] or "").split("\n")) for answer in answers)
    scores = (f"\t{answer['score']}" if wanted else "" for answer in answers)
    return ["".join(parts) for parts in zip(begins, texts, scores, strict=True)]


class _Table:
    """Writes records with the columns of their answers, whose names are fixed by the first record."""

    def __init__(self, path, file):
        self._path, self._file, self._names, self._writer = path, file, None, None

    def add(self, records, answers):
        """Writes a chunk of records with their answers, two lists of dicts."""
        if self._writer is None:
            taken, self._names = {*records[0]}, {}
            for column in answers[0]:
                self._names[column] = record_writer.free_name(column, taken)
                taken.add(self._names[column])
            added = {self._names[key]: _kind(key) for key in answers[0]}
            self._writer = record_writer.Writer(self._path, self._file, added=added)
        rows = []
        for record, answer in zip(records, answers, strict=True):
            twice = {*record} & {*self._names.values()}
            if twice:
                raise errors.DataError(
                    f"{self._path}: the first record has no field {twice.pop()!r} and a later one has; all should have "
                    "it, or none, since a column of that name is added"
                )
            rows.append(record | {self._names[key]: value for key, value in answer.items()})
        with eval_files.printing():
            self._writer.write(rows)
            self._file.flush()

    def close(self):
        """Ends the file."""
        if self._writer is None:
            raise errors.DataError(f"{self._path} has no records")
        self._writer.close()


def _kind(column):
    return {"prediction": str, "abstained": bool}.get(column, float)
