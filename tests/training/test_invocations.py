"""Wrong invocations: each ends with one line that names the culprit and what would be right, and a right call works
afterwards in the same workdir."""

import gzip
import os
import pathlib
import shutil

import pytest

from lwt import errors, files
from lwt.runs import checkpoint, experiment, run_config
from lwt.training import build, train

SHORT = {"steps": 2, "eval_every": 2}


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    """Two finished runs of different width, and with different tokenizers: ``runs/base`` and ``runs/wide``."""
    folder = tmp_path_factory.mktemp("runs")
    train.run(tiny({**SHORT, "save_every": 1}), f"{folder}/base")
    train.run(tiny({**SHORT, "model.width": 36, "data.tokenizer.vocabulary": 64}), f"{folder}/wide")
    return folder


@pytest.fixture
def base(runs, tmp_path):
    """A copy of the run ``base``, to be spoilt."""
    return pathlib.Path(shutil.copytree(runs / "base", tmp_path / "base"))


def complaint(call, *arguments, **options):
    """The one line that `call` ends with."""
    with pytest.raises(errors.LwtError) as caught:
        call(*arguments, **options)
    text = str(caught.value)
    assert text and "\n" not in text
    return text


WRONG = {
    "data.train": ("folder:multi31k", ["folder:multi31k", "LWT_DATA"]),
    "data.validation": ("generated:arithmetic@validatoin", ["'validatoin'", "'validation'"]),
    "data.fields": (("source", "traget"), ["'traget'", "'target'"]),
    "data.rows": (0, ["data.rows=0", "from 1 to"]),
    "data.row_length": (2, ["data.row_length", "none of the 200 pairs"]),
    "data.tokenizer.path": ("nowhere.model", ["nowhere.model", "No such file"]),
    "data.tokenizer.vocabulary": (8, ["data.tokenizer.vocabulary 8", "raise it"]),
    "optimizer.accumulate": (3, ["data.rows=16", "optimizer.accumulate=3"]),
    "optimizer.learning_rate": (-1.0, ["learning_rate=-1.0", "above 0"]),
    "optimizer.clip_norm": (-1.0, ["clip_norm=-1.0", "positive"]),
    "optimizer.name": ("adamm", ["'adamm'", "'adam'"]),
    "optimizer.arguments": ({"b3": 0.9}, ["optimizer.arguments", "b3"]),
    "optimizer.schedule": ({"name": "nom"}, ["'nom'", "'noam'"]),
    "optimizer.schedule ": (
        {"name": "noam", "width": 32, "warmup": 0},
        ["optimizer.schedule.warmup=0", "at least 1"],
    ),
    "optimizer.trainable": (("adaptr/.*",), ["'adaptr/.*'", "matches no weight"]),
    "optimizer.rate_rules": (((".*/kernel", 1.0),), ["optimizer.rate_rules", "end with"]),
    "model.name": ("seq2sq", ["'seq2sq'", "'seq2seq'"]),
    "model.attention": ("softmx", ["model.attention='softmx'", "'softmax'"]),
    "model.heads": (3, ["model.width=32", "model.heads=3"]),
    "model.dropout": (1.5, ["model.dropout=1.5", "[0, 1)"]),
    "model": ({"name": "seq2seq", "widht": 32}, ["model.widht", "'width'"]),
    "task": ({"name": "translate", "metrics": ("blue",)}, ["'blue'", "exact_match, rouge, translation"]),
    "task.name": ("translat", ["'translat'", "'translate'"]),
    "reparam": ({"name": "lora", "rank": 0}, ["reparam.rank is 0", "1 or more"]),
    "reparam ": ({"name": "lora", "targets": ".*/qery/.*"}, ["reparam.targets '.*/qery/.*'", "matches no weight"]),
    "reparam.name": ("lroa", ["'lroa'", "lora"]),
    "select": ("bleu", ["select='bleu'", "loss"]),
    "mesh": ({"data": 5}, ["mesh={'data': 5}", "1 devices"]),
    "sharding": (((".*", ("model",)),), ["'model'", "data"]),
    "profile_steps": ((3,), ["profile_steps=(3,)", "(first, last)"]),
    "init_from": ("no/such/run", ["no/such/run is not the workdir of a run", "config.json", "or a bundle"]),
    "precision": ("float16", ["precision='float16'", "'bfloat16'"]),
}


@pytest.mark.parametrize("key", WRONG)
def test_wrong_values_are_named_before_training_starts(tiny, tmp_path, monkeypatch, key):
    monkeypatch.delenv("LWT_DATA", raising=False)
    value, parts = WRONG[key]
    text = complaint(train.run, tiny({key.strip(): value}), f"{tmp_path}/run")
    assert all(part in text for part in parts), text
    run_config.keep(tiny(), f"{tmp_path}/run")  # as a right call does: nothing that was left there keeps it from it
    if key.strip() not in run_config.MAY_CHANGE:
        assert [path.name for path in (tmp_path / "run").glob("[!.]*.*")] == ["config.json"]


def test_a_failed_call_leaves_no_tokenizer_behind(tiny, tmp_path, runs):
    wrong = tiny({"data.tokenizer.vocabulary": 64, "select": "bleu"})
    complaint(train.run, wrong, f"{tmp_path}/run")
    build.build(tiny(), f"{tmp_path}/run")
    assert (tmp_path / "run/tokenizer.model").read_bytes() == (runs / "base/tokenizer.model").read_bytes()


def spoilt_data(folder, content, *, name="train.jsonl"):
    folder.mkdir()
    (folder / name).write_bytes(content)
    return {"data.train": f"folder:{folder}", "data.max_malformed": 0.1}


@pytest.mark.parametrize(
    "name, content, parts",
    [
        (
            "train.jsonl.gz",
            gzip.compress(b'{"source": "a b", "target": "c"}\n' * 5000, mtime=0)[:60],
            ["gz is damaged"],
        ),
        ("train.jsonl", b"", ["train.jsonl is empty", "'train'"]),
        ("train.jsonl", b'{"source": "a", "target": "b"}\n{"source": "a"}\n', ["train.jsonl:2:", "1 of 2", "'target'"]),
        ("dev.jsonl", b'{"source": "a", "target": "b"}\n', ["no split 'train'", "dev"]),
    ],
)
def test_spoilt_data(tiny, tmp_path, name, content, parts):
    text = complaint(train.run, tiny(spoilt_data(tmp_path / "data", content, name=name)), f"{tmp_path}/run")
    assert all(part in text for part in parts), text


def test_a_workdir_that_is_a_file_or_anothers(tiny, tmp_path, base):
    (tmp_path / "file").write_text("")
    assert f"--workdir={tmp_path}/file" in complaint(train.run, tiny(), f"{tmp_path}/file")
    text = complaint(train.run, tiny({**SHORT, "save_every": 1, "model.width": 64}), base)
    assert "model.width=32, not 64" in text and "another --workdir" in text
    train.run(tiny({"steps": 3, "save_every": 1}), base)


def test_a_base_of_another_model(tiny, tmp_path, runs):
    text = complaint(train.run, tiny({"init_from": f"{runs}/wide"}), f"{tmp_path}/run")
    assert f"{runs}/wide holds another model: model.width=36 there and 32 here; take the values of that run, " in text
    assert "or name in init_skip the weights to start anew; " in text and "instead of" in text
    wrong = tiny({**SHORT, "init_from": f"{runs}/base", "data.tokenizer.path": f"{runs}/wide/tokenizer.model"})
    assert "not the tokenizer of" in complaint(train.run, wrong, f"{tmp_path}/run")
    right = tiny({**SHORT, "init_from": f"{runs}/base"})
    build.build(right, f"{tmp_path}/run", base=experiment.load(f"{runs}/base").weights)


def test_the_tokenizer_of_another_run(tiny, base, runs):
    files.copy(runs / "wide/tokenizer.model", f"{base}/tokenizer.model")
    for text in (complaint(train.run, tiny({"steps": 3}), base), complaint(experiment.load, base)):
        assert "another tokenizer (fingerprint" in text and "put back the tokenizer" in text
    files.copy(runs / "base/tokenizer.model", f"{base}/tokenizer.model")
    train.run(tiny({"steps": 3}), base)


def test_checkpoints_cut_short(tiny, base, caplog):
    def cut(step):
        largest = max((base / f"checkpoints/{step}/state").rglob("*"), key=lambda p: p.is_file() and p.stat().st_size)
        os.truncate(largest, 10)

    config = tiny({"steps": 2, "save_every": 1})
    cut(2)
    assert checkpoint.Checkpoints(base / "checkpoints").last_step() == 2
    train.run(config, base)
    assert "checkpoints/2/state" in caplog.text and "using step 1" in caplog.text
    assert experiment.load(base).step == 2, "written again"
    cut(1), cut(2)
    text = complaint(train.run, config, base)
    assert "no checkpoint can be restored" in text and "10 bytes instead of" in text
    shutil.rmtree(base / "checkpoints")
    train.run(config, base)


def test_wrong_evaluations(runs, tmp_path):
    text = complaint(experiment.load, tmp_path)
    assert f"{tmp_path} is not the workdir of a run: " in text and "config.json" in text
    assert "'bset'" in complaint(experiment.load, f"{runs}/base", checkpoint="bset")
    assert "task.beams=0" in complaint(experiment.load, f"{runs}/base", decoding={"beams": 0})
    text = complaint(experiment.load, f"{runs}/base", checkpoint="99")
    assert "no checkpoint of step 99" in text and "1, 2" in text
    opened = experiment.load(f"{runs}/base")
    text = complaint(opened.report, split="nonsense")
    assert "'nonsense'" in text and "test, train, validation" in text
    assert "nowhere.txt cannot be read" in complaint(opened.predict_file, "nowhere.txt")
    (tmp_path / "latin.txt").write_bytes(b"add 1: 2\n\xe4\n")
    assert "latin.txt:2: not UTF-8" in complaint(opened.predict_file, tmp_path / "latin.txt")
