"""Both sides of the image benchmark do the same work: the same loss and gradients from the same weights."""

import functools
import sys

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is in the extras `test` and `bench`")

from benchmarks import common
from benchmarks.lwt import vit as lwt_vit
from benchmarks.torch import vit as torch_vit
from benchmarks.work import image_samples
from lwt import trees
from lwt.export.torch import timm_layouts
from lwt.models import vit
from lwt.runs import assembly

SIZES = dict(image_size=32, channels=3, outputs=10, patch=8, width=16, layers=2, heads=2, hidden=24)


@pytest.mark.parametrize("form", torch_vit.FORMS)
def test_loss_and_gradients_are_lwts(form):
    if form == "timm":
        pytest.importorskip("benchmarks.torch.timm", reason="timm is in the extra `test`", exc_type=ImportError)
    (batch,), model = image_samples.batches(count=1, rows=3), vit.ViT(**SIZES)
    task = assembly.make_task(lwt_vit.get_config("vit", "float32", "small"))
    shapes = jax.eval_shape(lambda: assembly.init_weights(model, jax.random.key(0)))
    random = np.random.default_rng(1)
    weights = {name: random.normal(0, 0.3, leaf.shape).astype(np.float32) for name, leaf in shapes.items()}

    @jax.jit
    @jax.value_and_grad
    def loss(flat):
        apply = functools.partial(model.apply, {"params": trees.unflatten(flat)})
        total, count, _ = task.loss(apply, jax.device_put(batch), train=False)
        return total / count

    wanted, gradients = loss(weights)
    other = torch_vit.make(form, SIZES)

    def theirs(flat):
        return {k: torch.tensor(w) for k, w in timm_layouts.to_timm(flat, model).items()}

    other.load_state_dict(theirs(weights))
    ((images, labels),) = torch_vit.prepare([batch])
    found = torch.nn.functional.cross_entropy(other(images), labels)
    found.backward()
    assert abs(found.item() - float(wanted)) < 1e-5 * float(wanted)
    gradients = theirs(gradients)
    for name, weight in other.named_parameters():
        torch.testing.assert_close(weight.grad, gradients[name], rtol=1e-4, atol=1e-5, msg=name)


def test_workers_of_both_sides_train(monkeypatch):
    """In this process, which has imported both libraries; `test_pretrain.py` starts processes."""
    served = []
    monkeypatch.setattr(common.memory, "tune", lambda: None)
    monkeypatch.setattr(common, "serve", lambda run, **facts: served.append(facts | run(1)))
    for module, variant in ((torch_vit, "vit:plain"), (lwt_vit, "vlora:float32")):
        monkeypatch.setattr(sys, "argv", ["vit.py", f"--variant={variant}", "--batches=1", "--size=small"])
        module.main()
    full, light = (line["parameters"] for line in served)
    assert full == 1_205_898 > 2 * light
    assert all(1 < line["loss"] < 5 and line["examples"] == 64 and line["warmup"] > 0 for line in served)
