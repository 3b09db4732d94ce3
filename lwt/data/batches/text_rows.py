"""The rows of a text encoder: ``[CLS] a [SEP]``, or ``[CLS] a [SEP] b [SEP]`` for a pair of texts.

Segments are 1 up to the first [SEP], 2 after it, and 0 in the padding.
"""

import numpy as np

from lwt.data import tokenizer


def truncate(first, second, *, limit):
    """Shortens pairs of texts with ``first, second`` [n] tokens to `limit` together: the tokens left of each.

    The result is that of removing tokens one by one from the longer text, or from the second if both are equally long.
    """
    half = np.maximum(limit - second, -(-limit // 2))
    left = np.where(first + second > limit, np.minimum(first, half), first)
    return left, np.minimum(second, limit - left)


def assemble(sides, length):
    """``(ids, segments)``, each [n length] int32, with the special tokens.

    Args:
        sides: one or two of ``(values, start, size)``: text i of that side is ``values[start[i]:start[i] + size[i]]``.
        length: tokens of a row; all texts must fit.
    """
    count = len(sides[0][1])
    ids, segments = np.zeros((count, length), np.int32), np.zeros((count, length), np.int32)
    row, column = np.arange(count), np.arange(length)
    ids[:, 0] = tokenizer.CLS
    at = np.ones(count, np.int64)  # where the next text begins
    for number, (values, start, size) in enumerate(sides, start=1):
        begin = 0 if number == 1 else at[:, None]
        segments[(column >= begin) & (column <= (at + size)[:, None])] = number
        within = np.arange(size.sum()) - np.repeat(size.cumsum() - size, size)
        ids[np.repeat(row, size), np.repeat(at, size) + within] = values[np.repeat(start, size) + within]
        ids[row, at + size] = tokenizer.SEP
        at = at + size + 1
    return ids, segments
