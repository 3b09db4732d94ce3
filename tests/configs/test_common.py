"""The arguments of configs: wrong words, repeated keys and arguments without effect are refused, not ignored."""

import json

import pytest

from configs import common
from lwt import errors
from lwt.runs import config_file

DEFAULTS = dict(data="multi30k", rank=16, rate=0.0, dropout=-1.0, leak_free=False)


def test_values_take_the_type_of_the_default():
    found = common.parse("data=pool,rank=8,rate=1e-3,dropout=-1,leak_free=TRUE", DEFAULTS)
    assert found == dict(data="pool", rank=8, rate=1e-3, dropout=-1.0, leak_free=True)
    assert common.parse("", DEFAULTS) == common.parse(None, DEFAULTS) == DEFAULTS
    assert [common.parse(f"leak_free={word}", DEFAULTS)["leak_free"] for word in ("yes", "1", "no", "0")] == [
        1,
        1,
        0,
        0,
    ]


@pytest.mark.parametrize(
    "arg, words",
    [
        ("leak_free=on", "'leak_free=on': leak_free should be true or false"),
        ("leak_free=", "true or false"),
        ("rank=four", "rank should be of type int"),
        ("rank=1.5", "rank should be of type int"),
        ("rank=-1", "'rank=-1': rank should be a finite number, positive or 0"),
        ("rate=nan", "'rate=nan': rate should be a finite number"),
        ("rate=inf", "finite"),
        ("dropout=-2", "finite number, positive or 0"),
        ("rank=4,data=pool,rank=8", "'rank=8': rank is given twice"),
        ("rank", "'rank' should be KEY=VALUE of a KEY .*; choose from .*, rank"),
        ("rnk=3", "'rnk=3' should be KEY=VALUE of a KEY that this config has; did you mean 'rank'"),
    ],
)
def test_wrong_values_are_refused(arg, words):
    with pytest.raises(ValueError, match=words):
        common.parse(arg, DEFAULTS)


def test_an_argument_without_effect_is_refused():
    args = common.parse("rank=8,rate=0.0", DEFAULTS)
    with pytest.raises(ValueError, match="config argument rank=8: it has no effect"):
        common.finished(common.base(), args)
    assert args["rank"] == 8 and common.finished(common.base(), args).is_locked
    with pytest.raises(errors.ConfigError, match="has no effect"):
        config_file.load("configs/quickstart.py:stage=base,base=runs/mt")


@pytest.mark.parametrize(
    "spec, words",
    [
        ("lh_vit:fold=3", "fold=3: it has no effect"),
        ("lh_vit:data=radar_parrad,difficulty=easy", "difficulty=easy: it has no effect"),
        ("vlora_cifar10:rows=0", "rows=0: a batch needs at least one image"),
        ("lora_ranks:method=dora,rank=0", "rank=0: it must be at least 1"),
        ("embbert_finetune:model=bert_tiny,pool=rms", "pool=rms: model=bert_tiny has a pooler"),
        ("embbert_finetune:data=folder:x,splits=code", "splits=code is of a task"),
        (
            "lightweight:base=pretrained/multi30k,teacher=pretrained/multi30k,method=prune",
            "method=prune learns from none",
        ),
        ("lightweight:teacher=pretrained/multi30k,method=distill,student=embbert", "name a teacher that is one"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(spec, words):
    with pytest.raises(errors.ConfigError, match=words):
        config_file.load(spec)


@pytest.mark.parametrize("spec", ["vit:epochs=0", "vit:", "translation:base=pretrained/multi30k,epochs=0"])
def test_no_epochs_are_those_of_the_set_up(spec):
    assert config_file.load(spec).epochs == (30.0 if spec.startswith("vit") else 3.0)


def test_a_run_with_several_test_sets_is_continued(tmp_path):
    config = config_file.load("lightweight:base=pretrained/embbert-tinynlp")
    with config.unlocked(), config.ignore_type():
        config.data.test = ("a", "b")
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    assert [*common.of_run(tmp_path).data.test] == ["a", "b"]


def test_the_tokenizer_of_a_run(tmp_path):
    assert common.tokenizer_of(tmp_path) == f"{tmp_path}/tokenizer.model"
    (tmp_path / "tokenizer.json").write_text("{}")
    assert common.tokenizer_of(tmp_path) == f"{tmp_path}/tokenizer.json"


def test_help_names_the_arguments_and_their_defaults():
    found = config_file.arguments("configs/vit.py")
    assert found["size"] == "cifar" and found["epochs"] == 30.0 and found["hybrid"] is False
    with pytest.raises(errors.ConfigError, match="vit.py:help: arguments: size=cifar, data=folder:cifar10, "):
        config_file.load("configs/vit.py:help")
