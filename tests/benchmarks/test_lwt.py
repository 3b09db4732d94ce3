"""Both sides of the benchmarks do the same work: the same loss and the same answers from the same weights."""

import functools

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is in the extras `test` and `bench`")

from benchmarks.lwt import decode, train
from benchmarks.torch import decode as torch_decode
from benchmarks.torch import model as torch_model
from benchmarks.torch import translation
from benchmarks.work import decoding, samples
from lwt import trees
from lwt.runs import assembly


@pytest.fixture(scope="module")
def pairs():
    random = np.random.default_rng(0)

    def side(n):
        return np.append(random.integers(4, 50_000, n), samples.END).astype(np.int32)

    return [(side(n), side(m)) for n, m in ((9, 7), (7, 12), (7, 3), (2, 1), (30, 40))]


def test_the_loss_without_dropout(pairs):
    batch = samples.batches(pairs, size=len(pairs))[0]
    model = torch_model.Translator()
    model.load(samples.weights())
    inputs, targets = translation.padded(batch)
    work = translation.Work(inputs, targets, (targets != 0).nonzero()[:, 0], batch.counts)
    with torch.no_grad():
        wanted = translation.loss_function("plain")(model.eval()(*inputs), model.embedding.weight, work).item()

    config = train.get_config(precision="float32")
    own, task = assembly.make_model(config, samples.VOCABULARY), assembly.make_task(config)
    apply = functools.partial(own.apply, {"params": trees.unflatten(samples.weights())})
    total, count, _ = task.loss(apply, jax.device_put(samples.pack(batch)), train=False)
    assert int(count) == batch.counts["tokens"]
    assert abs(float(total / count) - wanted) < 1e-5 * wanted


def test_the_answers(pairs):
    batch = decoding.batch(pairs, limit=6)
    decoder = torch_decode.make(samples.weights())
    wanted = torch_decode.decode_with(decoder, torch_decode.plain(decoder))(batch)
    answers = decode.decode_with(samples.weights(), precision="float32")(batch)
    np.testing.assert_array_equal(answers, wanted)
    assert len(np.unique(answers)) > 6, "answers that are all alike would prove little"
