"""Packing of pairs into rows, so that little of a batch is padding."""

import numpy as np


def pack(source, target, length):
    """Puts pairs into as few rows as it can; what lies in a row fits `length` on both sides.

    Best fit, the longest pairs first, for all pairs of the same two lengths at once: each goes into the open row
    with the least left over on both sides together. (On real pairs the side that fills up first is 97-99 % full.)

    Args:
        source, target: [pairs] int lengths, each in 1..length.
        length: tokens of a row, on either side.

    Returns:
        [pairs] the row of each pair; rows count from 0.
    """
    order = np.lexsort((source + target, np.maximum(source, target)))[::-1]
    source, target = source[order], target[order]
    new_kind = np.flatnonzero((np.diff(source) != 0) | (np.diff(target) != 0)) + 1
    bounds = [0, *new_kind.tolist(), len(order)]
    placed = np.empty(len(order), np.int64)  # the row of each pair, in sorted order
    open_rows, rows = _OpenRows(length), 0
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        if start == stop:
            continue
        s, t = int(source[start]), int(target[start])
        while start < stop and (left := open_rows.best(s, t)) is not None:
            taken = open_rows.take(left, stop - start)
            placed[start : start + len(taken)] = taken
            open_rows.add((left[0] - s, left[1] - t), taken)
            start += len(taken)
        if start < stop:  # no open row has room: new ones, each with as many of these as fit
            many = min(length // s, length // t)
            full, rest = divmod(stop - start, many)
            fresh = list(range(rows, rows + full + bool(rest)))
            placed[start:stop] = np.repeat(fresh, many)[: stop - start]
            open_rows.add((length - many * s, length - many * t), fresh[:full])
            open_rows.add((length - rest * s, length - rest * t), fresh[full:])
            rows += len(fresh)
    result = np.empty_like(placed)
    result[order] = placed
    return result


class _OpenRows:
    """Rows by what is left in them: ``(source, target) -> [row]``, and a table to find the best fit in."""

    def __init__(self, length):
        self.rows = {}
        self.closed = 4 * length
        self.cost = np.full((length + 1, length + 1), self.closed, np.int32)  # what is left, or `closed`

    def best(self, s, t):
        view = self.cost[s:, t:]
        at = divmod(int(view.argmin()), view.shape[1])
        return None if view[at] == self.closed else (at[0] + s, at[1] + t)

    def add(self, left, rows):
        if rows:
            self.rows.setdefault(left, []).extend(rows)
            self.cost[left] = left[0] + left[1]

    def take(self, left, count):
        rows = self.rows[left]
        taken = rows[-count:]
        del rows[-count:]
        if not rows:
            self.cost[left] = self.closed
        return taken
