"""Cleaning of text as "Implementing Transformers" describes it; every step has a switch.

The paper normalises Unicode, removes URLs and HTML, lower-cases, and keeps alphanumerics and core punctuation. Text
encoders of the BERT family read lower-cased text without accents. A folder that answers without lwt holds a copy of
this file (`lwt/export/service`), so it imports nothing of lwt.
"""

import dataclasses
import functools
import html
import re
import unicodedata

import numpy as np

# Every text passes these expressions: each must take time linear in the text's length, whatever the text.
BLOCK = re.compile(r"<(?:((?a:script))\b|((?a:style))\b|!--)", re.IGNORECASE)  # dropped up to its end, if it has one
ENDS = {number: re.compile(rf"</(?a:{name})\s*>", re.IGNORECASE) for number, name in ((1, "script"), (2, "style"))}
ENDS[None] = re.compile("-->")
TAG = re.compile(r"</?[a-z!][^<>]*>", re.IGNORECASE)
NUMBER = re.compile("&#0*([0-9]+)")  # int() refuses very long numbers
URL = re.compile(r"\b(https?://|ftp://|www\.)(\S)(\S*)", re.IGNORECASE)
BEHIND_URL = ".,;:!?)]}\"'»"
# Invisible characters without meaning here: controls, soft hyphen, zero-width space, direction marks, byte-order mark.
INVISIBLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
MARKS = re.compile(r"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f]){30}")  # many characters that may be combining marks
FORMS = ("", "NFC", "NFD", "NFKC", "NFKD")


@dataclasses.dataclass(frozen=True)
class Cleaner:
    """``cleaner.clean(text) -> text``, without a check of the arguments: see `lwt.data.text.Cleaner`.

    Attributes:
        lowercase: lower-case everything.
        strip_accents: drop accents and other marks above and below letters, é -> e (ø and ß are letters, and stay).
        remove_urls: drop http, https, ftp and www addresses.
        remove_html: drop tags (and what is between script and style tags), and replace entities with their characters.
        unicode: the normal form; invisible characters are dropped too. "" leaves the text unchanged.
        characters: a regular expression of the characters to keep, such as ``[\\w\\s.,;:!?'()-]``; "" keeps all. Other
            characters become spaces.
    """

    lowercase: bool = True
    remove_urls: bool = True
    remove_html: bool = True
    unicode: str = "NFKC"
    characters: str = ""
    strip_accents: bool = False

    def clean(self, text):
        """Applies the steps that are switched on, then joins words with single spaces."""
        if self.remove_html and ("<" in text or "&" in text):
            text = html.unescape(NUMBER.sub(_short_number, _without_tags(text)))
        if self.remove_urls:
            text = URL.sub(_behind_url, text)
        if self.unicode:
            text = INVISIBLE.sub("", _normalized(self.unicode, text))
        if self.lowercase:
            text = text.lower()
        if self.strip_accents and not text.isascii():
            letters = (c for c in _normalized("NFD", text) if unicodedata.category(c) != "Mn")
            text = unicodedata.normalize(self.unicode or "NFC", "".join(letters))
        if self.characters:
            text = keep(self.characters).sub(lambda match: match["keep"] or " ", text)
        return " ".join(text.split())


def _without_tags(text):
    """`text` with a space in place of each tag, and of each comment, script and style sheet that ends."""
    parts, begin, at, endless = [], 0, 0, set()
    while block := BLOCK.search(text, at):
        at, kind = block.end(), block.lastindex
        end = None if kind in endless else ENDS[kind].search(text, at)
        if end:
            parts += TAG.sub(" ", text[begin : block.start()]), " "
            begin = at = end.end()
        else:
            endless.add(kind)  # no other block of this kind ends either
    return "".join(parts) + TAG.sub(" ", text[begin:])


def _short_number(match):
    return f"&#{match[1][:8]}"  # no character has more than seven digits


def _behind_url(match):
    """What stays of an address and the characters after it up to the next space: the punctuation at its end."""
    return " " + match[3][len(match[3].rstrip(BEHIND_URL)) :]


def _normalized(form, text):
    """`unicodedata.normalize` in linear time: that sorts marks by insertion, so long runs of them are sorted first."""
    if MARKS.search(text):
        parts = {c: unicodedata.normalize("NFKD" if "K" in form else "NFD", c) for c in set(text)}
        codes = np.frombuffer("".join(map(parts.get, text)).encode("utf-32-le", "surrogatepass"), np.uint32)
        kinds, kind = np.unique(codes, return_inverse=True)
        combining = np.array([unicodedata.combining(chr(code)) for code in kinds])[kind]
        order = np.lexsort((combining, np.cumsum(combining == 0)))  # stable, as the order of marks must be
        text = codes[order].tobytes().decode("utf-32-le", "surrogatepass")
    return unicodedata.normalize(form, text)


@functools.cache
def keep(characters):
    """The expression of what `characters` keeps, in the group "keep", or of another character."""
    return re.compile(f"(?P<keep>(?:{characters})+)|(?s:.)")
