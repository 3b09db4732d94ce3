"""Makes the tables of BERT's WordPiece in C, from a ``tokenizer.json``: the image of every character, and the pieces.

BERT's normalizer and pre-tokenizer work character by character: a table holds what the `tokenizers` library makes of
each. Two neighbouring marks that take space (such as U+302E and U+302F) are not sorted, as normal form D would.
"""

import functools
import json
import sys

import numpy as np
import tokenizers

from lwt import errors
from lwt.export.c import tables

MARK = 0xFF  # begins pieces that continue a word, as in source/wordpiece.h
RISING, ALONE, SEQUENCE = 1 << 21, 1 << 22, 1 << 23
SPACE = ord(" ")
PREFIX = "##"
LONGEST_WORD = 1 << 10  # characters
BLOCK = 1 << 8  # characters that are looked at together
MOST_IDS = 1 << 16
HANGUL = range(0xAC00, 0xD7A4)
SURROGATES = range(0xD800, 0xE000)
PARTS = {"normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer", "model": "WordPiece"}


def of(tokenizer):
    """Makes the `tables.Tables` of a `lwt.data.hf_tokenizer.Tokenizer`; see `make`."""
    frame = tokenizer.frame
    around = frame.begin, frame.between, frame.end
    if [*map(len, around)] != [1, 1, 1] or frame.between != frame.end or frame.segments != (1, 2):
        raise _refuse(f"a row is {frame}; it must have one begin, the same one between and end, and two segments")
    return make(tokenizer.path.read_text(encoding="utf-8"), cls=frame.begin[0], sep=frame.end[0])


@functools.cache
def make(description, *, cls, sep):
    """Makes the `tables.Tables` of a tokenizer.

    Args:
        description: contents of a ``tokenizer.json``.
        cls, sep: ids at the start of a row, and after each text.

    Raises:
        lwt.errors.ConfigError: the C program does not support a part of the tokenizer.
    """
    parts = json.loads(description)
    _check(parts)
    model, added = parts["model"], _added(parts["added_tokens"])
    images = _images(json.dumps(parts["normalizer"]))
    pieces = _pieces(model["vocab"], images)
    alphabet = {c for piece in pieces for c in piece.removeprefix(PREFIX)}
    hangul = _divides_hangul(images, alphabet)
    simple = {n: _simple(n, image, alphabet) for n, image in images.items() if n > 127 and not (hangul and n in HANGUL)}
    ranges, targets, sequences = _ranges([(n, image) for n, image in simple.items() if image is not None])
    arrays, defines = tables.sorted_pieces({_symbols(piece): i for piece, i in pieces.items()}, start=np.uint32)
    arrays |= {
        "ascii": np.array([_ascii(images.get(number, (number,))) for number in range(128)], np.uint8),
        "ranges": ranges,
        "range_images": targets,
        "sequences": sequences,
        "added": np.array([byte for token in added for byte in (len(token), *token)], np.uint8),
        "added_ids": np.array([*added.values()], np.uint16),
    }
    defines |= {
        "ranges": len(ranges),
        "hangul": hangul,
        "added": len(added),
        "word": model["max_input_chars_per_word"],
        "unknown": model["vocab"][model["unk_token"]],
        "cls": cls,
        "sep": sep,
    }
    return tables.Tables("wordpiece", arrays, defines)


def _check(parts):
    for part, wanted in PARTS.items():
        found = (parts[part] or {}).get("type")
        if found != wanted:
            raise _refuse(f"{part} is {found or 'missing'}; it must be {wanted}")
    model, vocabulary = parts["model"], parts["model"]["vocab"]
    if model["continuing_subword_prefix"] != PREFIX:
        raise _refuse(f"continuing_subword_prefix is {model['continuing_subword_prefix']!r}; it must be {PREFIX!r}")
    if not 0 < model["max_input_chars_per_word"] <= LONGEST_WORD:
        raise _refuse(f"max_input_chars_per_word must be from 1 to {LONGEST_WORD:,}")
    if model["unk_token"] not in vocabulary:
        raise _refuse(f"the unknown token {model['unk_token']!r} is not in its vocabulary")
    if max(vocabulary.values()) >= MOST_IDS:
        raise _refuse(f"its largest id is {max(vocabulary.values()):,}; it must be below {MOST_IDS:,}")


def _refuse(what):
    return errors.ConfigError(f"tokenizer.json: {what} for the tokenizer in C")


def _added(tokens):
    """Tokens that are found in the text as it is, the longest first: ``{bytes: id}``."""
    for token in tokens:
        if token["normalized"] or token["single_word"]:
            raise _refuse(f"the added token {token['content']!r} must not be normalized or a single_word")
        if not 0 < len(token["content"].encode()) < 256:
            raise _refuse(f"the added token {token['content']!r} must have 1 to 255 bytes")
    found = {token["content"].encode(): token["id"] for token in tokens}
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


@functools.cache
def _images(normalizer):
    """``{number: image}`` of characters that do not become themselves within a word.

    An image is a tuple of numbers, with `ALONE` for a word of its own; `SPACE` separates words.
    """
    part = json.loads(normalizer)
    part.pop("type")
    normalize = tokenizers.normalizers.BertNormalizer(**part).normalize_str
    texts = {}
    for start in range(0, sys.maxunicode, BLOCK):
        numbers = [n for n in range(max(start, 1), start + BLOCK) if n not in SURROGATES]
        block = "".join(map(chr, numbers))
        normal = normalize(block)
        if normal != block or len(_words(block)) > 1:
            texts |= {n: normal and normalize(chr(n)) for n in numbers}
    items = _items(set("".join(texts.values())))
    images = {n: _image(text, items) for n, text in texts.items()}
    return {n: image for n, image in images.items() if image != (n,)}


def _words(text):
    return tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)


def _items(characters):
    """What BERT's pre-tokenizer makes of characters: their number, with `ALONE` for punctuation, or `SPACE`."""
    ordered = sorted(characters)
    alone, inside = set(), set()
    for _, (start, end) in _words("x" + "".join(f"{c}x" for c in ordered)):  # character i is at 2i + 1
        places = alone if end - start == 1 and start % 2 else inside
        places.update(range(start // 2, end // 2))
    return {c: ord(c) | ALONE if i in alone else ord(c) if i in inside else SPACE for i, c in enumerate(ordered)}


def _image(text, items):
    image = tuple(items[c] for c in text)
    if len(image) == 3 and image[0] == image[2] == SPACE:
        return (image[1] | ALONE,)
    return (SPACE,) if set(image) == {SPACE} else image


def _pieces(vocabulary, images):
    """The pieces ``{piece: id}`` that a word may contain."""
    items = {item for image in images.values() for item in image}

    def inside(c):
        return ord(c) not in images or ord(c) in items

    def reachable(piece):
        rest = piece.removeprefix(PREFIX)
        return len(piece) == 1 and ord(piece) | ALONE in items or rest != "" and all(map(inside, rest))

    return {piece: i for piece, i in vocabulary.items() if reachable(piece)}


def _simple(number, image, alphabet):
    """The image, or a simpler one if the word is unknown in any case; None: the character itself."""
    known = chr(number) in alphabet or all(chr(item & ~ALONE) in alphabet for item in image)  # () is known, too
    if known or SPACE in image or len(image) > 1 and max(image) >= ALONE:
        return image
    return (number | ALONE,) if image[0] >= ALONE else None


def _divides_hangul(images, alphabet):
    """Whether syllables are divided into parts, of which the vocabulary has some."""
    parts = {item for number in HANGUL for item in images.get(number, ())}
    return any(chr(item) in alphabet for item in parts)


def _ranges(known):
    """``(ranges, images of the ranges, sequences)``; see source/wordpiece.h."""
    ranges, targets, sequences, places = [], [], [], {}
    for start, length, image, rising in tables.runs(known):
        ranges.append(start << 11 | length - 1)
        if len(image) == 1:
            targets.append(image[0] | RISING * rising)
            continue
        if image not in places:
            places[image] = len(sequences)
            sequences += [len(image), *image]
        targets.append(SEQUENCE | places[image])
    return (np.array(numbers, np.uint32) for numbers in (ranges, targets, sequences))


def _ascii(image):
    """One byte; the image of an ASCII character is one or none."""
    return image[0] & 0x7F | 0x80 * (image[0] >= ALONE) if image else 0


def _symbols(piece):
    return (MARK, *piece.removeprefix(PREFIX).encode()) if piece.startswith(PREFIX) else tuple(piece.encode())
