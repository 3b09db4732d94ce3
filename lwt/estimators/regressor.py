"""A regressor of texts as scikit-learn's users know regressors."""

import numpy as np

from lwt import errors
from lwt.estimators import base as estimator


class Regressor(estimator.Estimator):
    """Predicts a number for each text with a fine-tuned encoder.

    Args and attributes are those of `Classifier`, without what concerns classes. The numbers are learned with mean 0
    and variance 1.
    """

    _estimator_type = "regressor"

    def __init__(
        self,
        base="embbert",
        method="full",
        *,
        rank=8,
        epochs=0,
        rate=0.0,
        length=0,
        patience=0,
        ema=0.0,
        validation=0.1,
        seed=0,
        folder="",
        verbose=False,
    ):
        self.base, self.method, self.rank, self.epochs, self.rate = base, method, rank, epochs, rate
        self.length, self.patience, self.ema, self.validation = length, patience, ema, validation
        self.seed, self.folder, self.verbose = seed, folder, verbose

    def fit(self, X, y):
        """Trains on texts X and numbers y, two lists (or arrays, or columns of pandas); returns the regressor.

        Raises:
            lwt.errors.DataError: the lists differ in length or hold something else, or all numbers are the same.
            lwt.errors.ConfigError: an argument is wrong.
        """
        texts, given = self._checked(X, y)
        try:
            numbers = np.asarray(given, np.float64)
        except (ValueError, TypeError) as error:
            raise errors.DataError(f"the targets must be numbers: {error}") from None
        if numbers.ndim != 1 or not np.isfinite(numbers).all() or numbers.std() == 0:
            raise errors.DataError("the targets must be finite numbers, one for each text, and not all the same")
        # No scaled target may be a whole number: data whose labels are all whole are of classes.
        mean, scale = float(numbers.mean()), float(numbers.std()) * (1 + 1e-6)
        same, plain = np.zeros(len(texts), int), self._plain()
        held_out = estimator.drawn(same, share=plain["validation"], seed=plain["seed"], least=2)  # for a correlation

        def change(config):
            config.task = dict(name="regress")
            config.select, config.select_mode = "loss", "min"

        self._train(texts, ((numbers - mean) / scale).tolist(), held_out=held_out, change=change)
        self.mean_, self.scale_ = mean, scale
        return self

    def predict(self, X):
        """A number for each text, `[n]` float64."""
        self._check_fitted()
        outputs, cut = self.experiment_.outputs(X)
        self.experiment_.warn_of_cut(cut)
        return np.asarray(outputs, np.float64).reshape(-1) * self.scale_ + self.mean_

    def score(self, X, y, *, sample_weight=None):
        """R² on texts and numbers; 1 is perfect, and 0 is as good as their mean."""
        y = np.asarray(y, np.float64)
        apart = np.average((y - self.predict(X)) ** 2, weights=sample_weight)
        spread = np.average((y - np.average(y, weights=sample_weight)) ** 2, weights=sample_weight)
        return float(1 - apart / spread) if spread > 0 else float(apart == 0)

    def _target(self):
        return {"mean": self.mean_, "scale": self.scale_}

    def _set_target(self, about):
        self.mean_, self.scale_ = about["mean"], about["scale"]
