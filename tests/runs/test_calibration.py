"""A temperature is fitted to the validation set, kept with the run, and used for its probabilities alone."""

import json
import pathlib

import numpy as np
import pytest

from lwt import errors
from lwt.export import bundle
from lwt.runs import calibration, experiment
from tests.configs import smoke

WORDS = "cold old bold warm long dark young slow great small".split()


@pytest.fixture(scope="module")
def run(untrained, tmp_path_factory, compiled_once):
    """An untrained BERT of two classes, whose logits say nothing."""
    folder = tmp_path_factory.mktemp("labelled")
    rows = [{"text": f"the {w} year {i} was {w}er", "label": "ab"[i % 2]} for i, w in enumerate(WORDS * 12)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return untrained(smoke.encoder(f"embbert_finetune.py:model=bert_2mb,data=folder:{folder}"), folder / "run")


def test_a_temperature_is_kept_with_the_run_and_used(run, tmp_path):
    texts = [f"the {word} year" for word in WORDS]
    before, logits = run.predict_proba(texts), run.outputs(texts)[0]
    found = run.calibrate()
    assert found["after"]["loss"] < found["before"]["loss"] and found["data"] == "validation"
    temperature = found["temperature"]
    again = experiment.load(run.workdir)
    assert again.calibration == calibration.Calibration(temperature=temperature)
    np.testing.assert_allclose(again.predict_proba(texts), again.task.probabilities(logits / temperature), atol=1e-6)
    assert again.predict(texts) == run.predict(texts)
    assert ((again.predict_proba(texts).max(1) > before.max(1)) == (temperature < 1)).all()
    figures = again.report(split="validation")
    assert figures["temperature"] == temperature and figures["loss"] == pytest.approx(found["before"]["loss"], rel=1e-6)
    assert figures["loss_calibrated"] == pytest.approx(found["after"]["loss"], rel=1e-6)
    assert figures["ece_calibrated"] == pytest.approx(found["after"]["ece"], abs=1e-6)
    names = {path.name for path in pathlib.Path(run.workdir, "eval").iterdir()}
    assert {"validation.json", "validation.confusion.csv", "validation.confusion.png"} <= names
    bundle.write(again, tmp_path / "bundle")
    np.testing.assert_allclose(experiment.load(tmp_path / "bundle").predict_proba(texts), again.predict_proba(texts))
    experiment.load(tmp_path / "bundle").calibrate()
    assert experiment.load(tmp_path / "bundle").calibration.temperature == pytest.approx(temperature, rel=1e-3)
    (tmp_path / "bundle" / calibration.FILE).write_text("{}")
    with pytest.raises(errors.CheckpointError, match="calibration.json is damaged"):
        experiment.load(tmp_path / "bundle")


def test_what_does_not_belong_to_the_checkpoint_is_not_used(tmp_path, caplog):
    assert calibration.read(tmp_path, step=3) is None
    (tmp_path / calibration.FILE).write_text(json.dumps({"temperature": 2.0, "checkpoint": 3}))
    assert calibration.read(tmp_path, step=3) == calibration.Calibration(temperature=2.0)
    assert calibration.read(tmp_path, step=4) is None
    assert "was fitted to checkpoint 3 and this is 4: it is not used" in caplog.text
    for content in ("{", "[]", '{"temperature": -1, "checkpoint": 3}', '{"temperature": 1}'):
        (tmp_path / calibration.FILE).write_text(content)
        with pytest.raises(errors.CheckpointError, match="calibration.json is damaged .*; fit it again"):
            calibration.read(tmp_path, step=3)


def test_a_task_without_probabilities_is_refused(tiny, untrained, tmp_path):
    with pytest.raises(errors.ConfigError, match="--calibrate needs .*task.name='translate' gives none"):
        untrained(tiny(), tmp_path).calibrate()
