"""A set that is written in parts: interrupted, it goes on; damage is repaired or named; other settings are refused."""

import gzip
import json

import pytest

from lwt import errors
from lwt.compress import answered
from lwt.data import layout

SETTINGS = {"run": "runs/teacher", "records": 40}
RECORDS = [{"text": f"a{i}", "label": i % 3} for i in range(40)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(answered, "PART", 16)


def answer(start, stop):
    return RECORDS[start:stop]


def read(path):
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def test_an_interrupted_set_goes_on(tmp_path, caplog):
    caplog.set_level("INFO")
    asked = []

    def interrupted(start, stop):
        asked.append((start, stop))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return answer(start, stop)

    with pytest.raises(KeyboardInterrupt):
        answered.write(tmp_path / "set", SETTINGS, count=40, answer=interrupted)
    path, count = answered.write(tmp_path / "set", SETTINGS, count=40, answer=interrupted)
    assert asked == [(0, 16), (16, 32), (32, 40), (32, 40)]  # only the third part is repeated
    assert caplog.messages == [f"answered {count} of 40 records" for count in (16, 32, 40)]
    assert count == 40 and read(path) == RECORDS and not (tmp_path / "set" / answered.PARTS).exists()
    assert answered.write(tmp_path / "set", SETTINGS, count=40, answer=interrupted) == (path, 40) and len(asked) == 4
    with pytest.raises(errors.ConfigError, match="begun with records=40, not 30"):
        answered.write(tmp_path / "set", SETTINGS | {"records": 30}, count=30, answer=answer)


def test_the_seconds_and_machines_of_all_calls_are_kept(tmp_path, monkeypatch):
    clock = iter([0.0, 1.5, 10.0, 20.0, 20.25, 30.0, 31.0])  # begin and end of each part; the second one is interrupted
    monkeypatch.setattr(answered.time, "perf_counter", lambda: next(clock))
    machines = iter(["A, 1 core", "B, 2 cores", "B, 2 cores"])
    monkeypatch.setattr(answered.hardware, "describe", lambda: next(machines))

    def interrupted(start, stop):
        if start:
            raise KeyboardInterrupt
        return answer(start, stop)

    with pytest.raises(KeyboardInterrupt):
        answered.write(tmp_path, SETTINGS, count=40, answer=interrupted)
    answered.write(tmp_path, SETTINGS, count=40, answer=answer)
    kept = json.loads((tmp_path / answered.SETTINGS).read_text())
    assert kept == SETTINGS | {"seconds": 2.75, "hardware": ["A, 1 core", "B, 2 cores"]}
    assert list(layout.splits(tmp_path)[0]) == ["train"]


def test_records_may_be_left_out(tmp_path):
    path, count = answered.write(tmp_path / "set", SETTINGS, count=40, answer=lambda start, stop: RECORDS[start:stop:2])
    assert count == 20 and read(path) == RECORDS[::2]


def test_damage_is_repaired_or_named(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(answered.shutil, "rmtree", lambda *_, **__: None)  # the parts stay
    folder = tmp_path / "set"
    path, _ = answered.write(folder, SETTINGS, count=40, answer=answer)
    part = folder / answered.PARTS / "00000016"
    part.write_bytes(part.read_bytes().replace(b"1", b"2"))
    path.unlink()
    assert read(answered.write(folder, SETTINGS, count=40, answer=answer)[0]) == RECORDS
    assert "00000016 is damaged" in caplog.text and "answered again" in caplog.text

    whole = path.read_bytes()
    for damaged in (whole[:-20], whole[:100] + bytes([whole[100] ^ 1]) + whole[101:], b""):
        path.write_bytes(damaged)
        with pytest.raises(errors.DataError, match="train.jsonl.gz is damaged .*remove it"):
            answered.write(folder, SETTINGS, count=40, answer=answer)
    (folder / answered.SETTINGS).write_text("{")
    with pytest.raises(errors.DataError, match="origin.json is damaged"):
        answered.write(folder, SETTINGS, count=40, answer=answer)
