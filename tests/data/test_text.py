"""Which cleaner a config asks for."""

import pytest

from lwt import errors
from lwt.data import cleaner, text


def test_the_steps_are_those_of_the_cleaner():
    assert text.Cleaner(lowercase=False).clean("<b>Ein</b>  Mann") == "Ein Mann"
    assert isinstance(text.Cleaner(), cleaner.Cleaner)


def test_wrong_settings_are_named():
    with pytest.raises(errors.ConfigError, match=r"data.clean.unicode 'NFCK'; did you mean"):
        text.Cleaner(unicode="NFCK")
    with pytest.raises(errors.ConfigError, match=r"data.clean.characters '\[a' is not a regular expression"):
        text.Cleaner(characters="[a")


def test_no_cleaner_takes_no_steps():
    off = dict(lowercase=False, unicode="", characters="")
    assert text.AsIs.of(off, where="t.json").clean(" <b> É") == " <b> É"
    with pytest.raises(errors.ConfigError, match="data.clean.lowercase=True must be False: t.json says how"):
        text.AsIs.of(off | {"lowercase": True}, where="t.json")
