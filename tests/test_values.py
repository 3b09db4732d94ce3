"""What a value may be: inside and outside of each range, and what a refusal says."""

import math

import pytest

from lwt import errors, values


@pytest.mark.parametrize(
    "value, right, wrong, says",
    [
        (values.whole(1), (1, 10**12), (0, -3), "at least 1"),
        (values.whole(1), (), (1.0, "1", None, True, math.nan), "an integer"),
        (values.whole(0, 9), (0, 9), (10,), "from 0 to 9"),
        (values.real(0), (0, 0.5, 3), (-0.1,), "positive or 0"),
        (values.real(), (-1e300, 0), (math.inf, -math.inf), "finite"),
        (values.real(), (), (math.nan,), "a number"),
        (values.real(0, 1, above=True, below=True), (0.5,), (0, 1, math.nan), "above 0 and below 1"),
        (values.boolean(), (True, False), (0, 1, "yes", None), "True or False"),
        (values.text(), ("", "a\nb"), (None, 3), "a string"),
        (values.choice("a", None), ("a", None), ("b", ""), "one of 'a', None"),
        (values.regex(), (".*", ""), ("(", 3), "a regular expression"),
        (values.every(values.whole()), ((), (1, 2), [3]), ("12", 3), "a tuple"),
        (values.every(values.whole(), length=2), ((1, 2),), ((1,),), "a tuple of 2"),
        (values.rules(values.real(0)), (((".*", 1),), [["a", 2.0]], ()), (((1, 2),), ((".*",),)), "a pair"),
        (values.either(values.text(), values.whole()), ("a", 3), (1.5,), "a string, or an integer"),
    ],
)
def test_values(value, right, wrong, says):
    for given in right:
        value.require("key", given)
    for given in wrong:
        with pytest.raises(errors.ConfigError) as caught:
            value.require("some.key", given)
        assert str(caught.value).startswith(f"some.key={given!r} should be ") and says in str(caught.value)


def test_named_folders():
    assert values.named("adapter", ["a=x", "b=y=z"]) == {"a": "x", "b": "y=z"}
    for texts, message in ((["x"], "NAME=FOLDER"), (["=x"], "NAME=FOLDER"), (["a=x", "a=y"], "'a' already names x")):
        with pytest.raises(errors.ConfigError, match=message):
            values.named("adapter", texts)
