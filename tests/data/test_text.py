"""Cleaning, as a table."""

import pytest

from lwt import errors
from lwt.data import text


@pytest.mark.parametrize(
    "given, wanted",
    [
        ("  Ein \t Mann\n", "ein mann"),
        ("see https://a.b/c?d=1&amp;e=2, then go", "see , then go"),
        ("www.lwt.org!", "!"),
        ("(HTTP://A.B)", "( )"),
        ('<a href="http://x.y">Link</a> &amp; <br/>more', "link & more"),
        ("<script>var x = '<b>';</script>text<!-- note -->", "text"),
        ("a < b and c > d", "a < b and c > d"),
        ("&quot;Zitat&quot;", '"zitat"'),
        ("ﬁn Ⅷ １２ a\u00a0b", "fin viii 12 a b"),
        ("u\u0308ber Stra\u00adße\u200b\ufeff", "über straße"),
        ("\u0085\u2028x\u2029", "x"),
        ("GRÖSSE", "grösse"),
        ("", ""),
    ],
)
def test_everything_on(given, wanted):
    cleaner = text.Cleaner()
    assert cleaner.clean(given) == wanted
    assert cleaner.clean(wanted) == wanted


@pytest.mark.parametrize(
    "switch, given, wanted",
    [
        ({"lowercase": False}, "Ein Mann", "Ein Mann"),
        ({"remove_urls": False}, "www.a.b", "www.a.b"),
        ({"remove_html": False}, "<b>x</b> &amp;", "<b>x</b> &amp;"),
        ({"unicode": ""}, "ﬁn\u00ad", "ﬁn\u00ad"),
        ({"strip_accents": True}, "ÉTÉ À l'İle, Škoda ñ 한 søster straße", "ete a l'ile, skoda n 한 søster straße"),
        ({"strip_accents": True, "lowercase": False, "unicode": ""}, "Ge\u0301nie É", "Genie E"),
        ({"characters": r"[\w\s.,!?]"}, "rock*roll, 5 € “so”!", "rock roll, 5 so !"),
    ],
)
def test_switches(switch, given, wanted):
    assert text.Cleaner(**switch).clean(given) == wanted


def test_wrong_settings_are_named():
    with pytest.raises(errors.ConfigError, match=r"data.clean.unicode 'NFCK'; did you mean"):
        text.Cleaner(unicode="NFCK")
    with pytest.raises(errors.ConfigError, match=r"data.clean.characters '\[a' is not a regular expression"):
        text.Cleaner(characters="[a")
