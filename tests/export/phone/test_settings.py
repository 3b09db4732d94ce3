"""Files for phones carry what a program around them has to know."""

import json

import numpy as np
import pytest

from lwt.export.phone import litert, onnx, settings
from lwt.runs import calibration


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory, untrained):
    """A translator: its data are no labelled texts."""
    return untrained(tiny(), tmp_path_factory.mktemp("run") / "run")


def test_settings_of_other_runs_than_classifiers(run, monkeypatch):
    found = settings.of(run)
    assert found["task"] == "translate" and found["labels"] == [] and (found["rows"], found["length"]) == (None, None)
    assert found["tokenizer"]["sha256"] == run.tokenizer.fingerprint and found["clean"]["unicode"] == "NFKC"
    assert "row" not in found and found["temperature"] == 1.0
    monkeypatch.setattr(run, "calibration", calibration.Calibration(temperature=2.5))
    assert settings.of(run, length=8)["temperature"] == 2.5 and settings.of(run, length=8)["rows"] == 1


def test_metadata_of_onnx():
    import onnxruntime

    model = onnx.convert(lambda batch: {"y": batch["x"] * 2}, {"x": np.ones(3, np.float32)})
    described = onnx.describe(model, lwt="é")
    session = onnxruntime.InferenceSession(described)
    assert session.get_modelmeta().custom_metadata_map == {"lwt": "é"}
    np.testing.assert_array_equal(session.run(None, {"x": np.ones(3, np.float32)})[0], [2, 2, 2])


def test_metadata_of_litert_keep_the_large_weights_of_integers():
    from ai_edge_litert.tools import flatbuffer_utils

    w = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)
    model = litert.quantize(litert.convert(lambda batch: {"y": batch["x"] @ w}, {"x": np.ones((1, 512), np.float32)}))
    assert any(buffer.offset for buffer in flatbuffer_utils.convert_bytearray_to_object(model).buffers)
    given = {"x": np.random.default_rng(1).normal(size=(1, 512)).astype(np.float32)}
    described = litert.runner(litert.describe(model, lwt="{}"))(given)["y"]
    np.testing.assert_array_equal(described, litert.runner(model)(given)["y"])


def test_metadata_of_litert():
    from ai_edge_litert.tools import flatbuffer_utils

    model = litert.convert(lambda batch: {"y": batch["x"] * 2}, {"x": np.ones(3, np.float32)})
    described = litert.describe(model, lwt=json.dumps({"labels": ["é"]}))
    file = flatbuffer_utils.convert_bytearray_to_object(described)
    found = {entry.name: bytes(file.buffers[entry.buffer].data) for entry in file.metadata}
    assert json.loads(found[b"lwt"]) == {"labels": ["é"]} and len(found) > 1, "it keeps the converter's own"
    np.testing.assert_array_equal(litert.runner(described)({"x": np.ones(3, np.float32)})["y"], [2, 2, 2])
