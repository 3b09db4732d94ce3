"""The rows of a text encoder: ``[CLS] a [SEP]``, or ``[CLS] a [SEP] b [SEP]`` for a pair of texts.

The tokenizer's frame says which special tokens these are. Segments are 1 up to the first [SEP], 2 after it, and 0 in
the padding.
"""

import numpy as np


def truncate(first, second, *, limit):
    """Shortens pairs of texts with ``first, second`` [n] tokens to `limit` together: the tokens left of each.

    The result is that of removing tokens one by one from the longer text, or from the second if both are equally long.
    """
    half = np.maximum(limit - second, -(-limit // 2))
    left = np.where(first + second > limit, np.minimum(first, half), first)
    return left, np.minimum(second, limit - left)


def assemble(sides, length, *, frame):
    """``(ids, segments)``, each [n length] int32, with the special tokens.

    Args:
        sides: one or two of ``(values, start, size)``: text i of that side is ``values[start[i]:start[i] + size[i]]``.
        frame: the `frame.Frame` of the tokenizer.
        length: tokens of a row; all texts must fit.
    """
    count = len(sides[0][1])
    ids, segments = np.full((count, length), frame.pad, np.int32), np.zeros((count, length), np.int32)
    row, column = np.arange(count), np.arange(length)
    ids[:, : len(frame.begin)] = frame.begin
    begin, at = 0, np.full(count, len(frame.begin))  # where this part of the row and its text begin
    for number, (values, start, size) in enumerate(sides, start=1):
        within = np.arange(size.sum()) - np.repeat(size.cumsum() - size, size)
        ids[np.repeat(row, size), np.repeat(at, size) + within] = values[np.repeat(start, size) + within]
        at = at + size
        for special in frame.end if number == len(sides) else frame.between:
            ids[row, at] = special
            at = at + 1
        segments[(column >= begin) & (column < at[:, None])] = frame.segments[number - 1]
        begin = at[:, None]
    return ids, segments
