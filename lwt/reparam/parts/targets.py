"""The targets of low-rank methods, the names and initial values of their leaves, and shared checks.

The leaves of an adapter are named after the weight they change: ``NAME/a``, ``NAME/b``, ...
"""

import dataclasses
import math
import numbers
import re

import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors, trees

ATTENTION = r".*attention/(query|key|value)/kernel"  # the targets of "Implementing Transformers", section 4.2
LABELS = {"a": "a", "b": "b", "a0": "constant", "b0": "constant"}  # by the last part of a leaf's name
LABELS |= dict.fromkeys(("magnitude", "scale", "values", "lambda_d", "lambda_b", "down_bias", "up_bias"), "vector")
LABELS |= dict.fromkeys(("w1", "w2", "rotation", "entries", "circulant", "down", "up"), "update")
LABELS |= {"sum": "state"}
SCALINGS = ("alpha/r", "rslora", "one")
_COUNT = {"what": "an integer of 1 or more", "least": 1, "integer": True}
_POSITIVE = {"what": "a number above 0", "least": math.ulp(0.0)}
_SHARE = {"what": "a share in [0, 1)", "below": 1}
_WHOLE = {"what": "an integer of 0 or more", "integer": True}
_STEPS = {"what": "a number of steps, 0 or more", "integer": True}
RANGES = {  # of the fields of methods, as `check_number` takes them
    **dict.fromkeys(("rank", "budget", "chunks", "period", "batches", "length"), _COUNT),
    **dict.fromkeys(("alpha", "scale", "bound"), _POSITIVE),
    **dict.fromkeys(("begin", "end", "every", "ramp"), _STEPS),
    **dict.fromkeys(("sparsity", "initial", "outliers"), _SHARE),
    **dict.fromkeys(("seed", "neumann", "block_size"), _WHOLE),
    **dict.fromkeys(("dropout", "factor_dropout"), {"what": "a dropout rate in [0, 1)", "below": 1}),
    **dict.fromkeys(("threshold", "orthogonality"), {"what": "a number, 0 or more"}),
    "factor": {"what": "a whole number of 1 or more, or -1", "least": -1, "integer": True},
    "block": {"what": "a number of weights, or 0: row-wise", "integer": True},
}


def checked_patterns(value, key="reparam.targets"):
    """Checks regular expressions from a config: a string stays one, a list becomes a tuple."""
    patterns = (value,) if isinstance(value, str) else value
    if not isinstance(patterns, (tuple, list)) or not all(isinstance(pattern, str) for pattern in patterns):
        raise errors.ConfigError(f"{key} is {value!r}; it has to be a regular expression or a list of them")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise errors.ConfigError(f"{key} {pattern!r} is not a regular expression: {error}") from error
    return value if isinstance(value, str) else tuple(value)


def in_module(path, patterns):
    """Whether a module's path matches: a string must match all of it, one of a tuple may match its last components.

    So ``("self_attention",)`` matches "encoder/layer_0/self_attention".
    """
    if isinstance(patterns, str):
        return re.fullmatch(patterns, path) is not None
    return any(re.fullmatch(f"(.*/)?({pattern})", path) for pattern in patterns)


def matching(names, patterns, *, key="reparam.targets"):
    """The weights among `names` that `patterns` match, in the order of `names`.

    A string is a regular expression for whole names. Each string of a tuple is an alternative: it matches whole names,
    or the last components of the path of the weight's module, as the words in PEFT's `target_modules` do. So
    ``("query", "value")`` matches "encoder/layer_0/self_attention/query/kernel", and not ".../query_norm/scale".

    Raises:
        lwt.errors.ConfigError: the string, or one of the alternatives, matches nothing.
    """
    if isinstance(patterns, str):
        return trees.matching(names, patterns, what=key)
    names, matched = list(names), set()
    for pattern in patterns:
        in_path = [name for name in names if in_module(name.rpartition("/")[0], (pattern,))]
        whole = [name for name in names if re.fullmatch(pattern, name)]
        matched.update(in_path + whole or trees.matching(names, pattern, what=key))
    return [name for name in names if name in matched]


def select(base, patterns, *, key="reparam.targets"):
    """The names of the matrices of `base` that `patterns` match, sorted; see `matching`.

    Sorted, because methods number their targets to draw random values, and jit and checkpoints reorder a dict.

    Raises:
        lwt.errors.ConfigError: a pattern matches nothing, or none matches a matrix.
    """
    names = matching(base, patterns, key=key)
    matrices = sorted(name for name in names if len(base[name].shape) == 2)
    if not matrices:
        first = f"; {names[0]!r} has the shape {tuple(base[names[0]].shape)}" if names else ""
        raise errors.ConfigError(f"{key} {patterns!r} matches no matrix{first}; a target is a 2-D kernel or table")
    return matrices


def matches(name, patterns):
    """Whether `matching` finds the one weight `name`."""
    if isinstance(patterns, str):
        return re.fullmatch(patterns, name) is not None
    return in_module(name.rpartition("/")[0], patterns) or any(re.fullmatch(pattern, name) for pattern in patterns)


def is_embedding(name):
    """Whether `name` is an embedding table: ``...embedding``, or a leaf directly below ``embed``."""
    return re.fullmatch(r"(.*/)?(\w*embedding|embed/\w+)", name) is not None


def check_size(rank, name, *, shape):
    """Raises ConfigError for a rank above ``in + out`` of the matrix `name`; above min(in, out) it adds nothing."""
    if rank > sum(shape):
        raise errors.ConfigError(
            f"reparam.rank is {rank} at {name!r} of shape {tuple(shape)}; no product of that shape has a rank above "
            f"{min(shape)}"
        )


def label(leaf):
    """The label of an adapter's leaf, such as ``NAME/a``, ``NAME/a0`` or ``NAME/magnitude``; see `LABELS`."""
    name, kind = leaf.rsplit("/", 1)
    return f"embedding_{kind}" if is_embedding(name) and kind in ("a", "b") else LABELS[kind]


def by_pattern(name, rules, *, default):
    """The value of the first ``(regex, value)`` whose regex matches the whole `name`, else `default`."""
    return next((value for pattern, value in rules if re.fullmatch(pattern, name)), default)


def factorised(adapter):
    """The names NAME of the leaves ``NAME/a``, in their order."""
    return [leaf.removesuffix("/a") for leaf in adapter if leaf.endswith("/a")]


def scale(scaling, *, alpha, rank):
    """The factor s of a low-rank product: "alpha/r" α/r, "rslora" α/√r, "one" 1."""
    return {"alpha/r": alpha / rank, "rslora": alpha / math.sqrt(rank), "one": 1.0}[scaling]


def kaiming_uniform(key, shape, *, fan_in):
    """PyTorch's Kaiming-uniform with a=√5, which is U(-1/√fan_in, 1/√fan_in)."""
    bound = 1 / math.sqrt(fan_in)
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def best_factors(w, rank):
    """The best factors of a rank: `a` `[in r]`, `b` `[r out]` of the truncated SVD of `w` (Eckart and Young 1936)."""
    return balanced(jnp.linalg.svd(w.astype(jnp.float32), full_matrices=False), slice(rank))


def balanced(decomposition, kept):
    """The factors `a` `[in r]` and `b` `[r out]` of r singular directions; both have the singular values √σ.

    Args:
        decomposition: left vectors `[in k]`, values `[k]` and right vectors `[k out]`, from NumPy or JAX.
        kept: a slice or indices.
    """
    left, values, right = decomposition
    root = (jnp if isinstance(values, jax.Array) else np).sqrt(values[kept])
    return left[:, kept] * root[None], root[:, None] * right[kept]


def ranked(ranks):
    """The keys ``targets`` and ``rank_pattern`` of a section for the weights of ``{name: rank}``."""
    names = {name: re.escape(name) for name in ranks}
    return {"targets": "|".join(names.values()), "rank_pattern": [[names[name], rank] for name, rank in ranks.items()]}


def check(reparam, **choices):
    """Checks the fields of a method from a config; lists become tuples, so that the dataclass can be hashed.

    Args:
        reparam: a frozen dataclass. Fields named as in `RANGES` have to be in range; ``targets``, ``fused`` and
            ``feedforward`` are patterns; ``rank_pattern`` and ``alpha_pattern`` are rules ``((regex, value), ...)``.
        choices: field -> the values it can have.

    Raises:
        lwt.errors.ConfigError: a value is outside its range; names the key.
    """
    for field in dataclasses.fields(reparam):
        name, value, key = field.name, getattr(reparam, field.name), f"reparam.{field.name}"
        if name in choices:
            check_choice(value, choices[name], key=key)
        elif name in RANGES:
            check_number(value, key, **RANGES[name])
        elif name in ("targets", "fused", "feedforward"):
            object.__setattr__(reparam, name, checked_patterns(value, key))
        elif name in ("rank_pattern", "alpha_pattern"):
            object.__setattr__(reparam, name, _checked_rules(value, RANGES[name.removesuffix("_pattern")], key))


def check_number(value, key, *, what, least=0.0, below=math.inf, integer=False):
    """Raises ConfigError unless ``least <= value < below``; `what` describes a valid value."""
    kind = numbers.Integral if integer else numbers.Real
    if not isinstance(value, kind) or isinstance(value, bool) or not least <= value < below:
        raise errors.ConfigError(f"{key} is {value!r}; it has to be {what}")


def check_choice(value, choices, *, key):
    """Raises ConfigError unless `value` is one of `choices`."""
    if value not in choices:
        raise errors.ConfigError(f"{key} is {value!r}; {errors.suggest(value, choices)}")


def check_used(rules, names, *, key):
    """Raises ConfigError if a pattern matches no target and so has no effect."""
    for pattern, _ in rules:
        trees.matching(names, pattern, what=key)


def _checked_rules(rules, valid, key):
    """`rules` as a tuple of ``(regex, value)``, all of them checked."""
    try:
        pairs = tuple((str(pattern), value) for pattern, value in rules)
    except (TypeError, ValueError) as error:
        raise errors.ConfigError(f"{key} is {rules!r}; it has to be a tuple of (regex, value)") from error
    for pattern, value in pairs:
        checked_patterns(pattern, key)
        check_number(value, f"{key}[{pattern!r}]", **valid)
    return pairs
