"""Stacks of layers, ``STACK_0/..., STACK_1/...``, cut into chunks of equal length."""

import collections
import re

from lwt import errors

LAYER = re.compile(r"(?P<stack>.*?)_(?P<index>\d+)/(?P<rest>.+)")
MATRICES = r"(?!.*conv/).*_\d+/.*/kernel"  # the linear layers of encoders and decoders, without tables and heads


def matched(name, patterns):
    """The match of `LAYER` with the name of a target that `patterns` found.

    Raises:
        lwt.errors.ConfigError: the target is not in a layer.
    """
    match = LAYER.fullmatch(name)
    if match is None:
        raise errors.ConfigError(
            f"reparam.targets {patterns!r} matches {name!r}, which is not in a layer such as block_0/..."
        )
    return match


def layers(names):
    """``{stack: {indices of its layers}}`` of weights' names."""
    found = collections.defaultdict(set)
    for match in filter(None, map(LAYER.fullmatch, names)):
        found[match["stack"]].add(int(match["index"]))
    return dict(found)


def length(stack, indices, *, chunks):
    """The number of layers in a chunk of a stack with these `indices`.

    Raises:
        lwt.errors.ConfigError: `chunks` does not divide the layers, or one is missing.
    """
    if len(indices) % chunks or indices != set(range(len(indices))):
        raise errors.ConfigError(
            f"reparam.chunks={chunks} must divide the {len(indices)} layers {stack}_0 to {stack}_{max(indices)}"
        )
    return len(indices) // chunks
