"""A classifier of texts as scikit-learn's users know classifiers."""

import numpy as np

from lwt import errors, extras
from lwt.data import labels
from lwt.estimators import base as estimator


class Classifier(estimator.Estimator):
    """Classifies texts with a fine-tuned encoder.

    Args:
        base: what to start from: "embbert", the trained weights that come with lwt; the folder of a run or bundle;
            ``hf:FOLDER`` (see docs/pretrained_models.md); "embedder" or "bert_tiny", untrained; "", EmbBERT untrained.
        method: how to fine-tune trained weights, see `configs/finetune.py`: full, lora, dora, bitfit, head, ...
        rank: of the matrices of an adapter.
        epochs: passes over the texts; 0: what suits their number.
        rate: learning rate; 0: the method's own.
        length: tokens of a text; longer ones are cut; 0: as the base.
        class_weight: None, "balanced" or ``{label: weight}``, factors on the loss.
        label_smoothing: see `classify.Classify`.
        patience: passes without a lower loss on the validation set after which training stops; 0: it does not stop.
        ema: decay of a moving average of the weights; 0: none.
        validation: the share of the texts, drawn evenly from the classes, that chooses the checkpoint and fits the
            temperature.
        calibrate: fit the temperature of the probabilities (`calibration.fit`).
        ngrams: whether to add a linear model of n-grams, fitted apart to the same texts (`lwt.classify.ngrams`); it
            helps most where there are few of them. None: where all weights of an own model are trained, without
            `class_weight`, and scikit-learn is installed.
        seed: of everything that is random.
        folder: keeps the run and its data; the same call resumes it. "": a temporary folder, removed with the object.
        verbose: print the log of the training.

    Attributes:
        classes_: the labels, sorted: those of the columns of `predict_proba`.
        experiment_: the run, an `lwt.runs.experiment.Experiment`.
    """

    _estimator_type = "classifier"

    def __init__(
        self,
        base="embbert",
        method="full",
        *,
        rank=8,
        epochs=0,
        rate=0.0,
        length=0,
        class_weight=None,
        label_smoothing=0.0,
        patience=0,
        ema=0.0,
        validation=0.1,
        calibrate=True,
        ngrams=None,
        seed=0,
        folder="",
        verbose=False,
    ):
        self.base, self.method, self.rank, self.epochs, self.rate = base, method, rank, epochs, rate
        self.length, self.class_weight, self.label_smoothing = length, class_weight, label_smoothing
        self.patience, self.ema, self.validation, self.calibrate = patience, ema, validation, calibrate
        self.ngrams, self.seed, self.folder, self.verbose = ngrams, seed, folder, verbose

    def fit(self, X, y):
        """Trains on texts X and labels y, two lists (or arrays, or columns of pandas); returns the classifier.

        Labels are texts, integers or booleans.

        Raises:
            lwt.errors.DataError: the lists differ in length or hold something else, or there is only one class.
            lwt.errors.ConfigError: an argument is wrong.
        """
        texts, given = self._checked(X, y)
        wrong = next((i for i, x in enumerate(given) if not isinstance(x, str | int | float) or x != x), None)
        if wrong is not None or len({isinstance(label, str) for label in given}) > 1:
            what = "texts and numbers" if wrong is None else repr(given[wrong])[:60]
            raise errors.DataError(f"labels must be all texts, all integers or all booleans, not {what}")
        classes, numbers = np.unique(np.asarray(given), return_inverse=True)
        names = [labels.text_of(label) for label in classes.tolist()]
        if len(names) < 2:
            raise errors.DataError(f"all labels are {given[0]!r}; there is nothing to learn")
        twice = [name for i, name in enumerate(names) if not name or name in names[:i]]
        if twice:
            raise errors.DataError(f"two labels are the same but for white space, or one is empty: {twice[0]!r}")
        plain = self._plain()
        held_out = estimator.drawn(numbers, share=plain["validation"], seed=plain["seed"])
        weights = plain["class_weight"] or ""
        if isinstance(weights, dict):
            weights = {labels.text_of(label): float(weight) for label, weight in weights.items()}

        def change(config):
            config.task = dict(name="classify", label_smoothing=plain["label_smoothing"], class_weights=weights)
            # Not the accuracy: on a few records, that of many steps is the same.
            config.select, config.select_mode = "loss", "min"

        targets = [names[number] for number in numbers]
        with_ngrams = self._with_ngrams() if self.ngrams is None else self.ngrams
        self._train(texts, targets, held_out=held_out, change=change, declared=names, with_ngrams=with_ngrams)
        self.classes_ = classes
        if self.calibrate:
            self.experiment_.calibrate()
        return self

    def predict_proba(self, X):
        """The probabilities of `classes_` for each text, `[n c]` float32."""
        self._check_fitted()
        return self.experiment_.predict_proba(X)

    def predict(self, X):
        """The likeliest of `classes_` for each text, `[n]`."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]

    def score(self, X, y, *, sample_weight=None):
        """The accuracy on texts and labels."""
        return float(np.average(self.predict(X) == np.asarray(y), weights=sample_weight))

    def _with_ngrams(self):
        """Whether n-grams are added unless the user decides."""
        own = not str(self.base).startswith("hf:")
        return own and self.method == "full" and not self.class_weight and extras.available("sklearn")

    def _target(self):
        return {"classes": self.classes_.tolist()}

    def _set_target(self, about):
        self.classes_ = np.array(about["classes"])
