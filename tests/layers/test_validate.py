"""A wrong field of a model is named as the config names it."""

import types

import pytest

from lwt import errors
from lwt.layers import validate

MODEL = types.SimpleNamespace(layers=2, width=0, dropout=1.0, norm="lyer", pool="first")


def test_what_is_right_passes():
    assert validate.require_positive(MODEL, "layers") is None
    assert validate.require_rates(types.SimpleNamespace(dropout=0.0), "dropout") is None
    assert validate.require_choices(MODEL, pool=("first", "rms")) is None


@pytest.mark.parametrize(
    "check, words",
    [
        (lambda: validate.require_positive(MODEL, "layers", "width"), "model.width=0 must be at least 1"),
        (lambda: validate.require_rates(MODEL, "dropout"), r"model.dropout=1.0 must be in \[0, 1\)"),
        (lambda: validate.require_choices(MODEL, norm=("layer", "rms")), "model.norm='lyer': did you mean 'layer'"),
    ],
)
def test_what_is_wrong_is_named(check, words):
    with pytest.raises(errors.ConfigError, match=words):
        check()
