"""Both sides of the benchmarks do the same work: the same loss and the same answers from the same weights."""

import functools

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is in the extras `test` and `bench`")

from benchmarks import decoding_work, lwt_decode, lwt_train, samples, torch_decode, torch_model, torch_translation  # noqa: E402
from lwt import trees  # noqa: E402
from lwt.training import build  # noqa: E402


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
    inputs, targets = torch_translation.padded(batch)
    work = torch_translation.Work(inputs, targets, (targets != 0).nonzero()[:, 0], batch.counts)
    with torch.no_grad():
        wanted = torch_translation.loss_function("plain")(model.eval()(*inputs), model.embedding.weight, work).item()

    config = lwt_train.get_config(precision="float32")
    own, task = build.make_model(config, samples.VOCABULARY), build.make_task(config)
    apply = functools.partial(own.apply, {"params": trees.unflatten(samples.weights())})
    total, count, _ = task.loss(apply, jax.device_put(samples.pack(batch)), train=False)
    assert int(count) == batch.counts["tokens"]
    assert abs(float(total / count) - wanted) < 1e-5 * wanted


def test_the_answers(pairs):
    batch = decoding_work.batch(pairs, limit=6)
    decoder = torch_decode.make(samples.weights())
    wanted = torch_decode.decode_with(decoder, decoder)(batch)
    answers = lwt_decode.decode_with(samples.weights(), precision="float32")(batch)
    np.testing.assert_array_equal(answers, wanted)
    assert len(np.unique(answers)) > 6, "answers that are all alike would prove little"
