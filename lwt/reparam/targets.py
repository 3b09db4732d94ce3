"""Which weights a low-rank method adapts, what its leaves are called, and the checks that such methods share.

The leaves of an adapter are named after the weight that they change: ``NAME/a``, ``NAME/b``, ...
"""

import math
import numbers
import re

import jax
import jax.numpy as jnp

from lwt import errors, trees

ATTENTION = r".*attention/(query|key|value)/kernel"  # the targets of "Implementing Transformers", section 4.2
LABELS = {"a": "a", "b": "b", "a0": "constant", "b0": "constant", "magnitude": "vector"}


def select(base, pattern, *, key="reparam.targets"):
    """The names of the matrices of `base` that `pattern` matches in full, sorted.

    Sorted, because methods number their targets to draw random values, and jit and checkpoints reorder a dict.

    Raises:
        lwt.errors.ConfigError: the pattern is no regular expression, or matches nothing, or no matrix.
    """
    names = trees.matching(base, pattern, what=key)
    matrices = sorted(name for name in names if len(base[name].shape) == 2)
    if not matrices:
        first = f"{names[0]!r} of shape {tuple(base[names[0]].shape)}"
        raise errors.ConfigError(
            f"{key} {pattern!r} matches no matrix (but {first}); a target is a 2-D kernel or table"
        )
    return matrices


def is_embedding(name):
    """True for a table of embeddings, whose rows are looked up: ``...embedding``, or a leaf right below ``embed``."""
    return re.fullmatch(r"(.*/)?(\w*embedding|embed/\w+)", name) is not None


def label(leaf):
    """The label of an adapter's leaf ``NAME/a``, ``NAME/b``, ``NAME/a0``, ``NAME/b0`` or ``NAME/magnitude``."""
    name, kind = leaf.rsplit("/", 1)
    return f"embedding_{kind}" if is_embedding(name) and kind in ("a", "b") else LABELS[kind]


def by_pattern(name, rules, default):
    """The value of the first ``(regex, value)`` that matches the whole of `name`, else `default`."""
    return next((value for pattern, value in rules if re.fullmatch(pattern, name)), default)


def kaiming_uniform(key, shape, fan_in):
    """PyTorch's Kaiming-uniform with a=√5, which is U(-1/√fan_in, 1/√fan_in)."""
    bound = 1 / math.sqrt(fan_in)
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def balanced(w, rank):
    """The best factors of a rank: `a` `[in r]`, `b` `[r out]` of the truncated SVD of `w` (Eckart and Young 1936).

    Both have the same singular values, √σ of the weight's.
    """
    u, s, vt = jnp.linalg.svd(w.astype(jnp.float32), full_matrices=False)
    root = jnp.sqrt(s[:rank])
    return u[:, :rank] * root[None], root[:, None] * vt[:rank]


def ranked(ranks):
    """The keys ``targets`` and ``rank_pattern`` of a section that has just these weights, ``{name: rank}``."""
    names = {name: re.escape(name) for name in ranks}
    return {"targets": "|".join(names.values()), "rank_pattern": [[names[name], rank] for name, rank in ranks.items()]}


def check_rank(value, key="reparam.rank"):
    """Raises ConfigError unless `value` is an integer of 1 or more."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise errors.ConfigError(f"{key} is {value!r}; a rank is an integer of 1 or more")


def check_alpha(value, key="reparam.alpha"):
    """Raises ConfigError unless `value` is a finite number above 0."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 < value < math.inf:
        raise errors.ConfigError(f"{key} is {value!r}; it has to be a number above 0")


def check_dropout(value, key="reparam.dropout"):
    """Raises ConfigError unless `value` is in [0, 1)."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 <= value < 1:
        raise errors.ConfigError(f"{key} is {value!r}; a dropout rate is in [0, 1)")


def check_steps(value, key):
    """Raises ConfigError unless `value` is an integer of 0 or more."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
        raise errors.ConfigError(f"{key} is {value!r}; it has to be a number of steps, 0 or more")


def check_choice(value, choices, key):
    """Raises ConfigError unless `value` is one of `choices`."""
    if value not in choices:
        raise errors.ConfigError(f"{key} is {value!r}; {errors.suggest(value, choices)}")


def checked_rules(rules, check, key):
    """`rules` as a tuple of ``(regex, value)``, every value checked by ``check(value, key)``."""
    try:
        pairs = tuple((str(pattern), value) for pattern, value in rules)
    except (TypeError, ValueError) as error:
        raise errors.ConfigError(f"{key} is {rules!r}; it has to be a tuple of (regex, value)") from error
    for pattern, value in pairs:
        check(value, f"{key}[{pattern!r}]")
    return pairs


def check_used(rules, names, key):
    """Raises ConfigError if a pattern matches none of the targets: it would be ignored in silence."""
    for pattern, _ in rules:
        trees.matching(names, pattern, what=key)
