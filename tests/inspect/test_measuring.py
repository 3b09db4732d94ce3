"""Fronts against the definition, turns in order, and a page of runs that are trained here."""

import json
import os
import random

import pytest

from lwt import errors, trees
from lwt.compress import factorise
from lwt.export import quantize
from lwt.inspect import fronts, measuring
from lwt.machine import latency
from lwt.report import results
from lwt.runs import experiment
from lwt.training import train

pytestmark = pytest.mark.usefixtures("compiled_once")


def point(name="a", *, quality=1.0, lower=False, **more):
    return fronts.Point(name, "seq2seq", "folder:x@test", "bleu", lower, quality, 1, **{"bytes": 1, **more})


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


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    """A trained run, its factors as a run, its integers as a file, and a run that broke off."""
    root = tmp_path_factory.mktemp("runs")
    train.run(tiny({"steps": 2}), str(root / "mt-seed0"))
    opened = experiment.load(root / "mt-seed0")
    quantize.export(opened, root / "mt-seed0/export/int8.safetensors")
    factorise.factorise(opened, str(root / "mt-r2"), rank=2)
    path = root / "broken/config.json"
    path.parent.mkdir()
    os.symlink(root / "mt-seed0/checkpoints", root / "broken/checkpoints")
    kept = json.loads((root / "mt-seed0/config.json").read_text())
    path.write_text(json.dumps({**kept, "steps": 5}))
    return root


def test_runs_become_points(runs, monkeypatch, caplog):
    caplog.set_level("INFO", logger="lwt")
    found = {p.name: (p, opened) for p, opened in measuring.collect(measuring.find([f"{runs}/**"]))}
    assert set(found) == {"mt", "mt, int8", "mt-r2"}
    assert "broken stopped after step 2 of 5" in caplog.text
    plain, files, factors = (found[name][0] for name in ("mt", "mt, int8", "mt-r2"))
    assert plain.bytes == 4 * trees.count(found["mt"][1].weights)
    assert files.bytes == (runs / "mt-seed0/export/int8.safetensors").stat().st_size < 0.5 * plain.bytes
    assert factors.bytes == trees.nbytes(found["mt-r2"][1].weights) < plain.bytes
    assert (plain.made, factors.made) == ("seq2seq", "seq2seq, factorise")
    assert {(p.task, p.metric) for p, _ in found.values()} == {("generated:arithmetic,size=8@test", "exact_match")}

    monkeypatch.setattr(latency, "ALONE", 2)
    points = measuring.measure(list(found.values()), rounds=1)
    assert all(p.milliseconds > 0 and p.rate > 0 for p in points)
    text, pictures = measuring.page(points, str(runs / "page"), machine="m", command_line="c")
    assert f"| mt-r2 | seq2seq, factorise | {factors.quality:.4g} | 1 | {factors.bytes:,}" in text
    assert (runs / "page" / pictures[0]).stat().st_size > 10_000 and f"(page/{pictures[0]})" in text


def test_kept_figures_are_of_this_model(runs, tmp_path):
    opened = experiment.load(runs / "mt-seed0")
    opened.workdir = str(tmp_path)
    file, path = tmp_path / "int8.safetensors", tmp_path / "eval/any.json"
    path.parent.mkdir()
    file.touch()
    right = {"data": opened.test, "checkpoint": 2, "decoding": "greedy", "exact_match": 0.5}
    path.write_text(json.dumps(right))
    assert measuring.kept(opened) == right and measuring.quality(opened) == ("exact_match", False, 0.5)
    assert measuring.kept(opened, str(file)) is None  # these are the run's own
    for wrong in ({"checkpoint": 1}, {"data": "other"}, {"decoding": "beams"}, {"weights": "x"}):
        path.write_text(json.dumps(right | wrong))
        assert measuring.kept(opened) is None
    right["weights"] = file.name
    path.write_text(json.dumps(right))
    assert measuring.kept(opened, str(file)) == right and measuring.kept(opened) is None
    os.utime(file, (path.stat().st_mtime + 9,) * 2)  # the file was written anew
    assert measuring.kept(opened, str(file)) is None


def test_no_runs(tmp_path):
    with pytest.raises(errors.ConfigError, match="no folder of a run matches"):
        measuring.find([f"{tmp_path}/**"])
