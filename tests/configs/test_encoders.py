"""Smoke runs of the configs of text encoders: pre-trained, fine-tuned, quantized, distilled."""

import json
import re

import jax.numpy as jnp
import numpy as np
import pytest

from configs import embbert_finetune, embbert_pretrain
from lwt import errors, trees
from lwt.export import quantize
from lwt.layers import linear, quantized_weight
from lwt.machine import devices
from lwt.runs import assembly, config_file, experiment
from lwt.training import build, loop, train
from tests.configs import smoke

pytestmark = pytest.mark.usefixtures("compiled_once")


NOVELS = "".join(f"chapter {i} said that the {w} was {w}er than any {w} of the year {i}.\n" + "\n" * (i % 9 == 8)
                 for i, w in enumerate("cold old bold warm long dark young slow great small".split() * 12))  # fmt: skip


@pytest.fixture(scope="module")
def novels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("novels")
    for split in ("train", "validation"):
        (folder / f"{split}.txt").write_text(NOVELS)
    return folder


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """A set of texts in two classes, without splits."""
    folder = tmp_path_factory.mktemp("labelled")
    rows = [
        {"text": line, "label": "even" if i % 2 == 0 else "odd"} for i, line in enumerate(NOVELS.split("\n")) if line
    ]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def pretrained(novels, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("pretrained")
    smoke.cycle(smoke.encoder(f"embbert_pretrain.py:model=embbert,data=folder:{novels}"), workdir)
    return workdir


def test_embbert_pretrain(pretrained):
    figures, *_ = experiment.load(str(pretrained), checkpoint="last").evaluate()
    assert figures["mlm_loss"] > 0 and 0 <= figures["nsp_accuracy"] <= 1
    with pytest.raises(errors.ConfigError, match="gives no answers"):
        experiment.load(str(pretrained)).predict(["a text"])


def test_embbert_pretrain_goes_on(pretrained, novels, tmp_path):
    config = smoke.encoder(f"embbert_pretrain.py:model=embbert,data=folder:{novels},base={pretrained}")
    assert config.optimizer.learning_rate == 1e-3
    begun = experiment.load(str(pretrained)).weights
    train.run(config, str(tmp_path))
    gone_on = experiment.load(str(tmp_path), checkpoint="last")
    assert gone_on.tokenizer.fingerprint == experiment.load(str(pretrained)).tokenizer.fingerprint
    for name, weight in gone_on.weights.items():
        assert abs(weight - begun[name]).max() < 0.01  # two small steps away, not drawn anew


@pytest.mark.parametrize("model", sorted({*embbert_pretrain.MODELS} - {"embbert", "embedder"}))
def test_other_encoders(model, novels, tmp_path):
    config = smoke.encoder(f"embbert_pretrain.py:model={model},data=folder:{novels}")
    assert loop.train(build.build(config, str(tmp_path)))["loss"] > 0 and smoke.steps_of(tmp_path)[2] == [1, 2]


@pytest.fixture(scope="module")
def finetuned(pretrained, labelled, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("finetuned")
    smoke.cycle(smoke.encoder(f"embbert_finetune.py:base={pretrained},data=folder:{labelled}"), workdir)
    return workdir


def test_embbert_finetune(pretrained, finetuned, labelled):
    config = smoke.encoder(f"embbert_finetune.py:base={pretrained},data=folder:{labelled}")
    found = experiment.load(str(finetuned), checkpoint="last")
    figures = found.report()
    assert figures["records"] == 12 and -1 <= figures["mcc"] <= 1
    written = (finetuned / "eval").glob("*.tsv")
    assert len(next(written).read_text().splitlines()) == 13
    assert {*found.predict(["a cold text", "an old one"])} <= {"even", "odd"}
    body = {
        name: w for name, w in experiment.load(str(pretrained), checkpoint="last").weights.items() if "head" not in name
    }
    untrained = assembly.initial_params(config, found.model, reparam=build.compose.build(config.reparam), base=body)[0]
    assert all((untrained[f"base/{name}"] == w).all() for name, w in body.items())


@pytest.mark.parametrize("method", ["full", "lora", "bitfit"])
def test_finetune(method, pretrained, labelled, tmp_path):
    """Each method moves its own weights and the head, which is made anew."""
    method += ",rank=2" if method == "lora" else ""
    spec = f"finetune.py:base={pretrained},data=folder:{labelled},text=text,length=16,smoke=true,method={method}"
    config = config_file.load(f"{smoke.ROOT}/configs/{spec}")
    train.run(config, str(tmp_path))
    assert (config.model.pool, config.data.fields) == ("rms", ("text",))
    found, before = experiment.load(str(tmp_path), checkpoint="last"), experiment.load(str(pretrained))
    assert found.tokenizer.fingerprint == before.tokenizer.fingerprint and len(found.labels) == 2
    moved = {name for name, w in before.weights.items() if (found.weights.get(name, w) != w).any()}
    wanted = {"full": r".*", "lora": r"(?!.*conv/).*kernel", "bitfit": r".*/bias"}[method.split(",")[0]]
    assert moved and all(re.fullmatch(wanted, name) for name in moved)
    assert "adapter" in {name.split("/")[0] for name in found.stored()[0]} or "rank" not in method


def test_finetune_of_several_tasks():
    config = config_file.load(f"{smoke.ROOT}/configs/finetune.py:tasks=a=folder:x|b=folder:y,method=ia3")
    assert config.data.train == "" and config.tasks.to_dict() == {
        "a": {"train": "folder:x"},
        "b": {"train": "folder:y"},
    }


def test_finetune_refuses():
    for arguments, words in (
        ("method=lra", "choose from full, lora"),
        ("pair=b", "give text"),
        ("base=no", "base=no"),
        ("tasks=a", "'a' should be TASK=KIND:NAME"),
    ):
        with pytest.raises(errors.ConfigError, match=words):
            config_file.load(f"{smoke.ROOT}/configs/finetune.py:{arguments}")


@pytest.mark.parametrize("method", ["qlora", "qat"])
def test_tuning_after_quantization(method, finetuned, labelled, tmp_path):
    """What is tuned is evaluated from its integers, and is what the file holds: the adapter is folded in."""
    config = smoke.encoder(f"embbert_finetune.py:base={finetuned},data=folder:{labelled},method={method},rate=0.1")
    train.run(config, str(tmp_path / "run"))
    found = experiment.load(str(tmp_path / "run"), checkpoint="last")
    nodes = {name: w for name, w in found.weights.items() if len(w.shape) > 1}
    assert all(isinstance(w, quantized_weight.Quantized) for w in nodes.values())
    quantize.export(found, tmp_path / "file", rest="float32")
    again = found.with_file(tmp_path / "file")
    assert all((again.weights[name].values == w.values).all() for name, w in nodes.items())
    assert again.evaluate()[0] == found.evaluate()[0]
    before = experiment.load(str(finetuned)).weights
    moved = {name for name, w in found.weights.items() if abs(linear.dense(w) - before[name]).max() > 0.1}
    assert ("block_0/conv/kernel" in moved, "block_0/norm/scale" in moved) == 2 * (method == "qat",)
    assert {"block_3/attention/query/kernel", "embed/position_expander/kernel", "head/classifier/kernel"} <= moved
    with pytest.raises(errors.ConfigError, match=f"method={method} continues from a fine-tuned run"):
        smoke.encoder(f"embbert_finetune.py:method={method}")


def test_what_is_quantized_reads_what_its_base_reads(tmp_path):
    splits = embbert_finetune.CODE_SPLITS["snips"]
    (tmp_path / "config.json").write_text(json.dumps({"model": {"pool": "rms"}, "data": splits}))

    def config(more):
        return smoke.encoder(f"embbert_finetune.py:base={tmp_path}{more}")

    assert [config(more).model.pool for more in (",method=qat", ",method=qat,pool=first")] == ["rms", "first"]
    assert config(",pool=first").model.pool == "first"
    assert config(",method=qat").data.test == splits["test"]
    assert {config(more).data.test for more in ("", ",method=qat,task=limit")} == {""}


def test_a_pair_of_texts_is_compared_by_the_tuned_recipe():
    def pool(more):
        return smoke.encoder(f"embbert_finetune.py:{more}").model.get("pool", "first")

    assert [pool(f"{recipe}task={task}") for recipe in ("recipe=tuned,", "") for task in ("stsb", "snips")] == [
        "pair", "rms", "first", "first",
    ]  # fmt: skip
    assert pool("recipe=tuned,task=stsb,pool=first") == "first"
    assert pool("recipe=tuned,task=stsb,data=folder:mine") == "rms"


def test_the_tuned_recipe_s_initial_weights():
    """From scratch those of its pre-training; from a base on, weights are given."""

    def start(more):
        return smoke.encoder(f"embbert_finetune.py:{more}").model.get("conv_start", "")

    given = ("recipe=tuned", "recipe=tuned,base=runs/x", "recipe=paper", "recipe=tuned,model=bert_2mb")
    assert [*map(start, given)] == ["present", "", "", ""]


def test_a_teacher_asked_once(finetuned, labelled, tmp_path):
    """A classifier learns the same from the teacher's outputs in a table as from the teacher in every step; an adapter
    of a student without attention is on its linear layers."""
    rows = {}
    for cache in (True, False):
        workdir = tmp_path / str(cache)
        config = config_file.load(
            f"{smoke.ROOT}/configs/lightweight.py:teacher={finetuned},method=distill,student=embedder,smoke=true"
        )
        with config.unlocked():
            config.task.cache, config.data.row_length = cache, 16
        train.run(config, str(workdir))
        lines = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
        rows[cache] = [row["train/soft_loss"] for row in lines if "train/soft_loss" in row]
        assert len([*workdir.glob("teacher_*.npy")]) == cache
    assert len(rows[True]) == 2 and rows[True] == pytest.approx(rows[False], rel=1e-4) and rows[True][0] > 0
    spec = f"lightweight.py:base={tmp_path}/True,method=lora_plus,rank=2,data=folder:{labelled},smoke=true"
    with config_file.load(f"{smoke.ROOT}/configs/{spec}").unlocked() as config:
        train.run(config, str(tmp_path / "adapted"))
    adapter = experiment.load(str(tmp_path / "adapted"), checkpoint="last").stored()[0]
    kernels = {name.rpartition("/")[0] for name in adapter if name.startswith("adapter/")}
    assert kernels == {f"adapter/embed/{part}_expander/kernel" for part in ("token", "position")}


def test_several_teachers_with_tokenizers_of_their_own(finetuned, labelled, tmp_path):
    other = smoke.encoder(f"embbert_finetune.py:model=bert_2mb,data=folder:{labelled}")
    other.data.tokenizer.vocabulary = 120
    train.run(other, str(tmp_path / "other"))
    teachers = f"{finetuned}+{tmp_path}/other"
    config = smoke.encoder(f"embbert_finetune.py:model=embedder,data=folder:{labelled},teacher={teachers}")
    assert config.task.cache
    train.run(config, str(tmp_path / "student"))
    assert smoke.steps_of(tmp_path / "student")[0] == [1, 2]

    data, tables = assembly.make_data(config, str(tmp_path / "student"), make=False), []
    for run in train.teachers_of(config):
        params, rows = {"params": trees.unflatten(run.weights)}, []
        for record in data.splits.train.read(0, 5):
            ids = jnp.array([[2, *run.tokenizer.encode([record["text"]])[0][:14], 4]])  # [CLS] text [SEP]
            rows += [run.model.apply(params, {"ids": ids, "segments": jnp.ones_like(ids)}, train=False)[0]]
        tables.append(np.array(rows))
    objective, mesh = build.make_objective(config, assembly.make_task(config)), devices.make_mesh(config.mesh)
    given = {"teachers": train.teachers_of(config), "data": data, "workdir": str(tmp_path / "student"), "mesh": mesh}
    table = build.make_teacher(config, objective, **given).leaves["teacher/outputs"]
    np.testing.assert_allclose(table[:5], np.mean(tables, axis=0), rtol=1e-4, atol=1e-5)
    assert len(table) == len(data.splits.train) and np.abs(tables[0] - tables[1]).min() > 1e-5
    assert len([*(tmp_path / "student").glob("teacher_*.npy")]) == 2

    with config.unlocked():
        config.task.cache = False
    with pytest.raises(errors.ConfigError, match=f"{finetuned} has another tokenizer.* task.cache=True"):
        train.run(config, str(tmp_path / "uncached"))


def test_epochs_are_steps(labelled, tmp_path):
    config = smoke.encoder(f"embbert_finetune.py:model=embedder,data=folder:{labelled}")
    config.steps, config.epochs, config.eval_every, config.save_every, config.keep_last = 1, 5.0, 0, 0, 5
    train.run(config, str(tmp_path))
    records = 120 - 12 - 11  # a tenth to the test, a tenth of the rest to validation: 12.1 batches
    ends = [13, 26, 39, 52, round(5 * records / 8)]
    assert smoke.steps_of(tmp_path)[1:] == (ends, ends)


def test_a_comparison_of_single_texts(labelled, tmp_path):
    config = smoke.encoder(f"embbert_finetune.py:data=folder:{labelled},pool=pair")
    with pytest.raises(errors.ConfigError, match=r"model.pool='pair' compares two texts, and a record has 1 \(text\)"):
        build.build(config, str(tmp_path))


def test_classes_for_a_task_of_numbers(labelled, tmp_path):
    config = smoke.encoder(f"embbert_finetune.py:data=folder:{labelled},task=stsb")
    config.task = dict(name="regress")
    with pytest.raises(errors.ConfigError, match="should be 'classify' or 'ordinal': the labels are the 2"):
        build.build(config, str(tmp_path))


def test_the_splits_of_the_authors_code(tmp_path, monkeypatch):
    """Snips: 8 and 8 texts of two sets are the test, and a tenth of 40 is withheld."""
    (tmp_path / "snips").mkdir()
    for part, size in {"train": 40, "validation": 8, "test": 8}.items():
        rows = [json.dumps({"text": f"{part} {i}", "label": i % 2}) for i in range(size)]
        (tmp_path / "snips" / f"{part}.jsonl").write_text("\n".join(rows) + "\n")
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    sizes = {}
    for splits in ("own", "code"):
        config = smoke.encoder(f"embbert_finetune.py:task=snips,splits={splits}")
        found = assembly.make_data(config, str(tmp_path / splits)).splits
        sizes[splits] = len(found.train), len(found.validation), {name: len(part) for name, part in found.tests.items()}
    assert sizes == {"own": (40, 8, {"test": 8}), "code": (36, 4, {"test": 16})}
    assert not config.data.leak_free and smoke.encoder("embbert_finetune.py:leak_free=true").data.leak_free

    def of(task):
        return smoke.encoder(f"embbert_finetune.py:task={task},splits=code").data

    assert of("emotion").train == "folder:emotion@train+folder:emotion@validation"
    assert of("nlu").train == "folder:nlu" and of("nlu").test == ""
    with pytest.raises(errors.ConfigError, match="splits='paper': choose from own, code"):
        smoke.encoder("embbert_finetune.py:splits=paper")


def test_finetune_has_the_options_of_all_tasks():
    """The arguments alone; `tests/training/test_options.py` trains with them."""

    def made(arguments):
        return config_file.load(f"{smoke.ROOT}/configs/finetune.py:{arguments}")

    config = made("task=multilabel,separator=|,weights=balanced,smoothing=0.1,patience=3,ema=0.9")
    assert config.task.to_dict() == {"name": "multilabel", "class_weights": "balanced", "label_smoothing": 0.1}
    assert config.data.label_separator == "|" and config.select == "f1_macro"
    assert config.patience == 3 and config.optimizer.ema == 0.9
    assert made("task=ordinal").select == "kappa" and made("task=classify").task.to_dict() == {"name": "classify"}
    for wrong in ("task=ordered", "task=multilabel", "separator=|", "weights=even", "task=regress,weights=balanced"):
        with pytest.raises(errors.ConfigError, match="(task|separator|weights)"):
            made(wrong)
