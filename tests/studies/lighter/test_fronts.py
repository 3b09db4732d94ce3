"""Pareto fronts against the definition, and the rows of their points."""

import json
import random

import pytest

from lwt.inspect import measuring
from lwt.report import results
from studies.lighter import fronts


def point(name="a", *, quality=1.0, lower=False, **more):
    return measuring.Point(name, "seq2seq", "folder:x@test", "bleu", lower, quality, 1, **{"bytes": 1, **more})


@pytest.mark.parametrize("lower", (False, True))
@pytest.mark.parametrize("seed", range(5))
def test_front_is_what_nothing_dominates(seed, lower):
    draw = random.Random(seed)
    points = [point(str(i), quality=draw.randint(0, 9), lower=lower, bytes=draw.randint(1, 9)) for i in range(12)]

    def beats(p, q):
        better = (p.rank >= q.rank, p.bytes <= q.bytes)
        return all(better) and (p.rank, p.bytes) != (q.rank, q.bytes)

    wanted = {(p.quality, p.bytes) for p in points if not any(beats(q, p) for q in points)}
    found = fronts.front(points, "bytes")
    assert {(p.quality, p.bytes) for p in found} == wanted and len(found) == len(wanted)


def test_rows_hold_the_points():
    points = [point("a", milliseconds=2.5, rate=80.0), point("b, int8", lower=True, quality=0.25, bytes=12)]
    rows = fronts.rows(points, machine="m", seconds=1.0, command_line="c")
    for row in rows:
        results.check(row)
    assert fronts.points_of(json.loads(json.dumps(rows))) == points
