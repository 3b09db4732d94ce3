"""Exact match: the share of answers that equal their reference word for word."""

from lwt import errors


def sums(hypotheses, references, *, groups=None):
    """Counts over a list of answers; the spaces between words do not matter, everything else does.

    Args:
        hypotheses: texts.
        references: as many texts.
        groups: the kind of each (a task's name), or None.

    Returns:
        ``{"correct", "count"}``, and ``{"correct/GROUP", "count/GROUP"}`` for every group.
    """
    check_lengths(hypotheses, references, groups)
    counts = {"correct": 0, "count": 0}
    for i, (hypothesis, reference) in enumerate(zip(hypotheses, references)):
        right = int(hypothesis.split() == reference.split())
        for ending in ("", f"/{groups[i]}") if groups is not None else ("",):
            counts["correct" + ending] = counts.get("correct" + ending, 0) + right
            counts["count" + ending] = counts.get("count" + ending, 0) + 1
    return counts


def finish(sums):
    """Counts -> ``exact_match`` over all examples, ``exact_match/GROUP`` (shares, 0 to 1) and ``examples``.

    Raises:
        lwt.errors.DataError: there are no examples.
    """
    if not sums["count"]:
        raise errors.DataError("no answer to compare: the split is empty")
    endings = [name.removeprefix("count") for name in sums if name.startswith("count")]
    figures = {f"exact_match{ending}": sums[f"correct{ending}"] / sums[f"count{ending}"] for ending in sorted(endings)}
    return figures | {"examples": sums["count"]}


def score(hypotheses, references, *, groups=None):
    """Figures of one list of answers; see `sums` and `finish`."""
    return finish(sums(hypotheses, references, groups=groups))


def check_lengths(hypotheses, references, groups=None):
    """Raises `lwt.errors.DataError` unless there are as many references (and groups) as hypotheses."""
    if len(hypotheses) != len(references) or (groups is not None and len(groups) != len(references)):
        kinds = "" if groups is None else f" and {len(groups)} groups"
        raise errors.DataError(
            f"{len(hypotheses)} hypotheses for {len(references)} references{kinds}: they go in pairs"
        )
