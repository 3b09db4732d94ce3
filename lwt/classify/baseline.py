"""The baseline: logistic regression on TF-IDF features, by scikit-learn (the extra ``sklearn``)."""

import contextlib
import dataclasses
import pickle
import time

import numpy as np

from lwt import extras
from lwt.classify import look
from lwt.metrics import classification

NAME = "TF-IDF, logistic regression"
MISSING = f"the baseline is left out: it needs scikit-learn, {extras.install('sklearn')}"
STRENGTHS = (1.0, 10.0)  # C: the validation set chooses
UNSPACED = ("Chinese characters", "Japanese", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan")  # without spaces of words
MANY = 1000  # with as many texts, a term must be in two of them


@dataclasses.dataclass(frozen=True)
class Baseline:
    """A fitted baseline.

    Attributes:
        pipeline: scikit-learn's, from texts to classes 0..c-1.
        seconds: to fit it.
        parameters: weights and intercepts.
        bytes: of the pickled pipeline, with its terms.
        about: what it is, for the report.
    """

    pipeline: object
    classes: int
    seconds: float
    parameters: int
    bytes: int
    about: str

    def predict_proba(self, texts):
        """Probabilities `[n c]` of texts; a class without a training text has 0."""
        known = self.pipeline[-1].classes_
        found = np.zeros((len(texts), self.classes), np.float32)
        found[:, known] = self.pipeline.predict_proba(list(map(look.CLEANER.clean, texts)))
        return found


def available():
    """Whether scikit-learn is installed."""
    return extras.available("sklearn")


def fit(train, validation, *, classes, scripts=()):
    """Fits a `Baseline`; the strength of the regularization is the one with the best MCC on the validation set.

    Args:
        train, validation: ``(texts, labels)`` with labels 0..c-1.
        classes: c.
        scripts: of the texts, most frequent first (`look.scripts`): decides between words and characters as terms.
    """
    from sklearn import linear_model, pipeline

    begin = time.perf_counter()
    unspaced = [*scripts][:1] and [*scripts][0] in UNSPACED
    texts = [list(map(look.CLEANER.clean, texts)) for texts, _ in (train, validation)]
    about, vectors, features = terms_of(texts[0], unspaced=bool(unspaced))
    tried = {}
    for strength in STRENGTHS:
        model = linear_model.LogisticRegression(C=strength, max_iter=300).fit(features, train[1])
        predicted = model.predict(vectors.transform(texts[1]))
        tried[strength] = classification.score(predicted, validation[1], classes=classes)["mcc"], model
    best = max(tried, key=lambda strength: tried[strength][0])
    fitted = pipeline.Pipeline([("terms", vectors), ("model", tried[best][1])])
    return Baseline(
        pipeline=fitted,
        classes=classes,
        seconds=time.perf_counter() - begin,
        parameters=int(tried[best][1].coef_.size + tried[best][1].intercept_.size),
        bytes=len(pickle.dumps(fitted)),
        about=f"{features.shape[1]:,} terms ({about}), C={best:g}",
    )


def terms_of(texts, *, unspaced):
    """``(what the terms are, scikit-learn's vectorizer, features [n terms])``.

    The terms are words. They are characters if the texts have no spaces, or if half of them share no word with another
    text, as surnames do.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    usual, least = {"sublinear_tf": True, "strip_accents": "unicode"}, 2 if len(texts) >= MANY else 1
    if not unspaced:
        vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=least, **usual)
        with contextlib.suppress(ValueError):  # no term is left
            features = vectors.fit_transform(texts)
            if np.mean(features.getnnz(axis=1) > 0) > 0.5:
                return "words and pairs of words", vectors, features
        least = 1
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), min_df=least, **usual)
    return "characters", vectors, vectors.fit_transform(texts)
