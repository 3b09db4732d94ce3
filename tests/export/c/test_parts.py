"""What the networks in C share: refusals, structs and costs."""

import functools
import types

import pytest

from lwt import errors
from lwt.attention import efficient, linear, softmax
from lwt.export.c import parts


def model(attention, **fields):
    return types.SimpleNamespace(attention=attention, **fields)


def test_only_attentions_that_the_engine_has_are_accepted():
    assert parts.require_attention(model(efficient.Attention), "softmax", "efficient") == "efficient"
    assert parts.require_attention(model(functools.partial(softmax.Attention)), "softmax") == "softmax"
    with pytest.raises(errors.ConfigError, match="'linear' .* supports softmax and efficient, without options"):
        parts.require_attention(model(linear.Attention), "softmax", "efficient")
    with pytest.raises(errors.ConfigError, match="'softmax' with the options {'block': 8}"):
        parts.require_attention(model(functools.partial(softmax.Attention, block=8)), "softmax")


def test_a_struct_is_one_element_of_an_array():
    assert parts.struct(["{1, 2}", "0"]) == "    {{1, 2},\n     0},\n"


def test_only_narrow_tables_cost_multiplications():
    nano = dict(reduced=6, width=20)
    assert parts.embed_macs(model(None, **nano), 5) == 2 * 5 * 6 * 20
    assert parts.embed_macs(model(None, embedding="full", **nano), 5) == 0
