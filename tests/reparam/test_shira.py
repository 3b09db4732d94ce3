"""SHiRA: which entries it changes."""

import jax
import numpy as np

from lwt.layers import linear
from lwt.reparam import shira
from tests.reparam import sizes

KEY = "encoder/layer_0/cross_attention/key/kernel"


def test_counts():
    base = sizes.shapes([f"layer_{i}/self_attention" for i in range(6)], 768)
    assert sizes.trained(shira.SHiRA(rank=8), base) == 6 * 3 * 8 * 2 * 768


def test_entries_at_places_of_the_seed(base, moved):
    reparam = shira.SHiRA(rank=2, targets=(KEY,))
    adapter = moved(reparam.init(jax.random.key(0), base))
    update = np.array(linear.dense(reparam.expand(base, adapter, 0)[KEY]) - base[KEY])
    places = reparam.places(KEY, (12, 20), count=64)
    assert (np.flatnonzero(update) == places).all() and len(places) == 2 * (12 + 20)
    np.testing.assert_allclose(update.reshape(-1)[places], adapter[f"{KEY}/entries"], atol=1e-6)
    assert places[:6].tolist() == [0, 3, 5, 6, 11, 13]  # the same for ever
    other = shira.SHiRA(rank=2, seed=1).places(KEY, (12, 20), count=64)
    assert 0 < len({*places} & {*other}) < 32
    assert shira.SHiRA(rank=2).places("x", (12, 20), count=64).tolist() != places.tolist()


def test_no_more_entries_than_there_are(base):
    assert len(shira.SHiRA(rank=50, targets=(KEY,)).init(jax.random.key(0), base)[f"{KEY}/entries"]) == 12 * 20
