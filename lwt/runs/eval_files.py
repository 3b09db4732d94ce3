"""The files of an evaluation: ``WORKDIR/eval/NAME.json`` with the figures, and the outputs beside it."""

import contextlib
import logging
import math
import pathlib
import re

from lwt import errors, files
from lwt.metrics import translation
from lwt.runs import class_report

LOG = logging.getLogger(__name__)
LONGEST = 200  # bytes of a name; file systems take 255, with the suffix


def stem(name, settings):
    """The name, without suffix, of an evaluation's files: the data set and the settings of the decoding.

    A name that is too long for a file is cut, and ends with a hash of the whole.
    """
    words = [name, *(f"{key}={value}" for key, value in settings.items())]
    whole = re.sub(r"[^\w.=@-]+", "_", " ".join(words))
    if len(whole.encode()) <= LONGEST:
        return whole
    return f"{whole.encode()[: LONGEST - 17].decode(errors='ignore')}_{files.sha256(whole.encode())[:16]}"


def read(workdir):
    """``[(path, figures)]`` of the evaluations in ``WORKDIR/eval``, without the records that studies keep there."""
    found = [(path, files.load_json(path)) for path in sorted(pathlib.Path(workdir, "eval").glob("*.json"))]
    return [(path, figures) for path, figures in found if "data" in figures]


def finite(figures):
    """The figures with None for numbers that are not finite, which JSON cannot hold; each is logged."""
    wrong = {key: x for key, x in figures.items() if isinstance(x, float) and not math.isfinite(x)}
    for key, value in wrong.items():
        LOG.warning("%s is %s, and null in the report", key, value)
    return figures | dict.fromkeys(wrong)


def contents(experiment, sources, *, outputs, references):
    """``(further figures, {suffix: content})`` of an evaluation: what `experiment.Experiment.evaluate` returned."""
    if hasattr(experiment.task, "generate"):
        lowercase = experiment.task.lowercase
        return {}, {"md": translation.extremes(sources, outputs, references=references, lowercase=lowercase)}
    if outputs is None:
        return {}, {}
    rows = {"tsv": table(sources, experiment.answers(outputs), labels=experiment.data.answers(references))}
    if not (experiment.labels and hasattr(experiment.task, "probabilities")):
        return {}, rows
    names, fitted = experiment.labels, experiment.calibration
    figures, more = class_report.of(outputs, references, names=names, fitted=fitted)
    return figures, rows | more


def write(workdir, name, *, contents):
    """Writes ``{suffix: text or bytes}`` to ``eval/NAME.SUFFIX`` of a run, or, if it is read-only, to the user's cache.

    An evaluation is not lost because its files cannot be written: that is logged, and nothing is raised.
    """
    own, run = pathlib.Path(workdir, "eval"), pathlib.Path(workdir).resolve()
    other = files.cache_folder() / "eval" / f"{run.name[:100]}-{files.sha256(str(run).encode())[:8]}"
    try:
        folder = files.first_writable(own, other)
        for suffix, content in contents.items():
            content = content.encode() if isinstance(content, str) else content
            files.write_bytes(folder / f"{name}.{suffix}", content, checked=suffix == "json")  # which is read again
    except OSError as error:
        LOG.warning("the files of the evaluation cannot be written: %s", error)
        return
    if folder != own:
        LOG.warning("%s cannot be written; the report is in %s", own, folder)


def print_answers(answers, output):
    """Prints one line for each answer to an open file, or to standard output for None."""
    with printing():
        print(*(" ".join(answer.splitlines()) for answer in answers), sep="\n", file=output, flush=True)


@contextlib.contextmanager
def printing():
    """Turns the failure to print answers inside the block into an error of one line."""
    try:
        yield
    except BrokenPipeError:  # not an error of writing: the reader has stopped
        raise
    except OSError as error:
        raise errors.DataError(f"the answers cannot be printed: {error.strerror}") from error


def table(sources, answers, *, labels):
    """A table of tab-separated values: the label, the prediction and the text of every record."""
    rows = [("label", "prediction", "text"), *zip(labels, answers, sources, strict=True)]
    return "".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows)
