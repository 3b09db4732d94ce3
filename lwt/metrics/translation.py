"""Scores of translations: corpus BLEU and chrF by sacreBLEU (Post 2018), and the mean of sentence BLEU.

Corpus scores are on sacreBLEU's scale of 0 to 100. Sentence BLEU is on the scale of 0 to 1, as "Implementing
Transformers" (appendix 2) prints it. A score of a corpus is no sum over its sentences, so what is added up are the texts.
"""

import sacrebleu

from lwt import errors
from lwt.metrics import exact


def sums(hypotheses, references, *, groups=None):
    """What `finish` needs of a part of the data: the texts themselves, detokenized; `groups` are their kinds, or None."""
    exact.check_lengths(hypotheses, references, groups)
    parts = {"hypotheses": list(hypotheses), "references": list(references)}
    return parts if groups is None else parts | {"groups": list(groups)}


def finish(sums, *, lowercase=False):
    """Texts -> figures.

    Returns:
        ``bleu`` and ``chrf`` (0-100) with ``bleu_signature`` and ``chrf_signature``, ``sentence_bleu`` (0-1: the mean
        over sentences, exponentially smoothed, with the orders of n-grams that a sentence is long enough for),
        ``sentences``; with groups also ``bleu/GROUP``. `lowercase` makes all of them blind to case.

    Raises:
        lwt.errors.DataError: there is nothing to score.
    """
    hypotheses, references = sums["hypotheses"], sums["references"]
    if not hypotheses:
        raise errors.DataError("no translation to score: the split is empty")
    bleu, chrf = sacrebleu.BLEU(lowercase=lowercase, force=True), sacrebleu.CHRF(lowercase=lowercase)
    figures = {
        "bleu": bleu.corpus_score(hypotheses, [references]).score,
        "chrf": chrf.corpus_score(hypotheses, [references]).score,
        "sentence_bleu": sum(each := sentence_bleu(hypotheses, references, lowercase=lowercase)) / len(each),
        "sentences": len(hypotheses),
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
    }
    groups = sums.get("groups", [])
    for group in sorted(set(groups)):
        mine = [i for i, name in enumerate(groups) if name == group]
        few = [hypotheses[i] for i in mine], [[references[i] for i in mine]]
        figures[f"bleu/{group}"] = bleu.corpus_score(*few).score
    return figures


def score(hypotheses, references, *, groups=None, lowercase=False):
    """Figures of one list of translations; see `sums` and `finish`."""
    return finish(sums(hypotheses, references, groups=groups), lowercase=lowercase)


def sentence_bleu(hypotheses, references, *, lowercase=False):
    """BLEU of every sentence by itself, 0 to 1."""
    exact.check_lengths(hypotheses, references)
    bleu = sacrebleu.BLEU(lowercase=lowercase, effective_order=True)
    return [bleu.sentence_score(h, [r]).score / 100 for h, r in zip(hypotheses, references)]
