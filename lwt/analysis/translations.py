"""The best and the worst translations as a table, as in "Implementing Transformers", appendix 2, tables 1 and 2."""

import re

from lwt import errors
from lwt.metrics import exact, translation

HEADER = "| Source | Prediction | Reference | BLEU |\n| :--- | :--- | :--- | ---: |\n"


def ranked(sources, predictions, references, *, lowercase=False):
    """Rows ``(source, prediction, reference, sentence BLEU 0-1)``, best first; the order of the data decides ties."""
    exact.check_lengths(predictions, references)
    if len(sources) != len(references):
        raise errors.DataError(f"{len(sources)} sources for {len(references)} references: they go in pairs")
    scores = translation.sentence_bleu(predictions, references, lowercase=lowercase)
    return sorted(zip(sources, predictions, references, scores), key=lambda row: -row[3])


def table(sources, predictions, references, *, count=5, lowercase=False):
    """Markdown with the `count` best and the `count` worst translations; a sentence is in one of the tables only.

    Args:
        sources, predictions, references: texts, one each a sentence.
        count: rows of a table, at most.
        lowercase: whether sentence BLEU is blind to case.

    Raises:
        lwt.errors.DataError: the lists differ in length, or are empty.
    """
    rows = ranked(sources, predictions, references, lowercase=lowercase)
    if not rows:
        raise errors.DataError("no translation to show: the lists are empty")
    best = rows[: min(count, -(-len(rows) // 2))]
    worst = rows[len(best) :][::-1][:count]
    parts = [("Best translations", best), ("Worst translations", worst)]
    return "\n".join(f"### {title}\n\n{markdown(part)}" for title, part in parts if part)


def markdown(rows):
    """Rows of `ranked` as one Markdown table, scores with four digits."""
    lines = [f"| {escape(s)} | {escape(p)} | {escape(r)} | {score:.4f} |\n" for s, p, r, score in rows]
    return HEADER + "".join(lines)


def escape(text):
    """Text that stays in its cell and shows as it is: no line breaks, and Markdown's and HTML's signs escaped."""
    text = re.sub(r"\s+", " ", text).strip().replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\|`*_\[\]~])", r"\\\1", text)
