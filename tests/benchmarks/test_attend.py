"""Attention that is written out for dropout is PyTorch's attention."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is in the extras `test` and `bench`")

from benchmarks.torch import attend


@pytest.mark.parametrize("kind", ["padded", "packed", "causal"])
def test_it_is_pytorchs(kind):
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 2, 5, 4, requires_grad=True) for _ in range(3))
    shape = {"padded": (3, 1, 1, 5), "packed": (3, 1, 5, 5)}.get(kind)
    mask = shape and torch.zeros(shape).masked_fill(torch.rand(shape) < 0.3, -1e4)
    found, wanted = (attend.attend(q, k, v, mask, dropout) for dropout in (1e-12, 0.0))
    torch.testing.assert_close(found, wanted)
    direction = torch.randn(found.shape)
    gradients, wanted_gradients = (torch.autograd.grad(y, (q, k, v), direction) for y in (found, wanted))
    torch.testing.assert_close(gradients, wanted_gradients)


def test_dropout_drops_weights_and_scales_the_others():
    q, k, v = torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1000, 4), torch.eye(1000)[None, None]
    weights = attend.attend(q, k, v, torch.zeros(1, 1, 1, 1000), 0.25).flatten()
    assert 150 < (weights == 0).sum() < 350
    torch.testing.assert_close(weights[weights > 0], torch.full_like(weights[weights > 0], 1e-3 / 0.75))
