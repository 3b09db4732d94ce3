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
    correct = [hypothesis.split() == reference.split() for hypothesis, reference in zip(hypotheses, references)]
    figures = {"exact_match": sum(correct) / len(correct)}
    for group, mine in places_of(groups).items():
        figures[f"exact_match/{group}"] = sum(correct[i] for i in mine) / len(mine)
    return figures | {"examples": len(references)}


def places_of(groups):
    """``{group: indices of its records}`` by name, from the group of each record; empty for None."""
    found = {}
    for i, group in enumerate(() if groups is None else groups):
        found.setdefault(str(group), []).append(i)
    return dict(sorted(found.items()))


def check_lengths(hypotheses, references, *, groups=None):
    """Raises `lwt.errors.DataError` unless there are as many references (and groups) as hypotheses."""
    if len(hypotheses) != len(references) or (groups is not None and len(groups) != len(references)):
        kinds = "" if groups is None else f" and {len(groups)} groups"
        raise errors.DataError(f"{len(hypotheses)} answers, {len(references)} references{kinds}: the numbers differ")
