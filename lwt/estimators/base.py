"""What the estimators share: arguments, the run behind them, and files."""

import collections.abc
import contextlib
import dataclasses
import inspect
import io
import json
import os
import pathlib
import tarfile
import tempfile
import types

import numpy as np

from lwt import errors, files, values
from lwt.classify import fit as fitting
from lwt.classify import ngrams
from lwt.data import inputs, layout
from lwt.export import bundle
from lwt.runs import experiment
from lwt.training import train

FILE = "estimator.json"  # makes a bundle a saved estimator
ROWS = 32  # of a batch


class Estimator:
    """What `Classifier` and `Regressor` share."""

    def get_params(self, deep=True):
        """The arguments of the constructor, by name."""
        del deep  # no argument is an estimator
        return {name: getattr(self, name) for name in _names(type(self))}

    def set_params(self, **params):
        """Replaces arguments of the constructor; returns the estimator.

        Raises:
            ValueError: there is no such argument.
        """
        for name, value in params.items():
            if name not in _names(type(self)):
                what = errors.suggest(name, _names(type(self)))
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; {what}")
            setattr(self, name, value)
        return self

    def save(self, folder):
        """Writes the fitted model to a new folder, a bundle that `lwt.load` and all programs open.

        Raises:
            lwt.errors.ConfigError: it is not fitted, or the folder holds something.
        """
        self._check_fitted()
        params = {
            name: list(value.items()) if isinstance(value, dict) else value for name, value in self._plain().items()
        }
        about = {"class": type(self).__name__, "params": params, **self._target()}
        bundle.write(self.experiment_, folder)
        files.write_json(pathlib.Path(folder, FILE), about, checked=True)

    def restore(self, folder, **options):
        """Takes what was fitted from the folder where it was saved; returns the estimator.

        The `options` are those of `experiment.load`.

        Raises:
            lwt.errors.LwtError: as `experiment.load` does.
            lwt.errors.CheckpointError: the file of the estimator is damaged.
        """
        path = pathlib.Path(folder, FILE)
        try:
            self._set_target(files.read_json(path))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise errors.CheckpointError(f"{path} is damaged: {error}") from error
        self.experiment_ = experiment.load(str(folder), **options)
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "experiment_")

    def __sklearn_tags__(self):
        from sklearn import utils

        kind = self._estimator_type
        return utils.Tags(
            estimator_type=kind,
            target_tags=utils.TargetTags(required=True),
            classifier_tags=utils.ClassifierTags() if kind == "classifier" else None,
            regressor_tags=utils.RegressorTags() if kind == "regressor" else None,
            input_tags=utils.InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    def __repr__(self):
        defaults = {name: value.default for name, value in inspect.signature(type(self)).parameters.items()}
        changed = {name: value for name, value in self._params() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __getstate__(self):
        """The arguments and, if it is fitted, the saved folder as bytes: what pickle stores."""
        if not self.__sklearn_is_fitted__():
            return self.get_params()
        with tempfile.TemporaryDirectory() as folder:
            self.save(f"{folder}/saved")
            content = io.BytesIO()
            with tarfile.open(fileobj=content, mode="w") as archive:
                archive.add(f"{folder}/saved", "saved")
        return {**self.get_params(), "saved": content.getvalue()}

    def __setstate__(self, state):
        saved = state.pop("saved", None)
        self.set_params(**state)
        if saved is not None:
            self._temporary = tempfile.TemporaryDirectory()  # removed with this object
            with tarfile.open(fileobj=io.BytesIO(saved)) as archive:
                archive.extractall(self._temporary.name, filter="data")
            self.restore(f"{self._temporary.name}/saved")

    def _params(self):
        return self.get_params().items()

    def _plain(self):
        """The arguments as JSON holds them: no NumPy scalars, no paths."""
        return {name: _plain(value) for name, value in self._params()}

    def _check_fitted(self):
        if not self.__sklearn_is_fitted__():
            raise errors.ConfigError(f"this {type(self).__name__} is not fitted; call fit(texts, labels) first")

    def _checked(self, texts, targets):
        """Texts and targets as lists of the same length; raises `lwt.errors.DataError` for what cannot be learned."""
        texts = inputs.checked(texts)
        single = isinstance(targets, str | bytes) or not isinstance(targets, collections.abc.Iterable)
        if single or getattr(targets, "ndim", 1) != 1:
            raise errors.DataError(f"y must be a list with one label for each text, not {type(targets).__name__}")
        targets = targets.tolist() if hasattr(targets, "tolist") else targets
        targets = [target.item() if isinstance(target, np.generic) else target for target in targets]
        if len(texts) != len(targets):
            raise errors.DataError(f"{len(texts)} texts and {len(targets)} labels: each text needs one label")
        if not texts:
            raise errors.DataError("there are no texts to learn from")
        empty = next((i for i, text in enumerate(texts) if not text.strip()), None)
        if empty is not None:
            raise errors.DataError(f"text {empty + 1} of {len(texts)} is empty; leave it out")
        return texts, targets

    def _train(self, texts, targets, *, held_out, change, declared=(), with_ngrams=False):
        """Trains the run on texts whose targets are those of a file, and opens it.

        Args:
            held_out: indices of the validation set; if there are none, it is the training set.
            change: ``(config) -> None``, what the kind of target needs.
            declared: names of the classes, in order.
            with_ngrams: whether the run is the trained network with a linear model of n-grams; ignored for a run that
                was begun without one.
        """
        temporary = None if self.folder else tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.folder or temporary.name)
        data, chosen = folder / "data", set(held_out)
        everything = range(len(texts))
        parts = {"validation": sorted(chosen) or everything, "train": [i for i in everything if i not in chosen]}
        run, network = str(folder / "run"), str(folder / "network")
        contents = {
            data / f"{part}.jsonl": "".join(json.dumps({"text": texts[i], "label": targets[i]}) + "\n" for i in indices)
            for part, indices in parts.items()
        }
        if declared:
            contents[data / layout.LABELS] = "".join(f"{name}\n" for name in declared)
        begun = os.path.exists(run) or os.path.exists(network)
        for path, content in contents.items():
            if begun and path.exists() and path.read_text(encoding="utf-8") != content:
                raise errors.ConfigError(
                    f"folder={self.folder!r} has a model of other texts or labels; give another one"
                )
        for path, content in contents.items():
            files.write_text(path, content)
        with_ngrams = with_ngrams and (os.path.exists(network) or not os.path.exists(run))
        config = self._config(data, rows=len(parts["train"]), apart=with_ngrams)
        with config.unlocked():
            change(config)
        with contextlib.nullcontext() if self.verbose else contextlib.redirect_stdout(io.StringIO()):
            train.run(config, network if with_ngrams else run)
            if with_ngrams:
                ngrams.add_once(network, run)
        self.experiment_, self._temporary = experiment.load(run), temporary  # the folder is removed with this object

    def _config(self, data, *, rows, apart):
        """The config of the run, but for the task; see `fit.make_config`."""
        plain = types.SimpleNamespace(**self._plain())
        base = plain.base
        started = fitting.scratch("embbert") if base == "" else fitting.start("", base=base)
        arguments = started.arguments
        if started.config == "finetune":
            arguments = {**arguments, "method": self.method, "rate": plain.rate, "rank": plain.rank}
            arguments |= {"length": plain.length, "rows": ROWS}
            if self.method in ("full", "bitfit", "head"):
                del arguments["rank"]
        elif self.method != "full":
            raise errors.ConfigError(f"method={self.method!r} adapts trained weights, and base={base!r} has none")
        elif plain.rate:
            arguments = {**arguments, "rate": plain.rate}
        given = {"data": "data", "text": "text", "label": "label", "rows": rows, "epochs": plain.epochs, "apart": apart}
        config = fitting.make_config(dataclasses.replace(started, arguments=arguments), seed=plain.seed, **given)
        with config.unlocked():
            config.data.validation = config.data.test = f"folder:{data}@validation"
            config.data.train, config.data.leak_free = f"folder:{data}@train", False
            config.data.row_length = plain.length or config.data.row_length
            config.patience, config.optimizer.ema = plain.patience, plain.ema
        return config


def drawn(numbers, *, share, seed, least=1):
    """Indices of a validation set: of each class (`[n]` numbers) the `share`.

    At least `least` records of a class are drawn, and as many stay; none if the class has too few for both.

    Raises:
        lwt.errors.ConfigError: the share is not above 0 and below 1, or the seed is not a whole number from 0.
    """
    values.real(0, 1, above=True, below=True).require("validation", share)
    values.whole(0).require("seed", seed)
    found = []
    for number in np.unique(numbers):
        mine = np.flatnonzero(numbers == number)
        count = min(max(least, round(share * len(mine))), len(mine) - least) if len(mine) >= 2 * least else 0
        found += np.random.default_rng([seed, int(number)]).permutation(mine)[:count].tolist()
    return found


def _plain(value):
    """A value without NumPy's scalars and paths, also as keys and values of a dict."""
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in value.items()}
    return (
        os.fspath(value) if isinstance(value, os.PathLike) else value.item() if isinstance(value, np.generic) else value
    )


def _names(cls):
    """The arguments of an estimator's constructor."""
    return [*inspect.signature(cls).parameters]
