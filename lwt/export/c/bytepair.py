"""Makes the tables of SentencePiece's byte pairs in C: the image of every character, and the pieces.

Cleaning works character by character: a table holds the output of `lwt.data.cleaner.Cleaner` for each character that
the vocabulary knows. All others are unknown, and a run of unknown characters is one token. Two rules depend on
neighbouring characters and are left out: the final form of the Greek sigma, and the composition of characters (the
parts of a Hangul syllable; a letter and an accent, if accents are not stripped).
"""

import functools
import itertools
import sys
import unicodedata

import numpy as np
import sentencepiece

from lwt import errors
from lwt.export.c import tables

MARK = "\u2581"  # starts a word
NONE, SPACE, UNKNOWN = 253, 254, 255  # as in source/bytepair.h
LONGEST = 16  # letters of a piece
BETWEEN = "qzxzq"  # letters around a character that leave its image unchanged: no accent joins a q
IGNORED = ("Cn", "Co", "Cs")  # unassigned, private, surrogates: always unknown


def of(tokenizer, cleaner, *, answers=False):
    """Makes the `tables.Tables` of a `lwt.data.tokenizer.Tokenizer`; see `make`."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer.path))
    pieces = tuple(model.id_to_piece(i) for i in range(tokenizer.pieces))
    return make(pieces, cleaner, first=tokenizer.first, answers=answers)


@functools.cache
def make(pieces, cleaner, *, first, answers=False):
    """Makes the `tables.Tables` of a vocabulary.

    Args:
        pieces: tuple of all pieces; the index is the id.
        cleaner: a `lwt.data.cleaner.Cleaner`.
        first: the first id that is not a special token.
        answers: whether ids have to become text again, as ``source/detokenize.c`` does it.

    Raises:
        lwt.errors.ConfigError: the C program does not support the cleaner or the pieces.
    """
    _check(pieces, cleaner, first)
    letters = {piece: i for i, piece in enumerate(pieces) if i >= first and len(piece) == 1}
    codes = {character: code for code, character in enumerate(sorted(letters))}
    ascii_codes, ranges, images, blob = _characters(cleaner, codes)
    longer = {tuple(codes[c] for c in piece): i for i, piece in enumerate(pieces) if i >= first and len(piece) > 1}
    arrays, defines = tables.sorted_pieces(longer)
    arrays |= {
        "ascii": ascii_codes,
        "ranges": ranges,
        "range_images": images,
        "images": blob,
        "letters": np.array([letters[c] for c in sorted(letters)], np.uint16),
    }
    if answers:
        arrays["characters"] = np.array([ord(c) for c in sorted(letters)], np.uint32)
    defines |= {"ranges": len(ranges), "space_mark": codes[MARK], "letters": len(letters)}
    return tables.Tables("bytepair", arrays, defines)


def _check(pieces, cleaner, first):
    for key, wanted in {"lowercase": True, "unicode": "NFKC", "characters": ""}.items():
        if getattr(cleaner, key) != wanted:
            raise errors.ConfigError(
                f"data.clean.{key}={getattr(cleaner, key)!r} must be {wanted!r} for the tokenizer in C"
            )
    characters = set("".join(pieces[first:]))
    missing = (characters | {MARK}) - set(pieces)
    if missing or len(characters) > NONE:
        raise errors.ConfigError(
            f"the tokenizer has {len(characters)} characters, of which {len(missing)} are not pieces; it must have at "
            f"most {NONE}, each of them a piece"
        )
    long = next((p for p in pieces[first:] if len(p) > LONGEST or MARK in p[1:]), None)
    if long is not None:
        raise errors.ConfigError(f"the tokenizer's piece {long!r} must be within a word, of at most {LONGEST} letters")


def _characters(cleaner, codes):
    """The images of characters: ``(codes of ASCII, ranges, images of the ranges, bytes of longer images)``."""
    ascii_images = [_image(cleaner.clean(f"x{chr(number)}x")[1:-1], codes) for number in range(128)]
    others = [chr(n) for n in range(128, sys.maxunicode + 1) if unicodedata.category(chr(n)) not in IGNORED]
    cleaned = cleaner.clean(BETWEEN.join(others)).split(BETWEEN)  # one call is 30 times as fast as one per character
    images = [(ord(character), _image(after, codes)) for character, after in zip(others, cleaned, strict=True)]
    blob, places, ranges, targets = bytearray(), {}, [], []
    for start, length, image, rising in tables.runs([(n, image) for n, image in images if image != (UNKNOWN,)]):
        if not rising and image not in places:
            places[image] = len(blob)
            blob += bytes([len(image), *image])
        ranges.append(start << 11 | length - 1)
        targets.append(0x8000 | image[0] if rising else places[image])
    ascii_codes = np.array([image[0] if image else NONE for image in ascii_images], np.uint8)
    return ascii_codes, np.array(ranges, np.uint32), np.array(targets, np.uint16), np.frombuffer(bytes(blob), np.uint8)


def _image(cleaned, codes):
    """The codes of a cleaned character inside a word; a run of unknown codes becomes one."""
    each = [SPACE if c == " " else codes.get(c, UNKNOWN) for c in cleaned]
    image = tuple(code for code, group in itertools.groupby(each) for code in ([code] if code == UNKNOWN else group))
    return (UNKNOWN,) if set(image) == {UNKNOWN} else image
