"""The compiled functions of a run, which the next run of the same process reuses if it would compile the same ones.

Searches of a rate, seeds of a setting and a run that is resumed in its own process differ in values alone, or in when
the loop logs, evaluates and saves. Tracing and compiling the step again for each length of a batch costs a small run
more than its training does.
"""

import collections
import dataclasses
import json
from typing import Any

import jax

KEPT = 4  # programs; each holds what JAX compiled for it
VALUES = ("seed", "init_from", "init_checkpoint")  # keys of a config that reach the functions as arrays
# Keys that only the loop around the functions reads.
LOOP = ("log_every", "eval_every", "save_every", "keep_last", "select", "select_mode", "patience", "profile_steps")
_made = collections.OrderedDict()


@dataclasses.dataclass(frozen=True)
class Programs:
    """``step(state, frozen, batch, learning_rate) -> state``; an `evaluation.Evaluator`; ``weights(params, step)``.

    And `sums`, the names of what the loss sums.
    """

    sums: tuple[str, ...]
    step: Any
    evaluator: Any
    weights: Any


def shared(key, make):
    """The programs that were made for an equal `key`; else those of ``make()``, which are kept for the next call."""
    if key not in _made:
        _made[key] = make()
    _made.move_to_end(key)
    while len(_made) > KEPT:
        _made.popitem(last=False)
    return _made[key]


def forget():
    """Forgets all programs."""
    _made.clear()


def key_of(config, *, arrays, mesh, **more):
    """What the programs of a run depend on, as text: the config without `VALUES`, `LOOP` and the rate, and the shapes.

    Args:
        config: with its length in steps.
        arrays: pytrees that the programs get as arguments.
        mesh: the devices.
        more: values that JSON can write, of what else the programs hold.
    """
    kept = config.to_dict()
    kept["optimizer"].pop("learning_rate")
    for name in (*VALUES, *LOOP):
        kept.pop(name)
    shapes = [(jax.tree_util.keystr(path), x.shape, x.dtype) for path, x in jax.tree.leaves_with_path(arrays)]
    places = [mesh.shape, *mesh.devices.flat]
    return json.dumps([kept, shapes, places, more], default=str, sort_keys=True)
