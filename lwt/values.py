"""What a value of a config key or a flag may be: one `Value` for each, checked where it is read.

A range never holds ``nan``, and an infinite number only where the range says so.
"""

import collections.abc
import dataclasses
import math
import numbers
import re

from lwt import errors


@dataclasses.dataclass(frozen=True)
class Value:
    """What one value may be.

    Attributes:
        check: ``(value) -> ""``, or what it should be, such as "at least 1".
    """

    check: collections.abc.Callable

    def require(self, key, value):
        """Raises `lwt.errors.ConfigError` unless `value` may be the value of `key`."""
        if wrong := self.check(value):
            shown = value.to_dict() if hasattr(value, "to_dict") else value  # a section of a config
            raise errors.ConfigError(f"{key}={shown!r} should be {wrong}")


def require(key, thing, **fields):
    """Raises `lwt.errors.ConfigError` for the first attribute of `thing` that is not a value of ``KEY.NAME``."""
    for name, value in fields.items():
        value.require(f"{key}.{name}", getattr(thing, name))


def named(flag, texts):
    """Parses the values ``NAME=FOLDER`` of a flag into ``{name: folder}``.

    Raises:
        lwt.errors.ConfigError: a value is not of this form, or a name is given twice.
    """
    found = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        if not (name and equals and folder):
            raise errors.ConfigError(f"--{flag}={text} must be NAME=FOLDER, such as sort=runs/sort")
        if name in found:
            raise errors.ConfigError(f"--{flag}={text}: {name!r} already names {found[name]}; choose another name")
        found[name] = folder
    return found


def whole(low=-math.inf, high=math.inf):
    """An integer within bounds, both included."""
    return Value(
        lambda value: (
            _range(value, low, high)
            if isinstance(value, numbers.Integral) and not isinstance(value, bool)
            else "an integer"
        )
    )


def real(low=-math.inf, high=math.inf, *, above=False, below=False):
    """A finite number within bounds; `above` excludes the lower one, `below` the upper one."""

    def check(value):
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            return "a number"
        return _range(value, low, high, above=above, below=below) or ("" if math.isfinite(value) else "finite")

    return Value(check)


def boolean():
    """True or False."""
    return Value(lambda value: "" if isinstance(value, bool) else "True or False")


def text(pattern=".*", says="a string"):
    """A string that matches a regex; `says` describes it."""
    return Value(lambda value: "" if isinstance(value, str) and re.fullmatch(pattern, value, re.DOTALL) else says)


def choice(*names):
    """One of some names."""
    return Value(lambda value: "" if value in names else "one of " + ", ".join(map(repr, names)))


def regex():
    """A regular expression."""

    def check(value):
        try:
            re.compile(value)
        except (re.error, TypeError) as error:
            return f"a regular expression ({error})"
        return ""

    return Value(check)


def every(value, *, length=None):
    """A tuple or list of values of one kind, of this length if it is given."""

    def check(items):
        if isinstance(items, str) or not isinstance(items, (tuple, list)):
            return "a tuple"
        if length is not None and len(items) != length:
            return f"a tuple of {length}"
        wrong = next((f"{item!r} should be {wrong}" for item in items if (wrong := value.check(item))), "")
        return f"a tuple whose items fit: {wrong}" if wrong else ""

    return Value(check)


def rules(value):
    """A tuple of rules ``(regex, value)``."""

    def check(rule):
        if not isinstance(rule, (tuple, list)) or len(rule) != 2:
            return "a pair (regex, value)"
        for part, wanted in zip(rule, (regex(), value), strict=True):
            if wrong := wanted.check(part):
                return f"a pair whose {part!r} is {wrong}"
        return ""

    return every(Value(check))


def either(*values):
    """A value that fits one of several descriptions."""

    def check(value):
        wrong = [one.check(value) for one in values]
        return "" if "" in wrong else ", or ".join(wrong)

    return Value(check)


def _range(value, low, high, *, above=False, below=False):
    """Describes the range of a number that lies outside it; "" if the number is inside."""
    if (low < value if above else low <= value) and (value < high if below else value <= high):
        return ""
    if math.isinf(low) and math.isinf(high):
        return "a number"
    if not (above or below or math.isinf(low) or math.isinf(high)):
        return f"from {low} to {high}"
    lower = "" if math.isinf(low) else f"above {low}" if above else "positive or 0" if low == 0 else f"at least {low}"
    upper = "" if math.isinf(high) else f"below {high}" if below else f"at most {high}"
    return " and ".join(filter(None, [lower, upper]))
