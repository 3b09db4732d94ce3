"""Smoke runs of the configs of translators: trained from scratch, adapted, and made lighter."""

import functools
import json
import re

import jax
import numpy as np
import pytest

from configs import lightweight, lora_ranks
from lwt import errors, trees
from lwt.data import text
from lwt.reparam import compose
from lwt.runs import assembly, checkpoint, config_file, experiment
from lwt.training import build, loop
from tests.configs import smoke

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """Workdir of a translator that adapters start from, with a layer on each side."""
    workdir = tmp_path_factory.mktemp("base") / "pool"
    smoke.cycle(shallow(smoke.small("translation.py:data=pool")), workdir)
    return workdir


def shallow(config):
    """The config with one layer on each side: four are of the same names and compile four times as long."""
    with config.unlocked():
        config.model.update(encoder_layers=1, decoder_layers=1)
    return config


@pytest.fixture(scope="module")
def weights(translator):
    return experiment.load(str(translator)).weights


def test_pool(translator):
    figures, sources, hypotheses, references = experiment.load(str(translator), checkpoint="last").evaluate()
    assert len(sources) == len(hypotheses) == len(references) == 4
    assert figures["loss"] > 0 and 0 <= figures["bleu"] <= 100


@pytest.mark.parametrize("data", ["multi30k", "wmt17"])
def test_translation(data, tmp_path):
    """Built as it is, and trained with fewer layers."""
    config = smoke.small(f"translation.py:data={data}")
    run = build.build(config, str(tmp_path / "whole"))
    assert sum(leaf.endswith("self_attention/query/kernel") for leaf in run.leaves) == 8
    smoke.cycle(shallow(config), tmp_path / "run")


def test_summarization(tmp_path):
    config = shallow(smoke.small(f"summarization.py:data={smoke.PAIRS},source=de,target=en"))
    assert config.select == "rougeL" and config.data.fields == ("de", "en")
    smoke.cycle(config, tmp_path / "run")
    figures, *_ = experiment.load(str(tmp_path / "run"), checkpoint="last").evaluate()
    assert 0 <= figures["rougeL"] <= figures["rouge1"] <= 100 and "bleu" not in figures and figures["summaries"] == 4
    whole = config_file.load(f"{smoke.ROOT}/configs/summarization.py:length=90,titles=20,steps=7")
    assert (whole.data.row_length, whole.data.max_tokens, whole.data.target_row_length, whole.steps) == (91, 90, 21, 7)


def test_own_pairs(tmp_path):
    """Arguments name their fields."""
    spec = f"translation.py:data={smoke.PAIRS}"
    config = config_file.load(f"{smoke.ROOT}/configs/{spec},source=de,target=en,smoke=true")
    data = assembly.make_data(config, str(tmp_path / "run"))
    assert len(data.evaluation(config.data.test).references) == 4 and next(iter(data.training()))
    with pytest.raises(errors.DataError, match="de_en@train has no field 'source'; choose from de, en"):
        assembly.make_data(config_file.load(f"{smoke.ROOT}/configs/{spec},smoke=true"), str(tmp_path / "other"))
    with pytest.raises(errors.ConfigError, match="data='pairs': choose from .* KIND:NAME such as folder:pairs"):
        config_file.load(f"{smoke.ROOT}/configs/translation.py:data=pairs")


def test_the_paper_s_texts_keep_core_punctuation():
    cleaner = text.Cleaner(**config_file.load(f"{smoke.ROOT}/configs/translation.py:data=wmt17").data.clean)
    assert cleaner.clean('Sie („Müller“) sagt: <b>"Ja"</b>, 50 % – it\'s so-so! www.x.de') == (
        'sie ( müller ) sagt: "ja" , 50 it\'s so-so!'
    )


def test_learned_positions_reach_the_longest_text(tmp_path):
    """The table has to hold the rows of evaluations, which may be longer than those of training."""
    config = smoke.small("translation.py:positions=learned")
    assert "base/position_target" in build.build(shallow(config), str(tmp_path)).leaves
    config.data.max_tokens = 127
    with pytest.raises(
        errors.ConfigError, match="model.max_length=64 must be at least 128, the longest row of an eval"
    ):
        build.build(config, str(tmp_path))


def test_kv_projection(tmp_path):
    """Heads of width 8 in both forms, and a classifier."""
    config = smoke.small("kv_projection.py:rank=8")
    run = build.build(config, str(tmp_path / "projected"))
    assert "base/decoder/layer_1/cross_attention/value/rank/kernel" in run.leaves
    smoke.cycle(shallow(smoke.small("kv_projection.py:rank=8,form=folded")), tmp_path / "folded")
    weights = experiment.arrays_of(str(tmp_path / "folded"), "last")
    assert weights["encoder/layer_0/self_attention/key/kernel"].shape == (128, 4 * 8)
    rows = (json.dumps({"text": f"house {i}", "label": "even odd".split()[i % 2]}) for i in range(60))
    (tmp_path / "train.jsonl").write_text("\n".join(rows))
    config = smoke.encoder(f"kv_projection.py:task=classification,rank=10,rate=5e-4,data=folder:{tmp_path}")
    assert (config.model.attention.rank, config.optimizer.learning_rate) == (10, 5e-4)
    assert loop.train(build.build(config, str(tmp_path / "classifier")))["loss"] > 0
    with pytest.raises(errors.ConfigError, match="form='unfolded': choose from projected, folded, softmax"):
        smoke.encoder("kv_projection.py:form=unfolded")


def test_lora_ranks(translator, tmp_path):
    smoke.cycle(shallow(smoke.small(f"lora_ranks.py:base={translator},rank=4")), tmp_path)
    figures, *_ = experiment.load(str(tmp_path), checkpoint="last").evaluate()
    tasks = ("add_1", "add_2", "sort_ascending", "sort_descending")
    assert figures["exact_match"] == pytest.approx(sum(figures[f"exact_match/{task}"] for task in tasks) / 4)
    together = config_file.load(f"{smoke.ROOT}/configs/lora_ranks.py:base={translator},together=true")
    assert {*together.tasks} == {*tasks} and together.data.train == ""
    assert together.tasks.add_1.test == "generated:arithmetic,tasks=add_1@test"


def leaves_that_move(config, workdir, base):
    """Takes three steps from the weights `base`; returns ``{leaf: whether it moved}``.

    Three, because a LoRA's `a` has no gradient before its `b` has moved. The leaves after training are those of the
    last checkpoint, and the frozen ones that the run holds.
    """
    config.steps = config.log_every = config.eval_every = config.save_every = 3
    run = build.build(config, str(workdir), base=base)
    before = {name: np.asarray(leaf) for name, leaf in {**run.init().trainable, **run.frozen}.items()}
    assert loop.train(run)["loss"] > 0 and smoke.steps_of(workdir) == ([3], [3], [3])
    saved = trees.subtree(checkpoint.Checkpoints(f"{workdir}/checkpoints").restore()[0], "trainable")
    assert set(saved) == set(run.leaves) and not set(saved) & set(run.frozen)
    after = {**saved, **run.frozen}
    assert set(after) == set(before)
    return {name: not np.array_equal(leaf, after[name]) for name, leaf in before.items()}


QKV = "adapter/.*attention/(query|key|value)/kernel"
ADAPTED = {  # method: what moves, what does not
    "lora_plus": (f"{QKV}/[ab]", "base/.*"),
    "pissa": (f"{QKV}/[ab]", f"base/.*|{QKV}/[ab]0"),
    "singlora": (f"{QKV}/a", "base/.*"),
    "dora": (f"{QKV}/(a|b|magnitude)", "base/.*"),
    "full": ("base/.*", ""),
    "bitfit": ("base/.*/bias", "base/.*/(kernel|scale|embedding)"),
}


@pytest.mark.parametrize("method", ADAPTED)
def test_other_methods_train_their_leaves_alone(method, translator, weights, tmp_path):
    """They share lora's saving and resuming: this builds, steps and evaluates them."""
    config = shallow(smoke.small(f"lora_ranks.py:base={translator},method={method},rank=4"))
    config.eval_decode, config.select, config.select_mode = False, "loss", "min"
    moved = leaves_that_move(config, tmp_path, weights)
    patterns = ADAPTED[method]
    assert moved == {name: re.fullmatch(patterns[0], name) is not None for name in moved}
    assert all(re.fullmatch(patterns[1], name) for name in moved if not moved[name])
    assert {name.split("/")[-1] for name in moved if name.startswith("base/")} == {
        "bias",
        "kernel",
        "scale",
        "embedding",
    }
    attentions, adapted = 3, [name for name in moved if name.startswith("adapter/") and moved[name]]
    assert len(adapted) == 3 * attentions * {"singlora": 1, "dora": 3, "full": 0, "bitfit": 0}.get(method, 2)


TRAINED = {  # weights that a method of rank 4 trains on the study's translator, of width 128
    **{"lora": 36_864, "lora_fa": 18_432, "hira": 36_864, "miss": 18_432, "shira": 36_864, "oft": 34_560},
    **{"lokr": 6_912, "vera": 6_912, "c3a": 4_608, "ia3": 7_168, "unilora": 128, "layer_norm": 5_120},
}


@pytest.mark.parametrize("method", TRAINED)
def test_numbers_of_trained_weights(method):
    config = config_file.load(f"{smoke.ROOT}/configs/lora_ranks.py:method={method},rank=4")
    model = assembly.make_model(config, 4096)
    make = functools.partial(assembly.initial_params, config, model, reparam=compose.build(config.reparam))
    assert trees.count(jax.eval_shape(make)[0]) == TRAINED[method]


@pytest.fixture(scope="module")
def student(translator, tmp_path_factory):
    """Workdir of a student of other sizes."""
    workdir = tmp_path_factory.mktemp("student")
    spec = f"lightweight.py:teacher={translator},method=distill,layers=1,width=32,heads=2,hidden=32,match_hidden=1"
    smoke.cycle(smoke.small(spec), workdir)
    return workdir


def test_lightweight(student, translator):
    found = experiment.load(str(student), checkpoint="last")
    assert found.model.width == 32 and found.model.decoder_layers == 1 and found.evaluate()[0]["bleu"] >= 0
    assert found.tokenizer.fingerprint == experiment.load(str(translator)).tokenizer.fingerprint


KERNEL = "(encoder|decoder)/.*/kernel"
LIGHTER = {  # method: what moves, what does not
    "finetune": ("base/.*", ""),
    "lora_plus": (f"{QKV}/[ab]", "base/.*"),
    "prune": ("base/.*", f"adapter/{KERNEL}/mask"),
    "qat": ("base/.*", ""),
    "qlora": (f"adapter/1_lora/{KERNEL}/[ab]", "base/.*"),
    "svd": (f"adapter/{KERNEL}/[ab]|base/.*/(bias|scale|embedding)", ""),
}


def test_every_method_is_tested():
    assert {*LIGHTER, "distill"} == {*lightweight.METHODS}


@pytest.mark.parametrize("method", LIGHTER)
def test_other_ways_from_a_base_train_their_leaves_alone(method, student, tmp_path):
    config = smoke.small(f"lightweight.py:base={student},method={method}")
    config.eval_decode = False
    moved = leaves_that_move(config, tmp_path, experiment.arrays_of(student, "best"))
    patterns = LIGHTER[method]
    assert moved == {name: re.fullmatch(patterns[0], name) is not None for name in moved}
    assert all(re.fullmatch(patterns[1], name) for name in moved if not moved[name])
    kernels = {name.partition("/")[2] for name in moved if name.startswith("base/") and name.endswith("/kernel")}
    assert len(kernels) == (0 if method == "svd" else 16), "factors take the place of the 16 kernels"


def test_training_in_integers_takes_their_format(tmp_path):
    (tmp_path / "config.json").write_text(config_file.load("configs/translation.py:data=multi30k").to_json())
    spec = f"configs/lightweight.py:base={tmp_path}"
    found = compose.build(config_file.load(f"{spec},method=qat,format=int4,block=32").reparam)
    assert (found.format, found.block, found.aware) == ("int4", 32, True)
    taught = config_file.load(f"{spec},method=qat,teacher={tmp_path}").task
    assert (taught.name, taught.teacher, taught.task.name) == ("distill", str(tmp_path), "translate")
    with pytest.raises(errors.ConfigError, match="block is an argument of method=qat"):
        config_file.load(f"{spec},method=svd,block=32")


def test_quickstart(tmp_path):
    smoke.cycle(smoke.small("quickstart.py:stage=base"), tmp_path / "base")
    smoke.cycle(smoke.small(f"quickstart.py:stage=adapt,base={tmp_path}/base"), tmp_path / "adapted")


def test_arguments_of_pruning_that_have_no_effect_are_refused(translator):
    spec = f"{smoke.ROOT}/configs/lightweight.py:base={translator},method=prune"
    assert config_file.load(f"{spec},pattern=2:4").reparam.pattern == (2, 4)
    for more, words in (
        ("pattern=2-4", "pattern='2-4' should be N:M, such as 2:4"),
        ("pattern=2:4,sparsity=0.8", "sparsity"),
        ("ramp=500", "ramp"),
    ):
        with pytest.raises(errors.ConfigError, match=words):
            config_file.load(f"{spec},{more}")


def test_a_translator_whose_norms_alone_are_trained(translator):
    config = config_file.load(f"{smoke.ROOT}/configs/translation.py:base={translator},data=folder:a,method=layer_norm")
    assert config.reparam.name == "none" and config.optimizer.trainable == lora_ranks.TRAINABLE["layer_norm"]
