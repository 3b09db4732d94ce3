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
CODES = {1: np.uint8, 2: np.uint16}  # types of codes by their bytes
MOST = {1: 253, 2: 1 << 15}  # characters that codes can stand for; the largest codes have other meanings
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
    size = 1 if len(codes) <= MOST[1] else 2
    ascii_codes, ranges, images, blob = _characters(cleaner, codes, dtype=CODES[size])
    longer = {
        b"".join(codes[c].to_bytes(size, "big") for c in piece): i
        for i, piece in enumerate(pieces)
        if i >= first and len(piece) > 1
    }
    arrays, defines = tables.sorted_pieces(longer, start=np.uint16 if size == 1 else np.uint32)
    arrays |= {
        "ascii": ascii_codes,
        "ranges": ranges,
        "range_images": images,
        "images": blob,
        "letters": np.array([letters[c] for c in sorted(letters)], np.uint16),
    }
    if answers:
        arrays["characters"] = np.array([ord(c) for c in sorted(letters)], np.uint32)
    defines |= {"ranges": len(ranges), "space_mark": codes[MARK], "letters": len(letters), "code_bytes": size}
    return tables.Tables("bytepair", arrays, defines)


def _check(pieces, cleaner, first):
    for key, wanted in {"lowercase": True, "unicode": "NFKC", "characters": ""}.items():
        if getattr(cleaner, key) != wanted:
            raise errors.ConfigError(
                f"data.clean.{key}={getattr(cleaner, key)!r} must be {wanted!r} for the tokenizer in C"
            )
    characters = set("".join(pieces[first:]))
    missing = (characters | {MARK}) - set(pieces)
    if missing or len(characters) > MOST[2]:
        raise errors.ConfigError(
            f"the tokenizer has {len(characters):,} characters, of which {len(missing)} are not pieces; the one in C "
            f"has at most {MOST[2]:,}, each of them a piece"
        )
    long = next((p for p in pieces[first:] if len(p) > LONGEST or MARK in p[1:]), None)
    if long is not None:
        raise errors.ConfigError(f"the tokenizer's piece {long!r} must be within a word, of at most {LONGEST} letters")


def _characters(cleaner, codes, *, dtype):
    """The images of characters: ``(codes of ASCII, ranges, images of the ranges, codes of longer images)``."""
    none, space, unknown = range(np.iinfo(dtype).max - 2, np.iinfo(dtype).max + 1)  # as in source/bytepair.h
    image_of = functools.partial(_image, codes=codes, space=space, unknown=unknown)
    ascii_images = [image_of(cleaner.clean(f"x{chr(number)}x")[1:-1]) for number in range(128)]
    others = [chr(n) for n in range(128, sys.maxunicode + 1) if unicodedata.category(chr(n)) not in IGNORED]
    cleaned = cleaner.clean(BETWEEN.join(others)).split(BETWEEN)  # one call is 30 times as fast as one per character
    images = [(ord(character), image_of(after)) for character, after in zip(others, cleaned, strict=True)]
    blob, places, ranges, targets = [], {}, [], []
    for start, length, image, rising in tables.runs([(n, image) for n, image in images if image != (unknown,)]):
        if not rising and image not in places:
            places[image] = len(blob)
            blob += [len(image), *image]
        ranges.append(start << 11 | length - 1)
        targets.append(0x8000 | image[0] if rising else places[image])
    if len(blob) >= 0x8000:
        raise errors.ConfigError(
            f"the images of the tokenizer's characters take {len(blob):,} codes; at most 32,767 fit"
        )
    ascii_codes = np.array([image[0] if image else none for image in ascii_images], dtype)
    return ascii_codes, np.array(ranges, np.uint32), np.array(targets, np.uint16), np.array(blob, dtype)


def _image(cleaned, *, codes, space, unknown):
    """The codes of a cleaned character inside a word; a run of unknown codes becomes one."""
    each = [space if c == " " else codes.get(c, unknown) for c in cleaned]
    image = tuple(code for code, group in itertools.groupby(each) for code in ([code] if code == unknown else group))
    return (unknown,) if set(image) == {unknown} else image
