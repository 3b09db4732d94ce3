"""Cleaning of text as "Implementing Transformers" describes it; every step has a switch.

The paper normalises Unicode, removes URLs and HTML, lower-cases, and keeps alphanumerics and core punctuation. Text
encoders of the BERT family read lower-cased text without accents.
"""

import dataclasses
import functools
import html
import re
import unicodedata

from lwt import errors

TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|</?[a-z!][^<>]*>", re.IGNORECASE | re.DOTALL)
URL = re.compile(r"\b(?:https?://|ftp://|www\.)\S+?(?=[.,;:!?)\]}\"'»]*(?:\s|$))", re.IGNORECASE)
# Invisible characters without meaning here: controls, soft hyphen, zero-width space, direction marks, byte-order mark.
INVISIBLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
FORMS = ("", "NFC", "NFD", "NFKC", "NFKD")


@dataclasses.dataclass(frozen=True)
class Cleaner:
    """``cleaner.clean(text) -> text``; the arguments are the keys of ``config.data.clean``.

    Attributes:
        lowercase: lower-case everything.
        strip_accents: drop accents and other marks above and below letters, é -> e (ø and ß are letters, and stay).
        remove_urls: drop http, https, ftp and www addresses.
        remove_html: drop tags (and what is between script and style tags), and replace entities with their characters.
        unicode: the normal form; invisible characters are dropped too. "" leaves the text unchanged.
        characters: a regular expression of the characters to keep, such as ``[\\w\\s.,;:!?'()-]``; "" keeps all. Other
            characters become spaces.

    Raises:
        lwt.errors.ConfigError: the normal form is unknown, or `characters` is not a regular expression.
    """

    lowercase: bool = True
    remove_urls: bool = True
    remove_html: bool = True
    unicode: str = "NFKC"
    characters: str = ""
    strip_accents: bool = False

    def __post_init__(self):
        if self.unicode not in FORMS:
            raise errors.ConfigError(f"data.clean.unicode {self.unicode!r}; {errors.suggest(self.unicode, FORMS)}")
        try:
            _keep(self.characters)
        except re.error as error:
            raise errors.ConfigError(
                f"data.clean.characters {self.characters!r} is not a regular expression: {error}"
            ) from error

    def clean(self, text):
        """Applies the steps that are switched on, then joins words with single spaces."""
        if self.remove_html and ("<" in text or "&" in text):
            text = html.unescape(TAG.sub(" ", text))
        if self.remove_urls:
            text = URL.sub(" ", text)
        if self.unicode:
            text = INVISIBLE.sub("", unicodedata.normalize(self.unicode, text))
        if self.lowercase:
            text = text.lower()
        if self.strip_accents and not text.isascii():
            letters = (c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
            text = unicodedata.normalize(self.unicode or "NFC", "".join(letters))
        if self.characters:
            text = _keep(self.characters).sub(lambda match: match["keep"] or " ", text)
        return " ".join(text.split())


@functools.cache
def _keep(characters):
    return re.compile(f"(?P<keep>(?:{characters})+)|(?s:.)")
