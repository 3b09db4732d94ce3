"""The flags of the program."""

import pytest

from lwt import errors
from lwt.demo import __main__ as program


def test_adapters_are_parsed():
    assert program.parse_adapters(["a=x", "b=y=z"]) == {"a": "x", "b": "y=z"}
    for values, message in ((["x"], "NAME=FOLDER"), (["=x"], "NAME=FOLDER"), (["a=x", "a=y"], "'a' already names x")):
        with pytest.raises(errors.ConfigError, match=message):
            program.parse_adapters(values)
