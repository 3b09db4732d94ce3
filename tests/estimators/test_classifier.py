"""The classifier learns, keeps the labels' types, is saved and pickled, and is an estimator to scikit-learn."""

import copy
import json
import pathlib
import pickle
import sys

import numpy as np
import pandas
import pytest
import sklearn.base
import sklearn.model_selection
import sklearn.pipeline
import sklearn.preprocessing

import lwt
from lwt import errors
from lwt.runs import experiment

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def settings(base):
    return {"base": base, "epochs": 20, "rate": 3e-3, "length": 16}


@pytest.fixture(scope="module")
def fitted(settings, texts, compiled_once):
    return lwt.Classifier(**settings).fit(*texts)


def test_it_learns_and_answers(fitted, texts, capsys):
    given, labels = texts
    assert fitted.classes_.tolist() == ["billing", "delivery"] == [*fitted.experiment_.labels]
    shares = fitted.predict_proba(given)
    assert shares.shape == (40, 2) and shares.dtype == np.float32
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
    assert fitted.predict(given).tolist() == fitted.classes_[shares.argmax(1)].tolist()
    assert fitted.score(given, labels) == np.mean(fitted.predict(given) == labels) > 0.9
    assert fitted.score(given, labels, sample_weight=np.arange(40) == 3) in (0, 1)
    assert fitted.experiment_.calibration.temperature > 0 and capsys.readouterr().out == ""


def test_it_is_saved_and_pickled(fitted, texts, tmp_path):
    given, _ = texts
    shares = fitted.predict_proba(given)
    fitted.save(tmp_path / "saved")
    for again in (lwt.load(tmp_path / "saved"), pickle.loads(pickle.dumps(fitted))):
        assert type(again) is lwt.Classifier and again.get_params() == fitted.get_params()
        np.testing.assert_array_equal(again.predict_proba(given), shares)
        assert again.predict(given).tolist() == fitted.predict(given).tolist()
    np.testing.assert_array_equal(experiment.load(tmp_path / "saved").predict_proba(given), shares)
    for wrong, error, words in (
        ({"checkpoint": 1}, errors.CheckpointError, "it has no checkpoint 1"),
        ({"capacity": 2}, errors.ConfigError, "capacity=2 is room for adapters"),
    ):
        with pytest.raises(error, match=words):
            lwt.load(tmp_path / "saved", **wrong)
    with pytest.raises(errors.ConfigError, match="already holds something"):
        fitted.save(tmp_path / "saved")


def test_scikit_learn_takes_it(settings, texts):
    given, labels = np.array(texts[0]), np.array(texts[1])
    model = lwt.Classifier(**settings).set_params(epochs=2)
    copy = sklearn.base.clone(model)
    assert copy is not model and copy.get_params() == model.get_params()
    assert sklearn.base.is_classifier(model) and not hasattr(copy, "experiment_")
    lower = sklearn.preprocessing.FunctionTransformer(lambda texts: [text.lower() for text in texts])
    steps = sklearn.pipeline.Pipeline([("lower", lower), ("classify", model)])
    folds = sklearn.model_selection.StratifiedKFold(2)
    scores = sklearn.model_selection.cross_val_score(steps, given, labels, cv=folds, error_score="raise")
    assert scores.shape == (2,) and ((scores >= 0) & (scores <= 1)).all()
    one = [(np.arange(20), np.arange(20, 40))]
    search = sklearn.model_selection.GridSearchCV(
        steps, {"classify__rate": [1e-2]}, cv=one, error_score="raise", refit=False
    )
    search.fit(given, labels)
    assert search.best_params_ == {"classify__rate": 1e-2}


def test_integers_as_labels_and_no_scikit_learn(settings, texts, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    given, labels = texts
    wanted = np.array([7 if label == "billing" else -1 for label in labels])
    options = {"class_weight": {wanted[0].item(): 2.0}, "ema": 0.5, "patience": 5, "label_smoothing": 0.1}
    model = lwt.Classifier(**settings, **options, folder=str(tmp_path / "kept"), verbose=True)
    model.fit(pandas.Series(given), pandas.Series(wanted))
    assert model.predict(given).dtype == wanted.dtype and model.score(given, wanted) > 0.9
    assert capsys.readouterr().out
    config = json.loads((tmp_path / "kept/run/config.json").read_text())
    assert config["optimizer"]["ema"] == 0.5 and config["patience"] == 5 and config["task"]["label_smoothing"] == 0.1
    assert config["task"]["class_weights"] == {str(wanted[0]): 2.0}
    model.save(tmp_path / "saved")
    again = lwt.load(tmp_path / "saved")
    assert again.get_params() == model.get_params() and again.classes_.dtype == wanted.dtype


def test_labels_may_be_a_list_of_numbers_of_numpy(settings, texts):
    labels = [*np.array([3, 7] * 20)]
    model = lwt.Classifier(**settings, calibrate=False).fit(texts[0], labels)
    assert model.classes_.tolist() == [3, 7]


def test_adapters_of_trained_weights_and_booleans_as_labels(settings, texts):
    given, labels = texts
    wanted = [label == "billing" for label in labels]
    model = lwt.Classifier(**settings, method="lora", rank=2, calibrate=False).fit(given, wanted)
    assert model.classes_.tolist() == [False, True] and model.predict(given).dtype == bool
    assert model.experiment_.calibration is None and model.experiment_.config.reparam.rank == 2
    with pytest.raises(errors.ConfigError, match="method='lora' adapts trained weights, and base='' has none"):
        lwt.Classifier("", "lora").fit(*texts)


def test_ngrams_are_added_where_nothing_speaks_against_them(settings, texts, tmp_path, monkeypatch, fitted):
    assert fitted.experiment_.model.ngram_weights and "head/ngrams/embedding" in fitted.experiment_.weights
    for others in ({"method": "lora"}, {"class_weight": "balanced"}, {"base": "hf:models/minilm"}):
        assert not lwt.Classifier(**settings | others)._with_ngrams()
    kept = {"folder": str(tmp_path / "kept"), "epochs": 1}
    plain = lwt.Classifier(**settings | kept, ngrams=False).fit(*texts)
    assert not plain.experiment_.model.ngram_weights and not (tmp_path / "kept/network").exists()
    again = lwt.Classifier(**settings | kept).fit(*texts)  # a run that was begun without them goes on without them
    np.testing.assert_array_equal(again.predict_proba(texts[0]), plain.predict_proba(texts[0]))
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert not lwt.Classifier(**settings)._with_ngrams()


@pytest.mark.parametrize(
    "given, message",
    [
        ((["a", "b"], ["x"]), "2 texts and 1 labels: each text needs one label"),
        (([], []), "there are no texts to learn from"),
        ((["a", "b"], ["x", "x"]), "all labels are 'x'; there is nothing to learn"),
        ((["a", " "], ["x", "y"]), "text 2 of 2 is empty"),
        ((["a", 3.0], ["x", "y"]), "text 2 of 2 is 3.0; it must be a string"),
        (("ab", ["x", "y"]), "takes a list of texts, not str"),
        ((np.array([["a"], ["b"]]), ["x", "y"]), "takes a list of texts, not ndarray"),
        ((["a", "b"], ["x", 1]), "labels must be all texts, all integers or all booleans, not texts and numbers"),
        ((["a", "b", "c"], np.array([0.0, 1.0, np.nan])), "labels must be all texts, .*, not nan"),
        ((["a", "b"], ["x", None]), "labels must be all texts, all integers or all booleans, not None"),
        ((["a", "b"], ["x", "x "]), "two labels are the same but for white space"),
        ((["a", "b"], "xy"), "y must be a list with one label for each text, not str"),
        ((["a", "b"], None), "y must be a list .*, not NoneType"),
        ((["a", "b"], pandas.DataFrame({"y": [0, 1]})), "y must be a list .*, not DataFrame"),
    ],
)
def test_what_cannot_be_learned_is_named(given, message):
    with pytest.raises(errors.DataError, match=message):
        lwt.Classifier().fit(*given)


def test_wrong_arguments_are_named(texts):
    with pytest.raises(errors.ConfigError, match=r"is not fitted; call fit\(texts, labels\) first"):
        lwt.Classifier().predict(["a"])
    with pytest.raises(errors.ConfigError, match="validation=1.5 should be"):
        lwt.Classifier(validation=1.5).fit(*texts)
    with pytest.raises(errors.ConfigError, match="seed=-1 should be"):
        lwt.Classifier(seed=-1).fit(*texts)
    with pytest.raises(ValueError, match="Classifier has no parameter 'epoch'; did you mean 'epochs'?"):
        lwt.Classifier().set_params(epoch=3)
    with pytest.raises(errors.ConfigError, match="base=nowhere: there is no such model"):
        lwt.Classifier("nowhere").fit(*texts)
    assert repr(lwt.Classifier(epochs=3, class_weight="balanced")) == "Classifier(epochs=3, class_weight='balanced')"


def test_a_fit_that_fails_keeps_what_was_fitted(fitted, texts):
    model, before = copy.copy(fitted), fitted.predict(texts[0]).tolist()
    with pytest.raises(errors.ConfigError, match="validation=0"):
        model.set_params(validation=0).fit(["a b", "c d"] * 3, list("uvwxyz"))
    assert model.predict(texts[0]).tolist() == before


def test_arguments_may_be_of_numpy_and_paths(settings, texts, tmp_path):
    given = {"epochs": np.int64(1), "length": np.int64(16), "patience": np.int64(2), "ema": np.float32(0.5)}
    given |= {"base": pathlib.Path(settings["base"]), "class_weight": {np.str_("billing"): np.float32(2)}}
    model = lwt.Classifier(**given, label_smoothing=np.float32(0.1), ngrams=False).fit(*texts)
    model.save(tmp_path / "saved")
    assert lwt.load(tmp_path / "saved").get_params()["patience"] == 2


def test_a_folder_keeps_the_texts_of_its_model(settings, texts, tmp_path):
    given, labels = texts
    lwt.Classifier(**settings | {"epochs": 1}, folder=str(tmp_path / "kept"), ngrams=False).fit(given, labels)
    content = (tmp_path / "kept/data/train.jsonl").read_bytes()
    with pytest.raises(errors.ConfigError, match="kept' has a model of other texts or labels; give another one"):
        lwt.Classifier(**settings | {"epochs": 1}, folder=str(tmp_path / "kept"), ngrams=False).fit(given[::-1], labels)
    assert (tmp_path / "kept/data/train.jsonl").read_bytes() == content
