"""A bundle has the weights, figures and answers of its run, wherever it is opened."""

import json
import pathlib
import re
import shutil

import jax
import numpy as np
import pytest

import lwt
from lwt import errors
from lwt.export import bundle, quantize
from lwt.layers import linear
from lwt.reparam import compose
from lwt.reparam.compression import quantize as rounding
from lwt.runs import experiment, integer_file, pretrained
from lwt.training import new_run

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def run(tiny, untrained, tmp_path_factory):
    """An evaluated translator, measured by a study, too."""
    run = untrained(tiny(), tmp_path_factory.mktemp("runs") / "run")
    run.report()
    record = {"checkpoint": run.step, "figures": {"loss": 1.0}}
    pathlib.Path(run.workdir, "eval", "some_study.json").write_text(json.dumps(record))
    return run


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    """Its bundle."""
    folder = tmp_path_factory.mktemp("bundles") / "whole"
    bundle.write(run, folder, license="apache-2.0", data_license="made up, and free.")
    return folder


def test_the_same_weights_figures_and_answers(run, folder):
    found = lwt.load(folder)
    assert found.step == run.step and found.weights.keys() == run.weights.keys()
    for name, w in run.weights.items():
        np.testing.assert_array_equal(found.weights[name], w, err_msg=name)
    _, sources, outputs, _ = run.evaluate()
    assert found.predict(sources) == outputs
    (wanted,) = json.loads((folder / "metrics.json").read_text())["figures"]
    figures = found.report()
    assert {**figures, "seconds": 0} == {**wanted, "seconds": 0}
    assert (folder / "eval").is_dir() and lwt.load(folder).step == run.step  # files of an evaluation are no damage


def test_the_cards_that_come_along_name_the_licences_of_their_data():
    infos = sorted((pathlib.Path(__file__).parents[2] / "pretrained").glob("*/bundle.json"))
    assert infos
    for info in infos:
        card = info.with_name("README.md")
        (said,) = re.findall(r"^- licences: (.*)$", card.read_text(), re.MULTILINE)
        sets = {"multi30k": "Multi30k", "snips": "Snips", "novels": "novels"}
        for name in re.findall(r"folder:\w*?(multi30k|snips|novels)", card.read_text()):
            assert sets[name] in said, card


def test_a_bundle_has_one_checkpoint(run, folder):
    for step in ("best", "last", run.step, str(run.step)):
        assert lwt.load(folder, checkpoint=step).step == run.step
    for step in ("7", "first", run.step + 1):
        with pytest.raises(
            errors.CheckpointError, match=f"is a bundle of step {run.step}; it has no checkpoint {step}"
        ):
            lwt.load(folder, checkpoint=step)


def test_the_card_has_size_licence_and_figures(run, folder):
    card = (folder / "README.md").read_text()
    size, count = (folder / "model.safetensors").stat().st_size, sum(w.size for w in run.weights.values())
    assert "license: apache-2.0" in card and f"{count:,} weights, {size:,} bytes (float32)" in card
    assert "\n- licences: made up, and free.\n" in card
    (figures,) = json.loads((folder / "metrics.json").read_text())["figures"]
    command = re.escape(f"`python eval.py --workdir=whole --data={figures['data']}`")
    assert re.search(rf"loss {figures['loss']:.4g}.* on 8 records \(greedy\): {command}", card)


@pytest.mark.parametrize("separator, words", [("", "one of: a, b"), ("|", "some or none of: a, b")])
def test_the_card_says_how_many_labels_an_answer_has(separator, words, run, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "config", run.config.copy_and_resolve_references())
    monkeypatch.setattr(run, "labels", ("a", "b"))
    with run.config.unlocked():
        run.config.data.label_separator = separator
    bundle.write(run, tmp_path / "labels")
    assert f"it answers with {words}." in (tmp_path / "labels/README.md").read_text()


@pytest.mark.parametrize("precision, error", [("bfloat16", 2**-8), ("float16", 2**-11)])
def test_half_precision_takes_half_the_bytes(precision, error, run, folder, tmp_path):
    size = bundle.write(run, tmp_path / "half", precision=precision)
    assert size < 0.55 * (folder / "model.safetensors").stat().st_size
    found = lwt.load(tmp_path / "half").weights
    for name, w in run.weights.items():
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], w, rtol=error, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("block, used", [(None, 64), (0, 0)])
def test_integers_are_multiplied_as_integers(block, used, run, tmp_path):
    bundle.write(run, tmp_path / "int8", precision="int8", block=block)
    found = lwt.load(tmp_path / "int8")
    wanted = integer_file.as_stored(quantize.weights(run, rounding.Quantize(block=used)), rest="float16")
    for name, w in wanted.items():
        assert linear.is_node(found.weights[name]) == (w.ndim > 1 if hasattr(w, "ndim") else True)
        np.testing.assert_array_equal(linear.dense(found.weights[name]), linear.dense(w), err_msg=name)
    for name, w in experiment.arrays_of(tmp_path / "int8", "best").items():  # what another run would start from
        np.testing.assert_array_equal(w, linear.dense(wanted[name]), err_msg=name)


def test_a_run_of_four_bits_is_described_as_such(run, tmp_path):
    source = experiment.load("pretrained/snips-int4")
    bundle.write(source, tmp_path / "out", precision="int8")
    assert json.loads((tmp_path / "out/bundle.json").read_text())["precision"] == "int4"
    assert "(int4)" in (tmp_path / "out/README.md").read_text()


def test_blocks_are_for_integers_only(run, tmp_path):
    with pytest.raises(errors.ConfigError, match="--block=0 is for --precision=int8, not float16"):
        bundle.write(run, tmp_path / "half", precision="float16", block=0)
    assert not (tmp_path / "half").exists()


def test_a_bundle_of_integers_has_the_figures_of_integers(run, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "workdir", shutil.copytree(run.workdir, tmp_path / "run"))
    bundle.write(run, tmp_path / "before", precision="int8")
    assert json.loads((tmp_path / "before/metrics.json").read_text()) == {"figures": []}
    path = tmp_path / "run/export/int8.safetensors"
    quantize.export(run, path)
    own = run.with_file(str(path)).report()
    bundle.write(run, tmp_path / "after", precision="int8")
    (wanted,) = json.loads((tmp_path / "after/metrics.json").read_text())["figures"]
    assert {**wanted, "seconds": 0} == {**{key: own[key] for key in wanted}, "seconds": 0}
    assert lwt.load(tmp_path / "after").report()["loss"] == pytest.approx(own["loss"], rel=1e-6)


def test_a_file_of_integers_becomes_a_bundle(run, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "workdir", shutil.copytree(run.workdir, tmp_path / "run"))
    path = tmp_path / "run/export/int4.safetensors"
    quantize.export(run, path, quantization=rounding.Quantize(format="int4", block=32))
    own = run.with_file(str(path)).report()
    assert bundle.write(run, tmp_path / "int4", weights=str(path)) == path.stat().st_size
    found = lwt.load(tmp_path / "int4")
    for name, w in run.with_file(str(path)).weights.items():
        np.testing.assert_array_equal(linear.dense(found.weights[name]), linear.dense(w), err_msg=name)
    assert [row["loss"] for row in json.loads((tmp_path / "int4/metrics.json").read_text())["figures"]] == [own["loss"]]
    assert "(int4)" in (tmp_path / "int4/README.md").read_text()
    with pytest.raises(errors.CheckpointError, match="nowhere.safetensors"):
        bundle.write(run, tmp_path / "other", weights=str(tmp_path / "nowhere.safetensors"))


def test_other_runs_start_from_a_bundle(run, folder, tmp_path):
    arrays = experiment.arrays_of(folder, "best")
    assert all(np.array_equal(arrays[name], w) for name, w in run.weights.items())
    section = {"name": "lora", "rank": 2}
    leaves = compose.build(section).init(jax.random.key(0), arrays)
    made = new_run.adapt(lwt.load(folder), tmp_path / "run", reparam=section, adapter=leaves)
    assert made.config.init_from == str(folder) and made.tokenizer.fingerprint == run.tokenizer.fingerprint
    assert all(np.array_equal(made.weights[name], w) for name, w in run.weights.items())  # b is 0


def test_an_existing_folder_is_not_overwritten(run, folder):
    with pytest.raises(errors.ConfigError, match="whole already holds something"):
        bundle.write(run, folder)


def test_the_encoder_that_is_installed_with_lwt_is_embbert_without_its_heads(run, tmp_path):
    source = lwt.load(pretrained.folder("embbert"))
    bundle.write(bundle.headless(source), tmp_path / "encoder", precision="float16", license="apache-2.0")
    ours, committed = lwt.load(tmp_path / "encoder"), lwt.load(pretrained.folder("embbert-encoder"))
    heads = {name for name in source.weights if name.startswith("head/")}
    assert heads and ours.weights.keys() == committed.weights.keys() == source.weights.keys() - heads
    for name, weight in committed.weights.items():
        np.testing.assert_array_equal(ours.weights[name], weight)
        np.testing.assert_array_equal(source.weights[name], weight)
    assert committed.tokenizer.fingerprint == source.tokenizer.fingerprint
    with pytest.raises(errors.ConfigError, match="has no head"):
        bundle.headless(committed)
    with pytest.raises(errors.ConfigError, match="the model 'seq2seq' of .* has no head"):
        bundle.headless(run)
