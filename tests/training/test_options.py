"""Options of a classifier's run, from the records to the answers: several labels per text, ordered classes, weights."""

import json

import numpy as np
import pytest
import sklearn.metrics

from lwt import errors
from lwt.runs import answers, calibration, experiment
from lwt.training import train
from tests.configs import smoke

TAGS = {"billing": "invoice", "urgent": "now", "legal": "contract"}


@pytest.fixture
def folder(tmp_path):
    """``folder(rows) -> config`` of a small encoder that trains on these records."""

    def folder(rows, **changes):
        (tmp_path / "data").mkdir()
        (tmp_path / "data/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        config = smoke.encoder(f"embbert_finetune.py:model=bert_2mb,data=folder:{tmp_path}/data")
        config.data.max_train_records, config.steps, config.optimizer.learning_rate = 0, 60, 3e-3
        config.log_every = config.eval_every = config.save_every = 30
        for key, value in changes.items():
            section, _, name = key.rpartition("__")
            place = config[section] if section else config
            place[name] = value
        return config

    return folder


def tagged(count=240):
    """Records whose labels are told by their words; many have several, and some none."""
    generator = np.random.default_rng(0)
    has = generator.random((count, 3)) < (0.5, 0.3, 0.15)
    for i, row in enumerate(has):
        words = [word for word, there in zip(TAGS.values(), row, strict=True) if there] + [f"case {i}"]
        labels = [name for name, there in zip(TAGS, row, strict=True) if there]
        yield {"text": " ".join(generator.permutation(words)), "label": labels if i % 2 else "|".join(labels)}


def test_several_labels_a_text(folder, tmp_path):
    task = {"name": "multilabel", "class_weights": "balanced"}
    config = folder(tagged(), data__label_separator="|", task=task, select="f1_macro", select_mode="max")
    train.run(config, tmp_path / "run")
    run = experiment.load(tmp_path / "run")
    assert run.labels == ("billing", "legal", "urgent")
    _, sources, logits, references = run.evaluate("test")
    figures = run.report()
    wanted = sklearn.metrics.f1_score(references, logits > 0, average="micro")
    assert figures["f1_micro"] == pytest.approx(wanted) and wanted > 0.8
    assert figures["subset_accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(references, logits > 0))
    assert figures["per_class"]["legal"]["support"] == references[:, 1].sum()
    shares = run.predict_proba(sources)
    np.testing.assert_allclose(shares, 1 / (1 + np.exp(-logits)), atol=1e-5)
    found = run.calibrate()
    assert [*found["thresholds"]] == [*run.labels] and found["after"]["f1_macro"] >= found["before"]["f1_macro"]
    bounds = np.array([*found["thresholds"].values()])
    decided = ["|".join(np.array(run.labels)[row]) for row in shares >= bounds]
    assert experiment.load(tmp_path / "run").predict(sources) == decided
    assert "f1_macro_calibrated" in run.report()
    (tmp_path / "x.csv").write_text("text\n" + "".join(f"{source}\n" for source in sources))
    run.predict_file(tmp_path / "x.csv", out=tmp_path / "y.csv", wanted=answers.Wanted(threshold=0.9))
    lines = (tmp_path / "y.csv").read_text().splitlines()[1:]
    likely = ["|".join(np.array(run.labels)[row]) for row in shares >= 0.9]
    assert [line.split(",")[1] for line in lines] == likely
    assert [line.endswith("true") for line in lines] == [not answer for answer in likely]


def test_ordered_classes_with_weights(folder, tmp_path):
    rows = [{"text": f"{'very ' * (i % 5)}good {i}", "label": i % 5 + 1} for i in range(200)]
    task = {"name": "ordinal", "class_weights": {"5": 2.0}}
    figures = train.run(folder(rows, task=task, select="mae"), tmp_path / "run")
    run = experiment.load(tmp_path / "run", checkpoint="last")
    _, _, logits, references = run.evaluate("validation")
    assert figures["mae"] == pytest.approx(sklearn.metrics.mean_absolute_error(references, logits.argmax(1)), rel=1e-6)
    assert run.report()["kappa"] <= 1 and run.calibrate()["temperature"] > 0
    assert run.calibration != calibration.NONE and len(run.predict(["good"])[0]) == 1


def test_what_does_not_fit_the_labels_is_refused(folder, tmp_path):
    config = folder(tagged(), data__label_separator="|")
    with pytest.raises(errors.ConfigError, match="task.name='classify' should be 'multilabel'"):
        train.run(config, tmp_path / "run")
    config.task = {"name": "multilabel", "class_weights": {"spam": 2.0}}
    with pytest.raises(errors.ConfigError, match="task.class_weights names 'spam', which is not a label; choose from"):
        train.run(config, tmp_path / "other")
    config.data.label_separator = ""
    with pytest.raises(errors.DataError, match="records are malformed .*field 'label' is empty"):
        train.run(config, tmp_path / "third")
