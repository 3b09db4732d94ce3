"""One-shot pruning sets the smallest weights to 0 and leaves the others."""

import numpy as np
import pytest

from lwt import errors
from lwt.compress import sparsify
from lwt.layers import linear

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.mark.parametrize(
    "given, left",
    [
        (dict(sparsity=0.75), 0.25),
        (dict(sparsity=0.75, scope="global"), 0.25),
        (dict(pattern=(1, 4)), 0.25),
        (dict(sparsity=0.5, names=r".*fc1/kernel"), 0.5),
    ],
)
def test_the_smallest_weights_become_zero(untrained, tiny, tmp_path, given, left):
    opened = untrained(tiny(), tmp_path / "dense")
    made, done = sparsify.sparsify(opened, tmp_path / "sparse", **given)
    before, after = linear.merge(opened.weights), linear.merge(made.weights)
    wanted = ("fc1/kernel",) if "names" in given else ("kernel",)
    shares = []
    for name, w in before.items():
        kept = after[name] != 0
        np.testing.assert_array_equal(after[name], np.where(kept, w, 0))
        if not name.endswith(wanted):
            assert np.all(kept | (w == 0)), name
            continue
        shares.append(kept.mean())
        if "scope" not in given and "pattern" not in given:
            assert abs(w[kept]).min() > abs(w[~kept]).max()
        if "pattern" in given:
            assert np.all(np.asarray(kept).reshape(-1, 4, kept.shape[1]).sum(1) == 1)
    assert done["kept"] / done["of"] == pytest.approx(left, abs=0.01)
    same = np.allclose(shares, left, atol=0.02)
    assert same != ("scope" in given)  # one threshold keeps more of some arrays than of others


@pytest.mark.parametrize("given", [{}, dict(sparsity=0.5, pattern=(2, 4))])
def test_exactly_one_setting_is_required(untrained, tiny, tmp_path, given):
    opened = untrained(tiny(), tmp_path / "dense")
    with pytest.raises(errors.ConfigError, match="give either --sparsity or --pattern"):
        sparsify.sparsify(opened, tmp_path / "sparse", **given)
    assert not (tmp_path / "sparse").exists()


def test_patterns_are_parsed():
    assert sparsify.pattern_of("2:4") == (2, 4) and sparsify.pattern_of("") == ()
    for text in ("half", "4:2", "0:4", "2:", "-1:4", "2:4:8"):
        with pytest.raises(errors.ConfigError, match=f"--pattern={text} must be N:M, such as 2:4"):
            sparsify.pattern_of(text)


@pytest.mark.parametrize("sparsity", [1.0, -0.1, float("nan"), float("inf")])
def test_a_sparsity_that_leaves_nothing_or_is_no_share_is_refused(sparsity):
    with pytest.raises(errors.ConfigError, match=f"--sparsity={sparsity:g} must be in"):
        sparsify.sparsify(None, "nowhere", sparsity=sparsity)
