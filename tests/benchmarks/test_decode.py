"""Every decoder of the benchmarks gives the answers of plain greedy search with the whole model at every step."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is in the extras `test` and `bench`")

from benchmarks.torch import decode as torch_decode
from benchmarks.torch import model as torch_model
from benchmarks.torch import translation
from benchmarks.work import decoding, samples


@pytest.fixture(scope="module")
def batch():
    random = np.random.default_rng(0)
    pairs = [
        (np.append(random.integers(4, 50_000, n), 3).astype(np.int32), np.zeros(6, np.int32)) for n in (9, 7, 7, 2)
    ]
    return decoding.batch(pairs)


@pytest.fixture(scope="module")
def wanted(batch):
    """By the training forward, one token after the other."""
    model = torch_model.Translator()
    model.load(samples.weights())
    model.eval()
    sources = [row[:n] for row, n in zip(batch.ids, batch.lengths)]
    answers = [[] for _ in sources]
    with torch.no_grad():
        for _ in range(batch.limit):
            now = samples.Batch(sources, [np.array([*answer, samples.END], np.int32) for answer in answers])
            hidden = model(*translation.padded(now)[0]).view(len(sources), -1, samples.WIDTH)[:, -1]
            for answer, token in zip(answers, (hidden @ model.embedding.weight.T).argmax(-1).tolist()):
                answer.append(token)
    return np.array(answers)


def test_the_cached_step(batch, wanted):
    decoder = torch_decode.make(samples.weights())
    np.testing.assert_array_equal(torch_decode.decode_with(decoder, torch_decode.plain(decoder))(batch), wanted)
    assert not (wanted == samples.END).any(), "the weights should never end an answer"


def test_ctranslate2(batch, wanted):
    pytest.importorskip("ctranslate2", reason="in the extra `bench`")
    from benchmarks.torch import ctranslate2_decode

    decode = ctranslate2_decode.decode_with(ctranslate2_decode.translator(samples.weights(), "float32"))
    np.testing.assert_array_equal(np.stack(decode(batch)), wanted)
