"""The file of labels in a workdir: written once, read without data, and compared with the training data."""

import json
import pathlib
import subprocess
import sys

import ml_collections
import pytest

from lwt import errors, files
from lwt.data import labels
from lwt.data.kinds import common, labelled

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    (tmp_path / "a").mkdir()

    def write(split, names, count):
        records = [{"text": f"text {i}", "label": names[i % len(names)], "task": f"t{i % 3}"} for i in range(count)]
        (tmp_path / "a" / f"{split}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))

    def make(names=("x", "y"), **options):
        write("train", names, 40)
        write("test", ("x", "y"), 6)
        section = {
            **{"train": "folder:a", "validation": "", "test": "", "fields": (), "label": "label", "leak_free": False},
            **{
                "max_train_records": 0,
                "label_separator": "",
                "max_megabytes": 256.0,
                "max_malformed": 0.0,
                "clean": {},
                "cut": "end",
            },
            **{"tokenizer": {"path": "", "vocabulary": 60, "split_digits": False}},
            **{"rows": 4, "row_length": 32, "eval_batch": 8},
        }
        return labelled.Labelled(ml_collections.ConfigDict(section | options), tmp_path / "run")

    return make


def test_the_workdir_keeps_the_names_and_the_fields(make, tmp_path):
    assert make().outputs == 2
    content = json.loads((tmp_path / "run" / labels.FILE).read_text())
    assert content == {"names": ["x", "y"], "fields": ["text"]}
    found = {path.name for path in (tmp_path / "run").glob("[!.]*") if path.is_file()}
    assert found == {"tokenizer.model", "labels.json", "splits.json"} and found <= {*common.FILES}


def test_other_labels_than_those_of_the_file_are_refused(make, tmp_path):
    make()
    assert make().labels.names == ("x", "y")
    files.write_json(tmp_path / "run" / labels.FILE, {"names": ["x", "z"], "fields": ["text"]}, checked=True)
    with pytest.raises(
        errors.DataError, match="labels.json has other labels than folder:a@train.*; put back the labels"
    ):
        make().training()


def test_a_test_part_has_groups_and_a_limit_draws_records(make):
    data = make()
    found = data.evaluation(data.named("test"))
    assert found.groups == [f"t{i % 3}" for i in range(6)] and found.references.tolist() == [0, 1] * 3
    assert data.answers(found.references) == ["x", "y"] * 3 and len(data.evaluation("test", limit=4).sources) == 4


LOAD = """
import json, resource, sys
import ml_collections
from lwt.data.kinds import labelled

section, workdir = json.loads(sys.argv[1]), sys.argv[2]
next(labelled.Labelled(ml_collections.ConfigDict(section), workdir).training())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_memory_grows_by_less_than_400_bytes_a_record(make, tmp_path):
    """In a process of its own, since types are checked in this one."""
    section = make()._section.to_dict()
    section["tokenizer"]["path"] = str(tmp_path / "run/tokenizer.model")
    section |= {"validation": "folder:a@test", "test": "folder:a@test"}
    peaks = {}
    for count in (10_000, 110_000):
        words = "a text of about sixty letters, with the number"
        lines = (json.dumps({"text": f"{words} {i:012}", "label": "xy"[i % 2]}) for i in range(count))
        (tmp_path / f"{count}.jsonl").write_text("\n".join(lines))
        section["train"] = f"folder:{tmp_path}/{count}.jsonl"
        command = [sys.executable, "-c", LOAD, json.dumps(section), str(tmp_path / f"run {count}")]
        peaks[count] = int(subprocess.run(command, capture_output=True, check=True, text=True, cwd=ROOT).stdout)
    assert peaks[110_000] - peaks[10_000] < 400 * 100_000


def test_texts_that_are_cut_are_counted_when_training_starts(make, tmp_path, caplog):
    make().training()
    assert "are cut" not in caplog.text
    texts = ["text 1 " * (20 if i < 7 else 1) + f"{i}" for i in range(40)]
    lines = (json.dumps({"text": text, "label": "xy"[i % 2]}) for i, text in enumerate(texts))
    (tmp_path / "long.jsonl").write_text("\n".join(lines))
    (tmp_path / "run/splits.json").unlink()
    names = {"train": f"folder:{tmp_path}/long.jsonl", "validation": "folder:a@test", "test": "folder:a@test"}
    make(**names).training()
    assert "long.jsonl@train: texts longer than the 32 tokens of a row, which are cut: 7" in caplog.text


def test_fewer_training_records(make):
    assert len(make(max_train_records=12)._train_examples) == 12


def test_the_classes_that_a_source_declares_are_of_its_label_alone(make, tmp_path):
    (tmp_path / "a" / "labels.txt").write_text("p\nq\nr\n")
    assert make(label="task").labels.names == ("t0", "t1", "t2")


def test_other_data_are_evaluated_without_the_training_data(make, tmp_path):
    made = make()
    assert made.labels.names == ("x", "y")
    made.training()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "test.jsonl").rename(tmp_path / "b" / "test.jsonl")
    for path in (tmp_path / "a").iterdir():
        path.unlink()
    assert len(make().evaluation("folder:b@test").sources) == 6


def test_labels_are_part_of_what_a_checkpoint_must_agree_on(make, tmp_path):
    before = make().identity
    (tmp_path / "a" / "labels.txt").write_text("y\nx\n")
    (tmp_path / "run" / labels.FILE).unlink()
    assert {name for name, value in make().identity.items() if before[name] != value} == {"set of labels"}
