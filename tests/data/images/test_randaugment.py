"""RandAugment by torchvision: its randomness depends on the data position alone; wrong settings are refused."""

import sys

import numpy as np
import pytest

from lwt import errors
from lwt.data.batches import bucketed, image_examples, sharding
from lwt.data.images import randaugment


@pytest.fixture(scope="module")
def torchvision():
    """torchvision, even where its build and PyTorch's (with CUDA, without) do not fit: no transform needs what it then
    misses, two operators on boxes, but it does not start without their names."""
    torch = pytest.importorskip("torch")
    try:
        import torchvision
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    except ImportError:
        pytest.skip("torchvision is not installed")
    return torchvision


def pixels(count, size=16):
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3), np.uint8)


def test_the_number_of_an_image_decides(torchvision):
    given, chance = pixels(20), np.random.default_rng(0).random(20, np.float32)
    augment = randaugment.RandAugment(2, 9)
    made = augment(given, chance)
    assert made.shape == given.shape and made.dtype == np.uint8
    assert (made != given).any((1, 2, 3)).sum() > 10  # some operations do nothing
    np.testing.assert_array_equal(augment(given[7:9], chance[7:9]), made[7:9])
    assert (augment(given, chance[::-1]) != made).any()
    grey = augment(given[..., :1], chance)
    assert grey.shape == (20, 16, 16, 1)


def test_the_random_stream_of_torch_is_unchanged(torchvision):
    import torch

    augment = randaugment.RandAugment(1, 5)
    torch.manual_seed(0)
    wanted = torch.rand(3)
    torch.manual_seed(0)
    augment(pixels(2), np.array([0.1, 0.2], np.float32))
    assert (torch.rand(3) == wanted).all()


def test_batches_do_not_depend_on_the_processes(torchvision):
    given = image_examples.ImageExamples(
        pixels(20), np.arange(20), np.arange(20, dtype="i4"), randaugment.RandAugment(2, 9), "x"
    )

    def batches(share=sharding.WHOLE):
        return bucketed.BucketedBatches(given, rows=6, lengths=image_examples.LENGTHS, share=share)

    whole = batches()
    next(whole)
    state, wanted = whole.state(), next(whole)
    shares = [batches(sharding.Share(i, 2)) for i in range(2)]
    for share in shares:
        share.restore(state)
    np.testing.assert_array_equal(np.concatenate([next(share)["image"] for share in shares]), wanted["image"])
    assert (wanted["image"] != given.images[wanted["label"]]).any()


def test_wrong_settings_are_refused(torchvision, monkeypatch):
    with pytest.raises(errors.ConfigError, match="is for uint8 images of 1 or 3 channels, not float32 of 3"):
        randaugment.RandAugment(2, 9)(pixels(2).astype("f4"), np.zeros(2, np.float32))
    for wrong in ((0, 9), (2, 31)):
        with pytest.raises(errors.ConfigError, match=r"data.randaugment=\(\d+, \d+\) must be \(operations, magnit"):
            randaugment.RandAugment(*wrong)
    monkeypatch.setitem(sys.modules, "torchvision.transforms.v2", None)
    with pytest.raises(errors.ConfigError, match=r"needs torchvision.*pip install 'lwt\[augment\]'"):
        randaugment.RandAugment(2, 9)
