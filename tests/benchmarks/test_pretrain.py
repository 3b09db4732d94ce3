"""Both sides of the pre-training benchmark do the same work: the same loss and gradients from the same weights."""

import argparse
import functools
import re

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is in the extras `test` and `bench`")

from benchmarks import harness, run, speed_page
from benchmarks.torch import conv, encoder
from benchmarks.torch import pretrain as torch_pretrain
from benchmarks.work import text_samples
from configs import embbert_pretrain
from lwt import trees
from lwt.models import bert, embbert
from lwt.runs import assembly
from lwt.tasks import masked_lm

COMMON = dict(vocabulary=40, max_length=40, width=8, layers=2)
MODELS = {  # lwt's class, PyTorch's function, their arguments
    "embbert": (embbert.Embbert, encoder.embbert, dict(COMMON, reduced=4, kernel_size=3)),
    "bert_2mb": (bert.Bert, encoder.bert, dict(COMMON, heads=2, hidden=12)),
}


@pytest.fixture(scope="module")
def batch():
    """Three rows of 35 (more than one piece of the convolution's gradient), two with padding, one without a mask."""
    random = np.random.default_rng(0)
    ids, segments = random.integers(5, 40, (3, 35)), np.ones((3, 35), np.int64)
    segments[:, 15:] = 2
    for row, length in ((1, 30), (2, 17)):
        ids[row, length:] = segments[row, length:] = 0
    arrays = {
        "ids": ids,
        "segments": segments,
        "masked_positions": np.array([[3, 34, 20], [7, 29, 0], [0, 0, 0]]),
        "masked_targets": np.array([[9, 39, 5], [6, 11, 0], [0, 0, 0]]),
        "next_sentence": np.array([1, 0, 1]),
    }
    weights = np.array([[1, 1, 1], [1, 1, 0], [0, 0, 0]], np.float32)
    return {name: array.astype(np.int32) for name, array in arrays.items()} | {"masked_weights": weights}


def lwt_side(make, sizes, batch):
    """``(weights, loss, gradients)``, flat; random weights, so that no bias or scale could be lost unseen."""
    model, task = make(**sizes, head="pretrain"), masked_lm.MaskedLm()
    shapes = trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"])
    random = np.random.default_rng(1)
    flat = {name: random.normal(0, 0.4, leaf.shape).astype(np.float32) for name, leaf in shapes.items()}

    @jax.jit
    @jax.value_and_grad
    def loss(flat):
        apply = functools.partial(model.apply, {"params": trees.unflatten(flat)})
        total, count, _ = task.loss(apply, jax.device_put(batch), train=False)
        return total / count

    value, gradients = loss(flat)
    return flat, float(value), {name: np.array(leaf) for name, leaf in gradients.items()}


@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_are_lwts(name, batch):
    make, make_torch, sizes = MODELS[name]
    flat, wanted, wanted_gradients = lwt_side(make, sizes, batch)
    wanted_gradients = encoder.state(wanted_gradients)
    for form in torch_pretrain.FORMS:
        options = {"channels_last": form == "gathered"} if name == "embbert" else {}
        model = make_torch(**sizes, **options).eval()
        model.load_state_dict(encoder.state(flat))
        loss = model(*torch_pretrain.prepare([batch], form)[0])
        loss.backward()
        assert abs(loss.item() - wanted) < 1e-5 * wanted
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        assert set(gradients) == set(wanted_gradients)
        for key, value in gradients.items():
            torch.testing.assert_close(value, wanted_gradients[key], rtol=1e-4, atol=1e-5, msg=f"{form}: {key}")


def test_gathered_batches_have_one_shape_and_all_targets(batch):
    fewer = batch | {"masked_weights": batch["masked_weights"] * [1, 0, 0]}  # the first of every row
    work = torch_pretrain.prepare([batch, fewer], "gathered")
    targets = [item[4].tolist() for item in work]
    assert targets == [[9, 39, 5, 6, 11], [9, 6, *[torch_pretrain.NONE] * 3]]
    assert work[0][5].tolist() == [3, 34, 20, 35 + 7, 35 + 29]


@pytest.mark.parametrize("k, t", [(32, 256), (1, 5), (40, 50)])
def test_the_fast_convolution_is_the_convolution(k, t):
    torch.manual_seed(0)
    leaves = [torch.randn(shape, requires_grad=True) for shape in ((2, t, 3), (3, 1, k), (3,))]
    dy = torch.randn(2, t, 3)
    found, wanted = (f(*leaves) for f in (conv.channels_last, conv.channels_first))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    for a, b in zip(torch.autograd.grad(found, leaves, dy), torch.autograd.grad(wanted, leaves, dy)):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", text_samples.MODELS)
def test_they_have_the_papers_size(name):
    config = embbert_pretrain.get_config(f"model={name}")
    model = assembly.make_model(config, config.data.tokenizer.vocabulary)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"]
    size = sum(weight.numel() for weight in encoder.make(name).parameters())
    assert size == trees.count(shapes) == encoder.PARAMETERS[name]


def test_batches_of_a_text(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list("abdeghilmnorstu"), random.integers(2, 9))) for _ in range(9000)]
    lines = [" ".join(random.choice(words, 4)) for _ in range(4800)]
    (tmp_path / "novels").mkdir()
    (tmp_path / "novels" / "train.txt").write_text("\n".join(lines[:2400]) + "\n\n" + "\n".join(lines[2400:]) + "\n")
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    made, again = (text_samples.batches("bert_2mb", "folder:novels", tmp_path, count=2) for _ in range(2))
    assert all(np.array_equal(a[name], b[name]) for a, b in zip(made, again) for name in a)
    counts = text_samples.counts(made[1])
    assert (counts["examples"], counts["positions"]) == (32, 32 * 256) and made[0]["ids"].shape == (32, 256)
    assert 0.9 < counts["tokens"] / counts["positions"] < 1
    assert not np.array_equal(made[0]["ids"], made[1]["ids"]) and made[0]["ids"].max() < 2048


def test_workers_of_both_sides_train(batch, tmp_path):
    for name in text_samples.MODELS:
        kept = text_samples.path(embbert_pretrain.get_config(f"model={name}").data, "folder:none", tmp_path, count=1)
        kept.parent.mkdir()
        np.savez(kept, **{key: array[None] for key, array in batch.items()})
    flags = argparse.Namespace(data="folder:none", steps=1, rounds=1, device="cpu")
    extra = (f"--data={flags.data}", f"--cache={tmp_path}", "--batches=1")
    chosen = run.commands("pretrain", pattern="(torch.*bert_2mb:gathered|lwt.*embbert:float32)$", extra=extra)
    given = dict(failures={}, report=lambda text: None)
    with harness.started(chosen, **given) as workers:
        lines = harness.interleave(workers, rounds=1, steps=1, pause=0, **given)
    assert not given["failures"] and [line["parameters"] for line in lines] == [
        encoder.PARAMETERS[m] for m in ("bert_2mb", "embbert")
    ]
    assert all(3 < line["loss"] < 30 for line in lines)
    page = speed_page.page(run.rows("pretrain", lines, flags=flags))
    assert re.findall(r"^\| variant, (\S+) \| examples/s|^\| (\w+/\S+) \|", page, re.MULTILINE) == [
        *(("bert_2mb", ""), ("", "torch_pretrain/bert_2mb:gathered")),
        *(("embbert", ""), ("", "lwt_pretrain/embbert:float32")),
    ]
