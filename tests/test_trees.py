import numpy as np
import pytest

from lwt import errors, trees

TREE = {"encoder": {"layer_0": {"kernel": np.zeros((2, 3))}}, "bias": np.zeros(3)}


def test_flatten_and_back():
    flat = trees.flatten(TREE)
    assert list(flat) == ["encoder/layer_0/kernel", "bias"]
    assert trees.unflatten(flat)["encoder"]["layer_0"]["kernel"] is TREE["encoder"]["layer_0"]["kernel"]


def test_counts_and_bytes():
    assert trees.count(TREE) == 9
    assert trees.nbytes(TREE) == 72


def test_first_match_wins_and_must_cover():
    rules = ((".*/kernel", 1), (".*", 2))
    assert trees.first_match("encoder/layer_0/kernel", rules) == 1
    assert trees.first_match("bias", rules) == 2
    with pytest.raises(errors.ConfigError, match="'bias'"):
        trees.first_match("bias", rules[:1])


def test_a_pattern_that_matches_nothing_is_an_error():
    with pytest.raises(errors.ConfigError, match="did you mean 'encoder/layer_0/kernel'"):
        trees.matching(trees.flatten(TREE), "encoder/layer_0/kernl", what="targets")
    with pytest.raises(errors.ConfigError, match="not a regular expression"):
        trees.matching(trees.flatten(TREE), "(", what="targets")


def test_differences_name_every_leaf():
    wanted = {"a": np.zeros(2), "b": np.zeros(2), "c": np.zeros(2)}
    found = {"b": np.zeros(3), "c": np.zeros(2), "d": np.zeros(2)}
    text = trees.differences(wanted, found)
    assert text == "missing: a; unexpected: d; other shapes: b: (3,) instead of (2,)"
    assert not trees.differences(wanted, wanted)
