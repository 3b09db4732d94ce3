"""Scores of translations: corpus BLEU and chrF by sacreBLEU (Post 2018), mean sentence BLEU, best and worst sentences.

Corpus scores are on sacreBLEU's scale of 0 to 100. Sentence BLEU is on the scale of 0 to 1, as in "Implementing
Transformers" (appendix 2).
"""

import re

from lwt import errors
from lwt.metrics import exact


def score(hypotheses, references, *, groups=None, lowercase=False):
    """Figures of detokenized texts.

    Args:
        groups: the group of each record, or None; adds ``bleu/GROUP``.

    Returns:
        ``bleu`` and ``chrf`` (0-100) with ``bleu_signature`` and ``chrf_signature``, ``sentence_bleu`` (0-1: the mean
        over sentences, exponentially smoothed, with the n-gram orders a sentence is long enough for), ``sentences``.

    Raises:
        lwt.errors.DataError: there is nothing to score, or the lists differ in length.
    """
    exact.check_lengths(hypotheses, references, groups=groups)
    if not len(hypotheses):
        raise errors.DataError("no translation to score: the split is empty")
    import sacrebleu  # imported late: it reads tables that other programs do not need

    bleu, chrf = sacrebleu.BLEU(lowercase=lowercase, force=True), sacrebleu.CHRF(lowercase=lowercase)
    figures = {
        "bleu": bleu.corpus_score(hypotheses, [references]).score,
        "chrf": chrf.corpus_score(hypotheses, [references]).score,
        "sentence_bleu": sum(each := sentence_bleu(hypotheses, references, lowercase=lowercase)) / len(each),
        "sentences": len(hypotheses),
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
    }
    for group, mine in exact.places_of(groups).items():
        few = [hypotheses[i] for i in mine], [[references[i] for i in mine]]
        figures[f"bleu/{group}"] = bleu.corpus_score(*few).score
    return figures


def sentence_bleu(hypotheses, references, *, lowercase=False):
    """BLEU of each sentence, 0 to 1."""
    exact.check_lengths(hypotheses, references)
    import sacrebleu

    bleu = sacrebleu.BLEU(lowercase=lowercase, effective_order=True)
    return [bleu.sentence_score(h, [r]).score / 100 for h, r in zip(hypotheses, references)]


def extremes(sources, predictions, *, references, count=5, lowercase=False):
    """Markdown with the `count` best and the `count` worst translations by sentence BLEU; none is in both tables.

    Source: "Implementing Transformers", appendix 2, tables 1 and 2.

    Raises:
        lwt.errors.DataError: the lists differ in length or are empty.
    """
    exact.check_lengths(sources, references)
    if not references:
        raise errors.DataError("no translation to show: the split is empty")
    scores = sentence_bleu(predictions, references, lowercase=lowercase)
    rows = sorted(zip(sources, predictions, references, scores), key=lambda row: -row[3])
    best = rows[: min(count, -(-len(rows) // 2))]
    worst = rows[len(best) :][::-1][:count]
    parts = [("Best translations", best), ("Worst translations", worst)]
    return "\n".join(f"### {title}\n\n{_table(part)}" for title, part in parts if part)


def _table(rows):
    lines = ["| Source | Prediction | Reference | BLEU |", "| :--- | :--- | :--- | ---: |"]
    lines += [f"| {' | '.join(map(escape, texts))} | {score:.4f} |" for *texts, score in rows]
    return "\n".join(lines) + "\n"


def escape(text):
    """Escapes a text for a cell of a Markdown table: no line breaks, and no markup."""
    text = re.sub(r"\s+", " ", text).strip().replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\|`*_\[\]~])", r"\\\1", text)
