"""The GLUE score, by the benchmark's rule and by two other means in use.

Figures are ``{"cola": {"mcc": ...}, "mrpc": {"accuracy": ..., "f1": ...}, ...}``; a mean has the unit of its figures
(shares or per cent).
"""

import math
import statistics

from lwt import errors

OFFICIAL = (  # Wang et al. 2018, section 5 and table 1: the figures of a task are averaged first, then the nine tasks
    (("cola", "mcc"),),
    (("sst2", "accuracy"),),
    (("mrpc", "accuracy"), ("mrpc", "f1")),
    (("stsb", "pearson"), ("stsb", "spearman")),
    (("qqp", "accuracy"), ("qqp", "f1")),
    (("mnli_matched", "accuracy"), ("mnli_mismatched", "accuracy")),
    (("qnli", "accuracy"),),
    (("rte", "accuracy"),),
    (("wnli", "accuracy"),),
)
COLUMNS = {  # the columns of EmbBERT-Q, table 6, in its order
    "cola": "mcc",
    "sst2": "accuracy",
    "mrpc": "f1",
    "qqp": "f1",
    "mnli_matched": "accuracy",
    "mnli_mismatched": "accuracy",
    "qnli": "accuracy",
    "rte": "accuracy",
    "wnli": "accuracy",
    "stsb": "spearman",
}


def official(figures):
    """The benchmark's own score: the mean of nine tasks, each the mean of its figures; the two halves of MNLI are one
    task. It leaves out the leaderboard's diagnostic set.

    Raises:
        lwt.errors.DataError: a figure is missing or not finite; the message names it.
    """
    _check(figures, [pair for task in OFFICIAL for pair in task])
    return statistics.fmean(statistics.fmean(figures[name][figure] for name, figure in task) for task in OFFICIAL)


def columns(figures, *, f1="f1"):
    """The ten figures of EmbBERT-Q, table 6: ``{"cola": ..., ..., "stsb": ...}``.

    Args:
        f1: the figure of MRPC and QQP: "f1" is GLUE's, of the positive class; "f1_weighted" is what the paper's code
            computes.

    Raises:
        lwt.errors.DataError: a figure is missing or not finite; the message names it.
    """
    wanted = {name: f1 if figure == "f1" else figure for name, figure in COLUMNS.items()}
    _check(figures, wanted.items())
    return {name: figures[name][figure] for name, figure in wanted.items()}


def plain_mean(figures, *, f1="f1"):
    """EmbBERT-Q's "Score": the mean of the ten columns, with MNLI counted twice. Raises as `columns` does."""
    return statistics.fmean(columns(figures, f1=f1).values())


def mean_without_wnli(figures, *, f1="f1"):
    """The mean of the columns without WNLI, whose validation set of 71 sentences is adversarial: most answers learned
    from the training set are wrong there. Raises as `columns` does; WNLI may be missing."""
    found = columns(figures | {"wnli": {"accuracy": 0.0}}, f1=f1)
    return statistics.fmean(value for name, value in found.items() if name != "wnli")


def _check(figures, wanted):
    """Raises `lwt.errors.DataError` unless every ``(task, figure)`` of `wanted` is present and finite."""
    missing = [f"{name}/{figure}" for name, figure in wanted if figures.get(name, {}).get(figure) is None]
    if missing:
        present = ", ".join(figures) or "none"
        raise errors.DataError(
            f"the GLUE score needs {', '.join(missing)}: evaluate these too (evaluated so far: {present})"
        )
    for name, figure in wanted:
        if not math.isfinite(figures[name][figure]):
            raise errors.DataError(f"{name}/{figure}={figures[name][figure]}: the GLUE score needs a finite number")
