"""A labelled set holds the teacher's own records, and variants with its answers; a student trains on it."""

import gzip
import json
import pathlib

import pytest

from lwt import errors
from lwt.compress import label_set
from lwt.data import text_fields
from lwt.runs import config_file, experiment
from lwt.training import train
from tests.configs import smoke
from tests.training import tiny

pytestmark = pytest.mark.usefixtures("compiled_once")
ROOT = pathlib.Path(__file__).parents[2]
NAMES = "day", "night"
WORDS = "sun moon star rain snow wind leaf root tree bird".split()
FIELDS = {"one": ("text",), "two": ("premise", "hypothesis"), "number": ("sentence1", "sentence2")}


def folder_of(path, kind):
    """Writes train, validation and test records of a kind of `FIELDS`."""
    path.mkdir()
    labels = {"one": [0, 1], "two": [0, 1], "number": [0.5, 4.0]}[kind]
    for number, (part, count) in enumerate({"train": 40, "validation": 8, "test": 8}.items()):
        with open(path / f"{part}.jsonl", "w") as file:
            for i in range(count):
                words = [WORDS[(i * 7 + j * (i + number) + number) % 10] for j in range(4)]
                texts = {name: " ".join(words[j:]) for j, name in enumerate(FIELDS[kind])}
                file.write(json.dumps({**texts, "label": labels[i % 2]}) + "\n")
    if kind != "number":
        (path / "labels.txt").write_text("".join(f"{name}\n" for name in NAMES))
    return path


def teacher_of(path, kind):
    """A tiny encoder after two steps on the records of `folder_of`."""
    data = folder_of(path / "data", kind)
    return trained(path / "run", kind, f"data=folder:{data}")


def trained(workdir, kind, arguments):
    """The run of a tiny encoder after two steps."""
    config = smoke.encoder(f"embbert_finetune.py:model=bert_2mb,{arguments}")
    if kind == "number":
        config.task.name, config.select = "regress", "spearman"
    train.run(config, str(workdir))
    return experiment.load(str(workdir))


def read(path):
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize("kind", FIELDS)
def test_the_teacher_labels_what_is_new(tmp_path, kind):
    teacher, fields = teacher_of(tmp_path, kind), FIELDS[kind]
    made = label_set.write(teacher, tmp_path / "set", records=60)
    found = read(made["file"])
    assert len(found) == made["records"] == made["own"] + made["variants"] and made["variants"] > 20
    own = [json.loads(line) for line in (tmp_path / "data/train.jsonl").read_text().splitlines()]
    named = [{**record, "label": record["label"] if kind == "number" else NAMES[record["label"]]} for record in own]
    assert found[: made["own"]] == named
    new = found[made["own"] :]
    answers = teacher.predict(["\t".join(record[field] for field in fields) for record in new])
    assert [record["label"] for record in new] == ([*map(float, answers)] if kind == "number" else answers)
    keys = {text_fields.key(record[field] for field in fields) for record in new}
    for part in ("validation", "test"):
        held = [json.loads(line) for line in (tmp_path / f"data/{part}.jsonl").read_text().splitlines()]
        assert not keys & {text_fields.key(record[field] for field in fields) for record in held}
    assert label_set.write(teacher, tmp_path / "set", records=60) == made
    with pytest.raises(errors.ConfigError, match="begun with seed=0, not 1"):
        label_set.write(teacher, tmp_path / "set", records=60, seed=1)

    given = f"data=folder:{tmp_path}/data,added={tmp_path}/set,leak_free=true"
    student = trained(tmp_path / "student", kind, given)
    assert student.data.labels == teacher.data.labels
    counts = {name: len(source) for name, source in label_set._of(student.data.splits)}
    assert counts["train"] > 40 and [*counts.values()][1:] == [8, 8]


def test_mnli_keeps_both_of_its_tests():
    config = config_file.load(f"{ROOT}/configs/embbert_finetune.py:task=mnli,added=sets/mnli")
    data = "folder:glue_mnli"
    assert config.data.train == "folder:sets/mnli@train" and config.data.validation == f"{data}@validation"
    assert tuple(config.data.test) == (f"{data}@test_matched", f"{data}@test_mismatched")


@pytest.mark.parametrize("given", ["splits=code", "data=folder:intents@train"])
def test_it_goes_with_the_splits_of_the_data(given):
    with pytest.raises(errors.ConfigError, match="added=sets/snips goes with splits=own"):
        config_file.load(f"{ROOT}/configs/embbert_finetune.py:{given},added=sets/snips")


def test_a_translator_cannot_label(tmp_path):
    config = tiny.get_config().unlock()
    config.steps = 1
    train.run(config, tmp_path / "run")
    with pytest.raises(errors.ConfigError, match="task.name='translate' must give texts one class or one number each"):
        label_set.write(experiment.load(tmp_path / "run"), tmp_path / "set", records=3)
