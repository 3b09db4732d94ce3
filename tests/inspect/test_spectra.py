"""Figures of spectra that are known by hand, and elbows of curves that are."""

import jax.numpy as jnp
import numpy as np

from lwt.inspect import spectra
from lwt.layers import linear

PAPER = {4: 0.002, 8: 0.42, 16: 0.88, 32: 0.95}


def test_figures_of_known_spectra():
    flat = spectra.figures(np.full(8, 3.0))
    assert flat["norm"] == np.sqrt(72) and flat["largest"] == 3 and flat["elbow"] is None
    np.testing.assert_allclose([flat["effective_rank"], flat["stable_rank"]], 8)
    assert (flat["rank_90"], flat["rank_99"]) == (8, 8)
    steep = spectra.figures(np.array([np.sqrt(98), 1.0, 1.0, 0.0]))  # 98 %, 1 %, 1 % and nothing of the energy
    assert (steep["rank_90"], steep["rank_99"], steep["elbow"]) == (1, 2, 1)
    np.testing.assert_allclose(steep["stable_rank"], 100 / 98)
    two = spectra.figures(np.array([1.0, 1.0, 0.0, 0.0]))
    np.testing.assert_allclose(two["effective_rank"], 2)


def test_the_update_of_an_adapter_has_its_rank():
    generator = np.random.default_rng(0)

    def draw(*shape):
        return jnp.asarray(generator.normal(size=shape), jnp.float32)

    base = {"layer_0/query/kernel": draw(9, 7), "layer_0/key/kernel": draw(9, 7), "layer_0/query/bias": draw(7)}
    a, b = draw(9, 2), draw(2, 7)
    adapted = {**base, "layer_0/query/kernel": linear.LowRank(base["layer_0/query/kernel"], a, b, jnp.float32(0.5))}
    found = spectra.of_updates(adapted, base)
    assert set(found) == {"layer_0/query/kernel"}
    expected = np.linalg.svd(0.5 * np.asarray(a @ b), compute_uv=False)
    np.testing.assert_allclose(found["layer_0/query/kernel"], expected, atol=1e-5)
    assert spectra.figures(found["layer_0/query/kernel"])["rank_99"] <= 2
    assert spectra.of_updates(base, base) == {}
    assert spectra.of_updates({"other/kernel": base["layer_0/key/kernel"]}, base) == {}


def test_the_paper_s_curve_bends_at_16():
    assert spectra.elbow(PAPER) == 16


def test_a_sharp_corner_is_found_wherever_it_is():
    for corner in (8, 16):
        assert spectra.elbow({rank: min(rank, corner) / corner + 0.001 * rank for rank in PAPER}) == corner


def test_no_bend_no_elbow():
    assert spectra.elbow({rank: rank / 40 for rank in PAPER}) is None  # a straight line
    assert spectra.elbow({rank: rank**2 / 2000 for rank in PAPER}) is None  # bends the other way
    assert spectra.elbow(dict.fromkeys(PAPER, 0.5)) is None
    assert spectra.elbow({4: 0.9, 8: 0.95, 32: 0.8}) is None  # more rank is worse
    assert spectra.elbow({4: 0.1, 8: 0.9}) is None
