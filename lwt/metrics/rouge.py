"""ROUGE of summaries (Lin 2004): F1 of words, pairs of words and the longest common subsequence, on stems.

The package is Google's `rouge-score`, which follows the original program with its option ``-m``. Scores are on a scale
of 0 to 100.
"""

import statistics

from lwt import errors, extras
from lwt.metrics import exact

KINDS = ("rouge1", "rouge2", "rougeL")


def score(hypotheses, references, *, groups=None):
    """``rouge1``, ``rouge2`` and ``rougeL``, means over the texts, and ``summaries``, their number.

    Args:
        groups: the group of each record, or None; adds ``rougeL/GROUP``.

    Raises:
        lwt.errors.DataError: there is nothing to score, or the lists differ in length.
        lwt.errors.ConfigError: the package is not installed.
    """
    exact.check_lengths(hypotheses, references, groups=groups)
    if not len(hypotheses):
        raise errors.DataError("no summary to score: the split is empty")
    scorer = extras.load("rouge_score.rouge_scorer", "the metric 'rouge'").RougeScorer(KINDS, use_stemmer=True)
    each = [scorer.score(reference, hypothesis) for hypothesis, reference in zip(hypotheses, references)]
    figures = {kind: 100 * statistics.fmean(one[kind].fmeasure for one in each) for kind in KINDS}
    for group, mine in exact.places_of(groups).items():
        figures[f"rougeL/{group}"] = 100 * statistics.fmean(each[i]["rougeL"].fmeasure for i in mine)
    return figures | {"summaries": len(hypotheses)}
