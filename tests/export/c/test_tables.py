"""Front-coded pieces can be read back, and ranges hold what they were made from."""

import itertools

import numpy as np
import pytest

from lwt import errors
from lwt.export.c import tables


def decoded(arrays, defines):
    """``{piece: id}`` of the arrays, as source/lookup.c reads them."""
    data, found, piece, at = arrays["pieces"].tolist(), {}, [], 0
    flags = np.unpackbits(arrays["piece_ids"], bitorder="little")
    for i in range(defines["pieces"]):
        if i % 16 == 0:
            assert arrays["starts"][i // 16] == at
        shared, others = data[at] >> 4, data[at] & 15
        at += 1
        if others == 15:
            others, at = others + data[at], at + 1
        piece, at = piece[:shared] + data[at : at + others], at + others
        bits = flags[i * defines["id_bits"] : (i + 1) * defines["id_bits"]]
        found[tuple(piece)] = int(bits @ (1 << np.arange(len(bits))))
    return found


def test_pieces_are_read_back():
    generator = np.random.default_rng(0)
    lengths = [*generator.integers(1, 6, 400), 14, 15, 16, 17, 40, 270]
    pieces = {tuple(generator.integers(0, 4, length).tolist()) for length in lengths}
    pieces |= {(3,) * n for n in (14, 15, 16, 17, 18, 60)}
    ids = {piece: 7 * i for i, piece in enumerate(pieces)}
    arrays, defines = tables.sorted_pieces(ids)
    assert decoded(arrays, defines) == ids and defines["longest"] == 270 and not defines["wide"]
    assert tables.sorted_pieces(ids, start=np.uint32)[1]["wide"]


def test_pieces_that_do_not_fit_are_refused():
    with pytest.raises(errors.ConfigError, match="a piece of 271 bytes; at most 270 fit"):
        tables.sorted_pieces({(1,) * 271: 0})
    many = dict.fromkeys(itertools.product(range(256), range(256), range(1)), 0)
    with pytest.raises(errors.ConfigError, match=r"take [\d,]+ bytes; at most 65,535 fit"):
        tables.sorted_pieces(many)


def test_ranges_of_the_same_and_of_rising_images():
    images = [(1, (5,)), (2, (5,)), (3, (6,)), (4, (7,)), (6, (8,)), (7, (1, 2)), (8, (1, 2)), (9, ())]
    assert tables.runs(images) == [
        *((1, 2, (5,), False), (3, 2, (6,), True), (6, 1, (8,), False), (7, 2, (1, 2), False), (9, 1, (), False))
    ]
