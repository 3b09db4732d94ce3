"""A translated training set holds the teacher's translations in order, also after an interruption."""

import gzip
import json

import pytest

from configs import common
from lwt import errors
from lwt.compress import answered, translate_set
from lwt.data import sources
from lwt.runs import experiment
from lwt.training import train
from tests.training import tiny

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("teacher")
    config = tiny.get_config().unlock()
    config.steps = 2
    train.run(config, workdir)
    return experiment.load(workdir)


def read(path):
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def test_an_interrupted_set_is_completed_and_trained_on(teacher, tmp_path, monkeypatch):
    monkeypatch.setattr(answered, "PART", 16)
    asked = []

    def predict(texts):
        asked.append(len(texts))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return [f"{text} !" if len(text) % 3 else " " for text in texts]

    monkeypatch.setattr(teacher, "predict", predict)
    with pytest.raises(KeyboardInterrupt):
        translate_set.write(teacher, tmp_path / "set", records=40)
    made = translate_set.write(teacher, tmp_path / "set", records=40)
    assert asked == [16, 16, 8, 8]  # only the third part is repeated

    source = sources.load(teacher.config.data.train, fields=("source", "target")).subset(40)
    texts = [record["source"] for record in source.read(0, 40)]
    wanted = [{"source": text, "target": f"{text} !"} for text in texts if len(text) % 3]
    assert read(made["file"]) == wanted and 0 < made["empty"] == 40 - made["records"] == 40 - len(wanted)
    assert translate_set.write(teacher, tmp_path / "set", records=40) == made and len(asked) == 4
    with pytest.raises(errors.ConfigError, match="begun with records=40, not 30"):
        translate_set.write(teacher, tmp_path / "set", records=30)

    config = common.of_run(teacher.workdir)
    config.data.train, config.steps = f"folder:{tmp_path}/set", 1
    assert train.run(config, tmp_path / "student")["loss"] > 0


def test_targets_are_the_teachers_translations(teacher, tmp_path):
    made = translate_set.write(teacher, tmp_path / "set", data=teacher.config.data.validation)
    source = sources.load(teacher.config.data.validation)
    texts = [record["source"] for record in source.read(0, len(source))]
    answers = dict(zip(texts, teacher.predict(texts), strict=True))
    assert [(r["source"], r["target"]) for r in read(made["file"])] == [(s, t) for s, t in answers.items() if t.strip()]
