"""Smoke runs of the configs of images and radar maps."""

import io
import json

import numpy as np
import pytest

from lwt import errors
from lwt.inspect import cost
from lwt.layers import quantized_weight
from lwt.runs import config_file, experiment
from lwt.training import build, loop, train
from tests.configs import smoke

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """One for all tests, so that images are decoded, and maps simulated, once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LWT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder of images in two classes, light and dark."""
    folder = tmp_path_factory.mktemp("pictures")
    for split, count in (("train", 40), ("test", 12)):
        label = np.arange(count) % 2
        noise = np.random.default_rng(count).integers(0, 128, (count, 8, 8, 3))
        np.savez(
            folder / f"{split}.npz", image=(noise + 127 * label[:, None, None, None]).astype(np.uint8), label=label
        )
    return folder


@pytest.mark.parametrize("hybrid, method", [(False, "qlora"), (True, "qat")])
def test_vit(hybrid, method, pictures, tmp_path):
    """From scratch, from that run with a new head (which a hybrid takes as a plain one does), and as integers."""
    spec = f"vit.py:data=folder:{pictures},hybrid={hybrid},smoke=true"
    smoke.cycle(config_file.load(f"{smoke.ROOT}/configs/{spec}"), tmp_path / "base")
    base = experiment.load(str(tmp_path / "base"), checkpoint="last")
    figures, *_ = base.evaluate()
    assert figures["loss"] > 0 and 0 <= figures["accuracy"] <= 1
    if not hybrid:
        config = config_file.load(f"{smoke.ROOT}/configs/vit.py:data=folder:{pictures},base={tmp_path}/base,smoke=true")
        run = build.build(config, str(tmp_path / "tuned"), base=base.weights)
        start = run.init().trainable
        assert all((start[f"base/{name}"] == w).all() for name, w in base.weights.items() if "head" not in name)
        assert loop.train(run)["loss"] > 0
    config = config_file.load(f"{smoke.ROOT}/configs/lightweight.py:base={tmp_path}/base,method={method},smoke=true")
    assert train.run(config, str(tmp_path / method))["loss"] > 0
    kernel = experiment.load(str(tmp_path / method), checkpoint="last").weights["embed/patch/kernel"]
    assert isinstance(kernel, quantized_weight.Quantized)


def test_compact_transformers(pictures, tmp_path):
    spec = f"{smoke.ROOT}/configs/vit.py:size=cct2,data=folder:{pictures}"
    smoke.cycle(config_file.load(f"{spec},smoke=true"), tmp_path / "run")
    found = experiment.load(str(tmp_path / "run"), checkpoint="last").model
    assert (found.stem, found.pool) == ("pooled", "sequence")
    with pytest.raises(errors.ConfigError, match="size=cct2 has a convolutional stem of its own"):
        config_file.load(f"{spec},hybrid=true")


@pytest.fixture
def vlora(pictures):
    """``vlora(arguments)``: the config, small, on these images."""

    def make(arguments):
        config = config_file.load(
            f"{smoke.ROOT}/configs/vlora_cifar10.py:size=small,data=folder:{pictures},smoke=true,{arguments}"
        )
        config.data.image_size = 32
        config.model.update(patch=8, width=16, hidden=32, layers=4)
        return config

    return make


def test_vlora_cifar10(vlora, tmp_path):
    smoke.cycle(vlora("rank=2,augment=mix"), tmp_path / "run")
    found = experiment.load(str(tmp_path / "run"), checkpoint="last")
    figures = found.report()
    assert figures["records"] == 12 and 0 <= figures["accuracy"] <= 1 and found.labels == ("0", "1")
    assert len(next((tmp_path / "run/eval").glob("*.tsv")).read_text().splitlines()) == 13
    np.save(tmp_path / "x.npy", np.zeros((32, 32, 3), np.uint8))
    (tmp_path / "paths.txt").write_text(f"{tmp_path}/x.npy\n" * 3)
    said = io.StringIO()
    found.predict_file(str(tmp_path / "paths.txt"), output=said)
    answers = said.getvalue().splitlines()
    assert len(answers) == 3 and len({*answers}) == 1 and {*answers} <= {"0", "1"}
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert {row["train/real_share"] for row in rows if "train/real_share" in row} == {1}


@pytest.mark.parametrize("arguments", ["rank=0,augment=none", "rank=2,mode=base", "rank=2,mode=lors"])
def test_other_modes(arguments, vlora, tmp_path):
    """The plain ViT and the other modes: built, stepped and evaluated."""
    assert loop.train(build.build(vlora(arguments), str(tmp_path)))["loss"] > 0
    assert smoke.steps_of(tmp_path)[2] == [1, 2]


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_images_for_a_task_of_texts(task, vlora, tmp_path):
    config = vlora("rank=0")
    config.task = dict(name=task)
    message = f"task.name='{task}' does not fit data.kind='images'; choose from classify_images"
    with pytest.raises(errors.ConfigError, match=message):
        build.build(config, str(tmp_path))


def of_maps(arguments):
    """A config of maps with a sixteenth of their pixels."""
    config = config_file.load(f"{smoke.ROOT}/configs/lh_vit.py:{arguments}smoke=true")
    config.data.image_size = config.model.image_size = 32
    return config


def test_lh_vit(tmp_path):
    smoke.cycle(of_maps(""), tmp_path / "run")
    found = experiment.load(str(tmp_path / "run"), checkpoint="last")
    figures = found.report()
    assert figures["records"] == 16 and 0 <= figures["accuracy"] <= 1
    assert len(found.labels) == 8 and found.labels[0] == "walk"


@pytest.mark.parametrize("model", ["vit", "cnn", "cnn_small", "cnn_tiny", "cnn_light"])
def test_other_models_of_maps(model, tmp_path):
    run = build.build(of_maps(f"model={model},difficulty=easy,"), str(tmp_path / "run"))
    assert loop.train(run)["loss"] > 0


@pytest.mark.parametrize("data, classes", [("radar_har", 8), ("radar_parrad", 6)])
def test_lh_vit_and_its_vit_are_of_one_size(data, classes):
    light, plain = (
        cost.parameters(config_file.load(f"{smoke.ROOT}/configs/lh_vit.py:model={model},data={data}"), outputs=classes)
        for model in ("lh_vit", "vit")
    )
    assert plain["total"] == pytest.approx(light["total"], rel=0.005)
    chosen = "" if data == "radar_har" else ",fold=3"
    fold = config_file.load(f"{smoke.ROOT}/configs/lh_vit.py:data={data}{chosen}").data
    assert "test" in fold.test if data == "radar_har" else (fold.train[-5:], fold.test[-5:]) == ("rest3", "fold3")
