"""Stacks of layers and their chunks."""

import pytest

from lwt import errors
from lwt.reparam.parts import stacks

NAMES = ["encoder/layer_0/mlp/kernel", "encoder/layer_1/mlp/kernel", "decoder/layer_0/norm/scale", "head/kernel"]


def test_layers():
    assert stacks.layers(NAMES) == {"encoder/layer": {0, 1}, "decoder/layer": {0}}


def test_a_target_outside_the_layers_is_named():
    match = stacks.matched(NAMES[1], ".*kernel")
    assert match.groupdict() == {"stack": "encoder/layer", "index": "1", "rest": "mlp/kernel"}
    with pytest.raises(errors.ConfigError, match=r"reparam.targets '.\*kernel' matches 'head/kernel'.* not in a layer"):
        stacks.matched("head/kernel", ".*kernel")


def test_chunks_of_equal_length():
    assert stacks.length("block", {0, 1, 2, 3}, chunks=2) == 2
    for indices in ({0, 1, 2}, {0, 2}):
        with pytest.raises(errors.ConfigError, match=r"chunks=2 must divide the . layers block_0 to block_2"):
            stacks.length("block", indices, chunks=2)
