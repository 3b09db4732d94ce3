"""One base answers for tasks with other classes, from the adapters of runs that train a head too."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, files, trees
from lwt.layers import linear
from lwt.reparam import adapters, compose
from lwt.runs import adapter_folder, experiment
from lwt.training import train
from tests.configs import smoke

TEXTS = ["the warm year 3", "a bold and old one"]
LORA = {"name": "lora", "rank": 2}
CLASSES = {"base": ("no", "yes"), "season": ("autumn", "spring", "winter"), "size": ("l", "m", "s", "xl")}
TRAINABLE = {"season": ("adapter/.*", "base/head/.*"), "size": (".*/bias", "base/head/.*")}  # LoRA, and BitFit


def config_of(folder, name):
    """A small classifier on texts of which every class has ten."""
    texts, classes = folder / f"{name}-texts", CLASSES[name]
    texts.mkdir()
    rows = [
        {"text": f"the {'cold old bold warm'.split()[i % 4]} year {i}", "label": classes[i % len(classes)]}
        for i in range(40)
    ]
    (texts / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = smoke.encoder(f"embbert_finetune.py:model=bert_tiny,data=folder:{texts}")
    config.model.update(width=16, hidden=16, layers=1, max_length=16)
    return config


def written(run, base):
    """Writes the ``adapter/`` of a run that `new_run.adapt` made, as training does; returns its folder."""
    trained, _ = run.stored()
    arrays = linear.merge(base.weights)
    about = {"whole": trees.subtree(trained, "base"), "labels": run.labels, "step": run.step}
    leaves = compose.build(run.config.reparam).init(jax.random.key(0), arrays) | trees.subtree(trained, "adapter")
    identity = {**run.data.identity, "base": adapters.fingerprint(arrays)}
    section = run.config.reparam.to_dict()
    adapter_folder.write(run.workdir, leaves, identity=identity, reparam_config=section, **about)
    return adapter_folder.of(run.workdir)


@pytest.fixture(scope="module")
def home(untrained, tmp_path_factory):
    """``home/base`` with two classes, and two runs with other classes that adapt it."""
    home = tmp_path_factory.mktemp("home")
    untrained(config_of(home, "base"), home / "base")
    for name, trainable in TRAINABLE.items():
        config = config_of(home, name)
        with config.unlocked():
            config.init_from, config.init_checkpoint, config.init_skip = str(home / "base"), "last", ("head/.*",)
            config.reparam = LORA if name == "season" else {"name": "none"}
        config.optimizer.trainable, config.optimizer.learning_rate = trainable, 0.05
        train.run(config, home / name)
    return home


@pytest.mark.parametrize("name", TRAINABLE)
def test_the_adapter_alone_answers_as_its_run(home, name, tmp_path):
    run, base = experiment.load(home / name), experiment.load(home / "base")
    shutil.copytree(home / name / "adapter", tmp_path / "alone")
    found = experiment.load(tmp_path / "alone", base=base)
    assert found.labels == CLASSES[name] and found.step == run.step
    for weight, w in run.weights.items():
        np.testing.assert_array_equal(found.weights[weight], w, err_msg=weight)
    assert found.predict(TEXTS) == run.predict(TEXTS) and {*found.predict(TEXTS)} <= {*CLASSES[name]}
    assert base.predict(TEXTS) == experiment.load(home / "base").predict(TEXTS)
    moved = experiment.load(tmp_path / "alone", base=home / "base")  # by its folder
    assert moved.predict(TEXTS) == run.predict(TEXTS)
    assert found.stored()[0].keys() == run.stored()[0].keys()


def test_the_adapter_alone_has_the_calibration_of_its_run(home, tmp_path):
    shutil.copytree(home / "season", tmp_path / "season")
    run = experiment.load(tmp_path / "season")
    run.calibrate()
    expected = experiment.load(tmp_path / "season").predict_proba(TEXTS)
    assert run.calibration.temperature != 1
    alone = experiment.load(tmp_path / "season/adapter", base=home / "base")
    stacked = experiment.load(home / "base", adapters={"season": str(tmp_path / "season")})
    np.testing.assert_allclose(alone.predict_proba(TEXTS), expected, atol=1e-6)
    answers = stacked.predict_proba(TEXTS, adapters=["season"] * 2)
    np.testing.assert_allclose([[*shares.values()] for shares in answers], expected, atol=1e-6)


def test_what_an_adapter_holds(home):
    base = experiment.load(home / "base").weights
    head = {"head/classifier/kernel", "head/classifier/bias"}
    season, size = (adapters.load(home / name / "adapter") for name in TRAINABLE)
    assert season.whole.keys() == head and season.labels == CLASSES["season"] and season.dropped == ()
    assert all(name.endswith(("/a", "/b")) for name in season.leaves)
    assert size.leaves == {} and size.whole.keys() == head | {name for name in base if name.endswith("/bias")}
    for name, adapter in (("season", season), ("size", size)):
        for weight, w in experiment.load(home / name).weights.items():
            np.testing.assert_array_equal(adapter.merged(base)[weight], w, err_msg=weight)
    assert sorted(path.name for path in (home / "season/adapter").glob("[!.]*")) == [
        "adapter.json",
        "adapter.safetensors",
        "config.json",
        "labels.json",
    ]


def test_names_that_the_base_lacks_and_has_too_many(home):
    base = experiment.load(home / "base").weights
    adapter = adapters.Adapter({}, {"name": "none"}, whole={"new/kernel": jnp.ones((2, 3))}, dropped=("pooler/bias",))
    weights = adapter.expand(base)
    assert {*weights} - {*base} == {"new/kernel"} and {*base} - {*weights} == {"pooler/bias"}


def test_a_run_that_trains_everything_has_no_adapter(home, tmp_path):
    config = config_of(tmp_path, "base")
    train.run(config, tmp_path / "scratch")
    config.init_from, config.init_checkpoint = str(home / "base"), "last"
    train.run(config, tmp_path / "full")
    assert not (tmp_path / "scratch/adapter").exists() and not (tmp_path / "full/adapter").exists()
    assert adapter_folder.of(tmp_path / "full") == tmp_path / "full"


def test_what_does_not_fit(home, tmp_path):
    folder = shutil.copytree(home / "season/adapter", tmp_path / "adapter")
    with pytest.raises(errors.CheckpointError, match=r"is the adapter of step \d; it has no checkpoint 7"):
        experiment.load(folder, base=home / "base", checkpoint=7)
    other = experiment.load(home / "size")
    with pytest.raises(errors.CheckpointError, match="size has the fingerprint .* instead of"):
        experiment.load(folder, base=other)
    info = json.loads((folder / "adapter.json").read_text())
    files.write_json(folder / "adapter.json", info | {"data": {"tokenizer": "another"}}, checked=True)
    with pytest.raises(errors.CheckpointError, match="another tokenizer .fingerprint another. than the one found"):
        experiment.load(folder, base=home / "base")
    (folder / "adapter.safetensors").write_bytes(b"torn")
    with pytest.raises(errors.CheckpointError, match="adapter.safetensors is damaged or cut short"):
        experiment.load(folder, base=home / "base")


def test_a_base_in_use_is_not_read_again(home, monkeypatch):
    base = experiment.load(home / "base")
    monkeypatch.setattr(experiment, "arrays_of", lambda *_: pytest.fail("the base was opened again"))
    found = experiment.load(home / "season/adapter", base=base)
    assert not any(linear.is_node(w) for w in found.weights.values())
