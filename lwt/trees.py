"""Trees of weights as flat dicts ``{"encoder/layer_0/mlp/fc1/kernel": array}``, and back.

Rules, the split of trained from frozen weights, checkpoints and tables use these flat names. Only dicts are branches;
a structured weight such as ``linear.LowRank`` is a leaf, as an array is.
"""

import re

import flax.traverse_util
import jax
import numpy as np

from lwt import errors


def flatten(tree):
    """Flattens nested dicts to ``{"a/b/c": leaf}``, in the tree's own order."""
    return flax.traverse_util.flatten_dict(tree, sep="/")


def unflatten(flat):
    """Inverts `flatten`."""
    return flax.traverse_util.unflatten_dict(flat, sep="/")


def subtree(flat, prefix):
    """The entries of a flat dict below ``prefix/``, without the prefix."""
    prefix = prefix.rstrip("/") + "/"
    return {name[len(prefix) :]: value for name, value in flat.items() if name.startswith(prefix)}


def with_prefix(flat, prefix):
    """A flat dict with ``prefix/`` put before every name."""
    return {f"{prefix}/{name}": value for name, value in flat.items()}


def first_match(name, rules, *, what="rule"):
    """The value of the first ``(regex, value)`` whose regex matches the whole of `name`; one of them has to."""
    for pattern, value in rules:
        try:
            if re.fullmatch(pattern, name):
                return value
        except re.error as error:
            raise errors.ConfigError(f"{what} {pattern!r} is not a regular expression: {error}") from error
    raise errors.ConfigError(f"no {what} matches {name!r}; the rules are {[p for p, _ in rules]}; end with ('.*', ...)")


def require_effect(names, rules, *, what="rule"):
    """Raises `lwt.errors.ConfigError` for a rule that matches no name, or none that no earlier rule matches.

    A last rule for everything is never refused.
    """
    left = set(names)
    for number, (pattern, _) in enumerate(rules, start=1):
        if number == len(rules) and matches_everything(pattern):
            return
        found = matching(names, pattern, what=what)
        if not left & set(found):
            raise errors.ConfigError(
                f"{what} {pattern!r} has no effect: earlier rules match all its weights; put it before them"
            )
        left -= set(found)


def matches_everything(pattern):
    """Whether a regex matches any name, as ``.*`` does."""
    return pattern in (".*", ".+")


def matching(names, pattern, *, what="pattern"):
    """The names that `pattern` matches in full; it has to match one."""
    names = list(names)
    try:
        found = [name for name in names if re.fullmatch(pattern, name)]
    except re.error as error:
        raise errors.ConfigError(f"{what} {pattern!r} is not a regular expression: {error}") from error
    if not found:
        raise errors.ConfigError(f"{what} {pattern!r} matches no weight; {errors.suggest(pattern, names)}")
    return found


def split(flat, keep):
    """Splits a flat dict into ``(kept, rest)`` by the predicate ``keep(name)``."""
    kept = {name: value for name, value in flat.items() if keep(name)}
    rest = {name: value for name, value in flat.items() if name not in kept}
    return kept, rest


def count(tree):
    """The number of scalars in all arrays of a tree (arrays, or shapes from `jax.eval_shape`)."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))


def nbytes(tree):
    """The bytes of all arrays of a tree."""
    return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(tree) if hasattr(x, "dtype"))


def differences(wanted, found):
    """Describes how two flat trees differ in names and shapes; empty if they do not.

    Loading is strict: it never ignores a missing or unexpected name.
    """
    missing = [name for name in wanted if name not in found]
    unexpected = [name for name in found if name not in wanted]
    shapes = [
        f"{name}: {tuple(found[name].shape)} instead of {tuple(wanted[name].shape)}"
        for name in wanted
        if name in found and tuple(wanted[name].shape) != tuple(found[name].shape)
    ]
    parts = [
        f"{title}: {', '.join(items[:6])}{f' and {len(items) - 6} more' if len(items) > 6 else ''}"
        for title, items in (("missing", missing), ("unexpected", unexpected), ("other shapes", shapes))
        if items
    ]
    return "; ".join(parts)
