"""Costs from shapes alone: against counts by hand, and against what a real optimizer holds."""

import json
import subprocess
import sys

import jax
import pytest

from lwt import errors, trees
from lwt.inspect import cost
from lwt.runs import assembly, config_file, hub
from lwt.training import build, optim

LORA = "configs/lora_ranks.py:rank=4"


def tiny(spec="configs/quickstart.py:stage=base", **model):
    """A config whose passes compile in a second or two."""
    config = config_file.load(spec)
    config.model.update(width=16, heads=2, hidden=32, encoder_layers=1, decoder_layers=1, **model)
    config.precision = "float32"
    return config


def test_flops_are_those_of_the_products():
    """Products by hand, two FLOPs a multiply-add; the rest (softmax, norms) is small beside a large vocabulary."""
    config = tiny()
    config.data.tokenizer.vocabulary = v = 4096
    rows, length, d, f = 3, 32, 16, 32
    found = cost.measure(config, rows=rows, row_length=length)
    kernels = (4 * d * d + 2 * d * f) + (8 * d * d + 2 * d * f)
    attention = 3 * 2 * length * d  # three attentions: scores and weighted sums, a position
    body, vocabulary = 2 * length * (kernels + attention), 2 * length * d * v
    assert found["flops_per_example"]["forward"] == pytest.approx(body + vocabulary, rel=0.25)
    assert found["flops_per_example"]["forward"] > body + vocabulary  # one chunk: no part of the loss is counted once
    both = found["flops_per_example"]["forward_backward"]
    assert 2.8 < both / found["flops_per_example"]["forward"] < 3.2


def test_flops_do_not_depend_on_the_chunks_but_memory_does():
    found = []
    for chunk in (32, 512):
        config = tiny()
        config.data.tokenizer.vocabulary = 8192
        with config.unlocked():
            config.task.chunk = chunk
        found.append(cost.measure(config, rows=8, row_length=64))
    assert found[0]["flops_per_example"] == found[1]["flops_per_example"]
    few, many = (x["activation_bytes"] for x in found)
    assert many - few > 0.9 * (512 - 32) * 8192 * 4  # the logits of the positions that exist at one time


def test_a_frozen_base_costs_neither_state_nor_its_gradient():
    config = tiny(LORA)
    config.data.tokenizer.vocabulary = 2048
    adapted = cost.measure(config, rows=2, row_length=32)
    config = tiny("configs/lora_ranks.py:method=full")
    config.data.tokenizer.vocabulary = 2048
    full = cost.measure(config, rows=2, row_length=32)
    trainable = adapted["parameters"]["trainable"]
    assert trainable == adapted["parameters"]["groups"]["adapter"] == 3 * 3 * 2 * 16 * 4
    assert adapted["optimizer_bytes"] == 2 * 4 * trainable + 2 * 4  # two moments, two counters
    assert (
        full["optimizer_bytes"] == 2 * 4 * full["parameters"]["total"] + 2 * 4 * 2
    )  # two groups: with decay and without
    assert adapted["parameter_bytes"] == full["parameter_bytes"] + 4 * trainable
    # the table's gradient is a third of the work over the vocabulary
    assert adapted["flops_per_example"]["forward_backward"] < 0.75 * full["flops_per_example"]["forward_backward"]


def test_the_bytes_are_those_of_a_real_state():
    config = tiny(LORA)
    config.data.tokenizer.vocabulary = 128
    model, reparam = assembly.make_model(config, 128), build.compose.build(config.reparam)
    trainable, frozen = assembly.initial_params(config, model, reparam=reparam)
    optimizer, _ = optim.build(config.optimizer, trainable, steps=config.steps, frozen=frozen, reparam=reparam)
    state = optimizer.init(trainable)
    assert cost.optimizer_bytes(config) == sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    assert jax.tree.map(lambda x: x.shape, cost.shapes(config)) == jax.tree.map(lambda x: x.shape, (trainable, frozen))
    assert cost.parameters(config)["total"] == trees.count({**trainable, **frozen})


def test_the_vocabulary_is_that_of_the_run_it_starts_from(tmp_path, monkeypatch):
    from lwt.data import tokenizer

    made = tokenizer.train(["ein hund , eine katze"] * 9, tmp_path / "tokenizer.model", vocabulary=300)
    config = config_file.load(f"configs/lora_ranks.py:base={tmp_path}")
    assert cost.vocabulary_of(config) == made.vocabulary < 8000
    with monkeypatch.context() as patched, config.unlocked():
        config.init_from = "hf:model"
        patched.setattr(hub, "folder", {"hf:model": str(tmp_path)}.get)
        assert cost.vocabulary_of(config) == made.vocabulary
    for spec in ("translation.py:data=pool", "lora_ranks.py:rank=4"):  # an adapter without a base: of the paper's
        assert cost.vocabulary_of(config_file.load(f"configs/{spec}")) == 50_048


def test_what_cannot_be_built_is_refused():
    config = tiny(LORA)
    config.optimizer.trainable = ("adaptor/.*",)
    with pytest.raises(errors.ConfigError, match="adaptor"):
        cost.parameters(config)
    with pytest.raises(errors.ConfigError, match="0 rows|-1 rows"):
        cost.measure(tiny(), rows=-1)
    with pytest.raises(errors.ConfigError, match="their product below 2\\^31"):
        cost.measure(tiny(), rows=1 << 20, row_length=1 << 11)


def test_the_program_prints_one_json_object():
    command = [sys.executable, "-m", "lwt.inspect.cost", "--config=configs/quickstart.py:stage=base", "--rows=1"]
    done = subprocess.run([*command, "--row_length=8"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["rows"] == 1 and found["row_length"] == 8 and found["parameters"]["total"] == 241_664
    bad = subprocess.run([*command, "--config.reparam.name=lorra"], capture_output=True, text=True)
    assert bad.returncode == 2 and bad.stderr.count("\n") == 1 and "lorra" in bad.stderr


def test_several_labels_per_text():
    spec = "configs/finetune.py:base=pretrained/embbert-tinynlp,data=folder:nothing,task=multilabel,separator=+"
    found = cost.measure(config_file.load(spec), rows=2, row_length=16)
    assert found["parameters"]["groups"]["head"] > 0 and found["flops_per_example"]["forward"] > 0


@pytest.mark.parametrize(
    ("spec", "head"),
    [("pretrain.py:model=embbert", 128 * 8192 + 8192 + 2 * 128 + 2), ("finetune.py:task=stsb", 128 + 1)],
)
def test_text_encoders(spec, head):
    found = cost.measure(config_file.load(f"configs/embbert_{spec}"), rows=2, row_length=16)
    assert found["parameters"]["model"] == 357_248
    assert found["parameters"]["groups"]["head"] == head
    assert 0 < found["flops_per_example"]["forward"] < found["flops_per_example"]["forward_backward"]


def test_every_task_of_a_run_has_its_own_adapter():
    one, four = (
        cost.measure(tiny(f"configs/lora_ranks.py:rank=4{more}"), rows=2, row_length=32)
        for more in ("", ",together=true")
    )
    assert four["parameters"]["trainable"] == 4 * one["parameters"]["trainable"]
    assert four["parameters"]["total"] - one["parameters"]["total"] == 3 * one["parameters"]["trainable"]
    assert four["optimizer_bytes"] == 4 * one["optimizer_bytes"]
