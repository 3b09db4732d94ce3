"""The end of a message names the nearest choice, or else the choices."""

from lwt import errors


def test_suggestions():
    assert errors.suggest("polyak", ["adam", "polyak_sgd"]) == "did you mean 'polyak_sgd'?"
    assert errors.suggest("xyz", ["b", "a"]) == "choose from a, b"
    assert errors.suggest("xyz", map(str, range(20)), limit=2) == "choose from 0, 1, ..."
    assert errors.suggest("xyz", []) == "there are no choices"


def test_all_errors_are_ones_that_programs_print():
    kinds = (errors.ConfigError, errors.DataError, errors.CheckpointError, errors.NotFinite)
    assert all(issubclass(kind, errors.LwtError) for kind in kinds)
