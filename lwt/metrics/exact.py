"""Exact match: the share of answers that equal their reference word for word."""

from lwt import errors


def score(hypotheses, references, *, groups=None):
    """``exact_match`` (a share, 0 to 1) and ``examples``. Spaces between words do not matter, everything else does.

    Args:
        groups: the group of each record (the name of its task), or None; adds ``exact_match/GROUP``.

    Raises:
        lwt.errors.DataError: there are no examples, or the lists differ in length.
    """
    check_lengths(hypotheses, references, groups=groups)
    if not len(references):
        raise errors.DataError("no answer to compare: the split is empty")
    correct = {"": []}
    for i, (hypothesis, reference) in enumerate(zip(hypotheses, references)):
        for ending in ("",) if groups is None else ("", f"/{groups[i]}"):
            correct.setdefault(ending, []).append(hypothesis.split() == reference.split())
    figures = {f"exact_match{ending}": sum(own) / len(own) for ending, own in sorted(correct.items())}
    return figures | {"examples": len(references)}


def check_lengths(hypotheses, references, *, groups=None):
    """Raises `lwt.errors.DataError` unless there are as many references (and groups) as hypotheses."""
    if len(hypotheses) != len(references) or (groups is not None and len(groups) != len(references)):
        kinds = "" if groups is None else f" and {len(groups)} groups"
        raise errors.DataError(f"{len(hypotheses)} answers, {len(references)} references{kinds}: the numbers differ")
