"""The PyTorch side of the benchmarks does the work it says, in every layout."""

import importlib.util

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is in the extras `test` and `bench`")

from benchmarks.torch import loss as torch_loss
from benchmarks.torch import model as torch_model
from benchmarks.torch import translation
from benchmarks.work import samples


@pytest.fixture(scope="module")
def batch():
    random = np.random.default_rng(0)

    def side():
        return [np.append(random.integers(4, 50_000, random.integers(1, 20)), 3).astype(np.int32) for _ in range(6)]

    return samples.Batch(side(), side())


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = torch_model.Translator()
    model.load(samples.weights())
    return model.eval()


def loss_and_gradient(model, batch, layout, *, rows=None):
    model.zero_grad()
    inputs, targets = translation.packed(batch, rows) if layout == "unpadded" else translation.padded(batch)
    work = translation.Work(inputs, targets, (targets != 0).nonzero()[:, 0], batch.counts)
    loss = translation.loss_function(layout)(model(*inputs), model.embedding.weight, work)
    loss.backward()
    return loss.item(), {name: weight.grad.clone() for name, weight in model.named_parameters()}


def test_it_has_the_papers_size(model):
    assert torch_model.count(model) == torch_model.PARAMETERS == sum(w.size for w in samples.weights().values())


@pytest.mark.parametrize("layout, rows", [("real_loss", None), ("unpadded", None), ("unpadded", 7)])
def test_every_layout_has_the_loss_and_gradient_of_padded_rows(model, batch, layout, rows):
    wanted, wanted_gradient = loss_and_gradient(model, batch, "plain")
    loss, gradient = loss_and_gradient(model, batch, layout, rows=rows)
    assert abs(loss - wanted) < 1e-5 * wanted
    for name, value in wanted_gradient.items():
        torch.testing.assert_close(gradient[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_the_loss_that_is_compiled_is_the_loss():
    logits, targets = torch.randn(5, 40) * 3, torch.randint(40, (5, 1))
    gradient, loss = torch_loss._fusible_probabilities(logits.clone(), targets, 5)
    wanted_gradient, wanted = torch_loss._probabilities(logits.clone(), targets, 5)
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(gradient, wanted_gradient, rtol=1e-5, atol=1e-7)


def test_lora_trains_what_the_paper_counts(model):
    if not importlib.util.find_spec("peft"):  # importing it is left to `peft.adapted`
        pytest.skip("PEFT is in the extras `test` and `bench`")
    from benchmarks.torch import peft

    adapted = peft.adapted(torch_model.Translator())
    assert torch_model.count(adapted, trained=True) == 147_456
