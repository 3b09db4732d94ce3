"""What the tables of both tokenizers in C share: ranges of characters, sorted pieces, packed ids."""

import dataclasses

import numpy as np

from lwt import errors
from lwt.export.c import literals

BLOCK = 16  # pieces, of which the first shares nothing
RANGE = 1 << 11  # characters of a range
NIBBLE = 15  # most shared symbols; 15 others or more: a further byte has the rest


@dataclasses.dataclass(frozen=True)
class Tables:
    """The tables of a tokenizer in C.

    Attributes:
        name: of its source files, whose header explains the tables.
        arrays: ``{name: array}``.
        defines: ``{name: number}``.
    """

    name: str
    arrays: dict
    defines: dict

    def source(self):
        """The C definitions."""
        return "".join(literals.array(f"lwt_{name}", values, part="tokenizer") for name, values in self.arrays.items())


def runs(images):
    """Ranges of characters with one image, or with images of one symbol that rises: ``(first, length, image, rising)``.

    Args:
        images: ascending ``(number of the character, tuple of symbols)``.
    """
    found = []
    for number, image in images:
        if found:
            start, length, first, rising = found[-1]
            follows = number == start + length and length < RANGE
            same, next_symbol = image == first, len(first) == len(image) == 1 and image[0] == first[0] + length
            if follows and (same and not rising or next_symbol and (rising or length == 1)):
                found[-1] = (start, length + 1, first, next_symbol and not same)
                continue
        found.append((number, 1, image, False))
    return found


def sorted_pieces(ids, *, start=np.uint16):
    """Sorts and front-codes pieces: the arrays "pieces", "starts" and "piece_ids", and their numbers.

    Args:
        ids: ``{piece: id}``; a piece is a tuple of symbols from 0 to 255.
        start: type of the places in "pieces".

    Raises:
        lwt.errors.ConfigError: the pieces take more bytes than `start` can count, or one of them is too long.
    """
    packed, starts, before = bytearray(), [], ()
    ordered = sorted(ids)
    for i, piece in enumerate(ordered):
        shared = 0
        if i % BLOCK == 0:
            starts.append(len(packed))
        else:
            shared = next((k for k, (a, b) in enumerate(zip(before, piece)) if a != b), min(len(before), len(piece)))
        shared = min(shared, NIBBLE)
        others = len(piece) - shared
        if others - NIBBLE > 255:
            raise errors.ConfigError(f"the tokenizer has a piece of {len(piece)} bytes; at most {255 + NIBBLE} fit")
        packed += bytes([shared << 4 | min(others, NIBBLE), *([others - NIBBLE] if others >= NIBBLE else [])])
        packed += bytes(piece[shared:])
        before = piece
    most = np.iinfo(start).max
    if len(packed) > most:
        raise errors.ConfigError(f"the tokenizer's pieces take {len(packed):,} bytes; at most {most:,} fit")
    bits = max(max(ids.values(), default=0), 1).bit_length()
    arrays = {
        "pieces": np.frombuffer(bytes(packed), np.uint8),
        "starts": np.array(starts, start),
        "piece_ids": _pack([ids[piece] for piece in ordered], bits),
    }
    longest = max(map(len, ordered), default=1)
    return arrays, {"pieces": len(ordered), "id_bits": bits, "longest": longest, "wide": start != np.uint16}


def _pack(ids, bits):
    """Packs numbers of `bits` bits, low bits first; two extra bytes, so that a reader can always read three."""
    flags = (np.array(ids, np.uint32)[:, None] >> np.arange(bits)) & 1
    return np.concatenate([np.packbits(flags.astype(np.uint8), bitorder="little"), np.zeros(2, np.uint8)])
