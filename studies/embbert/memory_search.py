"""Searches the sizes of EmbBERT under a byte budget, as in the paper's section 3.3.

`formulas` costs all combinations of the sizes at once; those within the budget are sorted.
"""

import numpy as np

from lwt import errors
from studies.embbert import formulas

SPACE = {  # the ranges that section 3.3 names, and blocks like the paper's around its own
    "v": (2048, 3072, 4096, 5120, 6144, 7168, 8192, 9216),
    "l": (256, 384, 512),
    "d": tuple(range(64, 321, 16)),  # not below 64: "significant performance degradation"
    "r": (16, 24, 32),
    "a": (1, 2),
    "k": (4, 8, 16, 32),
    "n": tuple(range(1, 9)),
}
CRITERIA = {  # name -> keys of a candidate, the most important first; a minus is "less is better"
    "encoder": ("encoder", "-products"),  # most weights where tokens meet: the embedder is paid first, then this
    "weights": ("weights", "-products"),  # most weights of all
    "vocabulary": ("v", "encoder", "-products"),  # the longest table, then as "encoder"
    "products": ("-products", "weights"),  # the cheapest to run
    "bytes": ("-bytes", "encoder"),  # the smallest
}


def best(budget, *, weight=4.0, activation=4.0, schedule="paper", criterion="encoder", top=10, space=None):
    """The best configurations within a budget, and their costs.

    Args:
        budget: bytes, for weights and activations together.
        weight, activation: bytes of a value.
        schedule: activations as the "paper" counts them, or computed by "rows" (`formulas.row_by_row`).
        criterion: a key of `CRITERIA`.
        top: how many.
        space: values to try, by the names of `SPACE`; those not named are `SPACE`'s.

    Returns:
        ``(configurations, number within the budget)``; a configuration is a dict of its sizes, and of bytes, weights,
        encoder (weights of the blocks), activations, accesses, sums and products.

    Raises:
        lwt.errors.ConfigError: an unknown name, no values to try, or nothing fits (names the smallest).
    """
    keys = _choice(criterion, CRITERIA, "criterion")
    table = costs({**SPACE, **(space or {})}, weight=weight, activation=activation, schedule=schedule)
    fits = np.flatnonzero(table["bytes"] <= budget)
    if not fits.size:
        least = int(np.argmin(table["bytes"]))
        sizes = ", ".join(f"{name}={table[name][least]}" for name in SPACE)
        raise errors.ConfigError(
            f"nothing fits into {budget:,} bytes: the smallest needs {table['bytes'][least]:,} ({sizes})"
        )
    signed = [-table[key[1:]] if key[0] == "-" else table[key] for key in keys]
    order = fits[np.lexsort([-column[fits] for column in reversed(signed)])][:top]
    return [{name: column[i].item() for name, column in table.items()} for i in order], fits.size


def costs(space, *, weight=4.0, activation=4.0, schedule="paper"):
    """Every combination of `space`, as columns: sizes and costs, see `best`."""
    for name, values in space.items():
        _choice(name, SPACE, "size")
        if not len(values) or min(values) < 1:
            raise errors.ConfigError(f"{name}={tuple(values)}: sizes must be 1 or more")
    grid = np.meshgrid(*(np.asarray(space[name], np.int64) for name in SPACE), indexing="ij")
    sizes = {name: column.reshape(-1) for name, column in zip(SPACE, grid, strict=True)}
    cost = formulas.embbert(**sizes)
    block = {name: sizes[name] for name in "lda"}
    if _choice(schedule, {"paper": False, "rows": True}, "schedule"):
        activations = np.max(list(formulas.row_by_row(**block).values()), axis=0)
    else:
        activations = cost.activations
    total = np.ceil(cost.weights * weight + activations * activation).astype(np.int64)
    table = formulas.nano_embedder(**{name: sizes[name] for name in "vldr"}).weights
    return {
        **sizes,
        "bytes": total,
        "weights": cost.weights,
        "encoder": cost.weights - table,
        "activations": activations,
        "accesses": cost.accesses,
        "sums": cost.sums,
        "products": cost.products,
    }


def _choice(value, choices, what):
    if value not in choices:
        raise errors.ConfigError(f"{what}={value!r}: {errors.suggest(value, choices)}")
    return choices[value]
