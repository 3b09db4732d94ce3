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


def test_models_are_called_what_people_call_them():
    names = (
        "tuned/snips-embbert-pretrained, int8",
        "small/images-recursive-r2",
        "runs/mine",
        "compression/svd-0.2/trained",
    )
    assert [fronts.spoken(name) for name in names] == ["EmbBERT, int8", "Vertical LoRA, rank 2", "mine", "svd 0.2"]
    said = fronts.names_of([point("a/mt"), point("b/mt"), point("x-embbert")])
    assert said == {"a/mt": "a/mt", "b/mt": "b/mt", "x-embbert": "EmbBERT"}


@pytest.mark.parametrize("count", (2, fronts.MANY + 1))
def test_pictures_name_the_best(count, tmp_path):
    points = [point(f"m{i}", quality=40 + i / 10, bytes=10**6 * (1 + i), milliseconds=1.0 + i) for i in range(count)]
    points.append(point("embbert", quality=42.0, bytes=5 * 10**5, milliseconds=0.5))
    drawn = fronts.draw(points, tmp_path / "x.png")
    assert drawn.get_suptitle() == "folder:x@test: BLEU 42.0 in 0.50 MB (EmbBERT)"
    if count > 2:
        assert [text.get_text() for text in drawn.axes[0].texts] == ["EmbBERT"]
    else:
        assert [bar.get_width() for bar in drawn.axes[1].patches] == [1, 2, 0.5]
