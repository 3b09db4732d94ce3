"""The smoke run of every config: build, two steps, evaluate, save, resume. Model, task and optimizer are the config's
own; the data are a few pairs, the batch and the vocabulary tiny (`common.smoke`)."""

import io
import json
import pathlib

import jax
import numpy as np
import pytest

from configs import embbert_pretrain, lightweight
from lwt import errors
from lwt.analysis import config_files, cost
from lwt.export import quantize
from lwt.layers import linear, quantized
from lwt.training import build, checkpoint, experiment, loop

ROOT = pathlib.Path(__file__).parent.parent
PAIRS = f"folder:{ROOT}/tests/fixtures/de_en"
TRANSLATION = dict(train=PAIRS, validation=f"{PAIRS}@validation", test=f"{PAIRS}@test")


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    """Resuming compiles the same programs again, and evaluation is one for all adapters: a cache keeps them."""
    options = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled")),
        "jax_persistent_cache_min_compile_time_secs": 0.1,
    }
    before = {name: getattr(jax.config, name) for name in options}
    for name, value in options.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    jax.clear_caches()


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """Workdir of a translator, for the adapters to start from."""
    workdir = tmp_path_factory.mktemp("base") / "pool"
    cycle(small("translation.py:data=pool"), workdir)
    return workdir


@pytest.fixture(scope="module")
def weights(translator):
    return experiment.load(str(translator)).weights


def small(spec):
    """A config in its smoke mode, on data that lie here; ten or so examples to evaluate on."""
    config = config_files.load(f"{ROOT}/configs/{spec},smoke=true")
    if config.data.train.startswith("generated:"):
        made = config.data.train.replace(",size=60000", "")
        config.data.update(validation=f"{made},size=8@validation", test=f"{made},size=12@test")
    else:
        config.data.update(TRANSLATION)
    return config


def steps_of(workdir):
    """Steps with training figures and with validation figures in metrics.jsonl, and those of the checkpoints."""
    rows = [json.loads(line) for line in (pathlib.Path(workdir) / "metrics.jsonl").read_text().splitlines()]
    train, validation = ([r["step"] for r in rows if f"{kind}/loss" in r] for kind in ("train", "validation"))
    return train, validation, checkpoint.Checkpoints(f"{workdir}/checkpoints").steps()


def cycle(config, workdir):
    """Two steps, and a third one after starting again."""
    figures = experiment.train(config, str(workdir))
    assert figures["loss"] > 0 and steps_of(workdir) == ([1, 2], [1, 2], [1, 2])
    config.steps, config.keep_last = 3, 3
    experiment.train(config, str(workdir))
    assert steps_of(workdir) == ([1, 2, 3], [1, 2, 3], [1, 2, 3])


def test_pool(translator):
    figures, sources, hypotheses, references = experiment.load(str(translator), checkpoint="last").evaluate()
    assert len(sources) == len(hypotheses) == len(references) == 4
    assert figures["loss"] > 0 and 0 <= figures["bleu"] <= 100


@pytest.mark.parametrize("data", ["multi30k", "wmt17"])
def test_translation(data, tmp_path):
    cycle(small(f"translation.py:data={data}"), tmp_path)


def test_lora_ranks(translator, tmp_path):
    cycle(small(f"lora_ranks.py:base={translator},rank=4"), tmp_path)
    figures, *_ = experiment.load(str(tmp_path), checkpoint="last").evaluate()
    tasks = ("add_1", "add_2", "sort_ascending", "sort_descending")
    assert figures["exact_match"] == pytest.approx(sum(figures[f"exact_match/{task}"] for task in tasks) / 4)


@pytest.mark.parametrize("method", ["lora_plus", "pissa", "singlora", "dora", "full", "bitfit"])
def test_other_methods(method, translator, weights, tmp_path):
    """The other methods share lora's way through saving and resuming: here they are built, stepped and evaluated."""
    config = small(f"lora_ranks.py:base={translator},method={method},rank=4")
    config.eval_decode, config.select, config.select_mode = False, "loss", "min"
    figures = loop.train(build.build(config, str(tmp_path), base=weights))
    assert figures["loss"] > 0 and steps_of(tmp_path) == ([1, 2], [1, 2], [1, 2])


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


def encoder(spec, *, rows=8):
    config = config_files.load(f"{ROOT}/configs/{spec},vocabulary=200,smoke=true")
    config.data.tokenizer.vocabulary, config.data.rows, config.data.eval_batch = 200, rows, 8
    config.data.row_length = 16  # one length, so that little is compiled
    return config


@pytest.fixture(scope="module")
def pretrained(novels, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("pretrained")
    cycle(encoder(f"embbert_pretrain.py:model=embbert,data=folder:{novels}"), workdir)
    return workdir


def test_embbert_pretrain(pretrained):
    figures, *_ = experiment.load(str(pretrained), checkpoint="last").evaluate()
    assert figures["mlm_loss"] > 0 and 0 <= figures["nsp_accuracy"] <= 1
    with pytest.raises(errors.ConfigError, match="gives no answers"):
        experiment.load(str(pretrained)).predict(["a text"])


@pytest.mark.parametrize("model", sorted({*embbert_pretrain.MODELS} - {"embbert", "embedder"}))
def test_other_encoders(model, novels, tmp_path):
    config = encoder(f"embbert_pretrain.py:model={model},data=folder:{novels}")
    assert loop.train(build.build(config, str(tmp_path)))["loss"] > 0 and steps_of(tmp_path)[2] == [1, 2]


@pytest.fixture(scope="module")
def finetuned(pretrained, labelled, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("finetuned")
    cycle(encoder(f"embbert_finetune.py:base={pretrained},data=folder:{labelled}"), workdir)
    return workdir


def test_embbert_finetune(pretrained, finetuned, labelled):
    config = encoder(f"embbert_finetune.py:base={pretrained},data=folder:{labelled}")
    found = experiment.load(str(finetuned), checkpoint="last")
    figures = found.report()
    assert figures["records"] == 12 and -1 <= figures["mcc"] <= 1
    written = (finetuned / "eval").glob("*.tsv")
    assert len(next(written).read_text().splitlines()) == 13
    assert {*found.predict(["a cold text", "an old one"])} <= {"even", "odd"}
    body = {
        name: w for name, w in experiment.load(str(pretrained), checkpoint="last").weights.items() if "head" not in name
    }
    untrained = build.initial_params(config, found.model, build.compose.build(config.reparam), body)[0]
    assert all((untrained[f"base/{name}"] == w).all() for name, w in body.items())


@pytest.mark.parametrize("method", ["qlora", "qat"])
def test_tuning_after_quantization(method, finetuned, labelled, tmp_path):
    """What is tuned is evaluated from its integers, and is what the file holds: the adapter is folded in."""
    config = encoder(f"embbert_finetune.py:base={finetuned},data=folder:{labelled},method={method},rate=0.1")
    experiment.train(config, str(tmp_path / "run"))
    found = experiment.load(str(tmp_path / "run"), checkpoint="last")
    nodes = {name: w for name, w in found.weights.items() if len(w.shape) > 1}
    assert all(isinstance(w, quantized.Quantized) for w in nodes.values())
    quantize.export(found, tmp_path / "file", rest="float32")
    again = quantize.load(found, tmp_path / "file")
    assert all((again.weights[name].values == w.values).all() for name, w in nodes.items())
    assert again.evaluate()[0] == found.evaluate()[0]
    before = experiment.load(str(finetuned)).weights
    moved = {name for name, w in found.weights.items() if abs(linear.dense(w) - before[name]).max() > 0.1}
    assert ("block_0/conv/kernel" in moved, "block_0/norm/scale" in moved) == 2 * (method == "qat",)
    assert {"block_3/attention/query/kernel", "embed/position_expander/kernel", "head/classifier/kernel"} <= moved
    with pytest.raises(errors.ConfigError, match=f"method={method} goes on from a fine-tuned run"):
        encoder(f"embbert_finetune.py:method={method}")


@pytest.fixture(scope="module")
def student(translator, tmp_path_factory):
    """Workdir of a student of other sizes."""
    workdir = tmp_path_factory.mktemp("student")
    spec = f"lightweight.py:teacher={translator},method=distill,layers=1,width=32,heads=2,hidden=32,match_hidden=1"
    cycle(small(spec), workdir)
    return workdir


def test_lightweight(student, translator):
    found = experiment.load(str(student), checkpoint="last")
    assert found.model.width == 32 and found.model.decoder_layers == 1 and found.evaluate()[0]["bleu"] >= 0
    assert found.tokenizer.fingerprint == experiment.load(str(translator)).tokenizer.fingerprint


@pytest.mark.parametrize("method", sorted({*lightweight.METHODS} - {"distill"}))
def test_other_ways_on(method, student, tmp_path):
    config = small(f"lightweight.py:base={student},method={method}")
    config.eval_decode = False
    assert experiment.train(config, str(tmp_path))["loss"] > 0
    assert steps_of(tmp_path) == ([1, 2], [1, 2], [1, 2])


def test_a_teacher_asked_once(finetuned, tmp_path):
    """A classifier learns the same from the teacher's outputs in a table as from the teacher in every step."""
    rows = {}
    for cache in (True, False):
        workdir = tmp_path / str(cache)
        config = config_files.load(
            f"{ROOT}/configs/lightweight.py:teacher={finetuned},method=distill,student=embedder,smoke=true"
        )
        with config.unlocked():
            config.task.cache, config.data.row_length = cache, 16
        experiment.train(config, str(workdir))
        lines = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
        rows[cache] = [row["train/soft_loss"] for row in lines if "train/soft_loss" in row]
        assert len([*workdir.glob("teacher_*.npy")]) == cache
    assert len(rows[True]) == 2 and rows[True] == pytest.approx(rows[False], rel=1e-4) and rows[True][0] > 0


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


@pytest.mark.parametrize("hybrid", [False, True])
def test_vit(hybrid, pictures, tmp_path, monkeypatch):
    """From scratch, and from that run with a new head."""
    monkeypatch.setenv("LWT_CACHE", str(tmp_path))
    spec = f"vit.py:data=folder:{pictures},hybrid={hybrid},smoke=true"
    cycle(config_files.load(f"{ROOT}/configs/{spec}"), tmp_path / "base")
    base = experiment.load(str(tmp_path / "base"), checkpoint="last")
    figures, *_ = base.evaluate()
    assert figures["loss"] > 0 and 0 <= figures["accuracy"] <= 1
    config = config_files.load(f"{ROOT}/configs/{spec},base={tmp_path}/base")
    run = build.build(config, str(tmp_path / "tuned"), base=base.weights)
    start = run.init().trainable
    assert all((start[f"base/{name}"] == w).all() for name, w in base.weights.items() if "head" not in name)
    assert loop.train(run)["loss"] > 0
    for method in ("qlora", "qat"):
        config = config_files.load(f"{ROOT}/configs/lightweight.py:base={tmp_path}/base,method={method},smoke=true")
        assert experiment.train(config, str(tmp_path / method))["loss"] > 0
        kernel = experiment.load(str(tmp_path / method), checkpoint="last").weights["embed/patch/kernel"]
        assert isinstance(kernel, quantized.Quantized)


@pytest.fixture
def vlora(pictures, tmp_path, monkeypatch):
    """``vlora(arguments)``: the config, small, on these images."""
    monkeypatch.setenv("LWT_CACHE", str(tmp_path))

    def make(arguments):
        config = config_files.load(
            f"{ROOT}/configs/vlora_cifar10.py:size=small,data=folder:{pictures},smoke=true,{arguments}"
        )
        config.data.image_size = 32
        config.model.update(patch=8, width=16, hidden=32, layers=4)
        return config

    return make


def test_vlora_cifar10(vlora, tmp_path):
    cycle(vlora("rank=2,augment=mix"), tmp_path / "run")
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
    assert steps_of(tmp_path)[2] == [1, 2]


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_images_for_a_task_of_texts(task, vlora, tmp_path):
    config = vlora("rank=0")
    config.task = dict(name=task)
    with pytest.raises(errors.ConfigError, match="the 2 classes 0, 1, ... of images; .* 'classify_images'"):
        build.build(config, str(tmp_path))


def test_lh_vit(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path))
    cycle(config_files.load(f"{ROOT}/configs/lh_vit.py:smoke=true"), tmp_path / "run")
    found = experiment.load(str(tmp_path / "run"), checkpoint="last")
    figures = found.report()
    assert figures["records"] == 16 and 0 <= figures["accuracy"] <= 1
    assert len(found.labels) == 8 and found.labels[0] == "walk"


@pytest.mark.parametrize("model", ["vit", "cnn"])
def test_other_models_of_maps(model, tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path))
    config = config_files.load(f"{ROOT}/configs/lh_vit.py:model={model},difficulty=easy,smoke=true")
    assert loop.train(build.build(config, str(tmp_path / "run")))["loss"] > 0


@pytest.mark.parametrize("data, classes", [("radar_har", 8), ("radar_parrad", 6)])
def test_lh_vit_and_its_vit_are_of_one_size(data, classes):
    light, plain = (
        cost.parameters(config_files.load(f"{ROOT}/configs/lh_vit.py:model={model},data={data}"), outputs=classes)
        for model in ("lh_vit", "vit")
    )
    assert plain["total"] == pytest.approx(light["total"], rel=0.005)
    fold = config_files.load(f"{ROOT}/configs/lh_vit.py:data={data},fold=3").data
    assert "test" in fold.test if data == "radar_har" else (fold.train[-5:], fold.test[-5:]) == ("rest3", "fold3")


def test_epochs_are_steps(labelled, tmp_path):
    config = encoder(f"embbert_finetune.py:model=embedder,data=folder:{labelled}")
    config.steps, config.epochs, config.eval_every, config.save_every = 1, 2.0, 0, 0
    experiment.train(config, str(tmp_path))
    records = 120 - 12 - 11  # a tenth to the test, a tenth of the rest to validation
    epoch = round(records / 8)
    assert steps_of(tmp_path)[1:] == ([epoch, 2 * epoch], [epoch, 2 * epoch])


def test_classes_for_a_task_of_numbers(labelled, tmp_path):
    config = encoder(f"embbert_finetune.py:data=folder:{labelled},task=stsb")
    config.task = dict(name="regress")
    with pytest.raises(errors.ConfigError, match="the labels are the 2 classes even, odd.*should be 'classify'"):
        build.build(config, str(tmp_path))


def test_quickstart(tmp_path):
    cycle(small("quickstart.py:stage=base"), tmp_path / "base")
    cycle(small(f"quickstart.py:stage=adapt,base={tmp_path}/base"), tmp_path / "adapted")


def test_every_config_has_a_smoke_run():
    files = {path.stem for path in (ROOT / "configs").glob("*.py")} - {"__init__", "common"}
    assert {name.removeprefix("test_") for name in globals()} >= files
    assert set(config_files.module(ROOT / "configs/translation.py").SETS) == {"pool", "multi30k", "wmt17"}
