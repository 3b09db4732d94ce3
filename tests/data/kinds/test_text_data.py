"""The tokenizer of a run: trained, copied from a path or from the run before, and refused where it is another one."""

import json

import ml_collections
import pytest

from lwt import errors
from lwt.data import tokenizer
from lwt.data.kinds import pairs


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    for name, words in (("a", "the weather in rome"), ("b", "quite another vocabulary")):
        (tmp_path / name).mkdir()
        records = [{"de": f"{words} {i}", "en": f"{words} {i * i}"} for i in range(60)]
        (tmp_path / name / "train.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))

    def make(workdir, name="a", *, path="", vocabulary=80, **options):
        section = {
            **{"train": f"folder:{name}@train", "validation": "", "test": "", "fields": ("de", "en"), "clean": {}},
            **{
                "max_train_records": 0,
                "max_megabytes": 256.0,
                "max_malformed": 0.0,
                "packed": True,
                "rows": 4,
                "row_length": 48,
                "target_row_length": 0,
            },
            **{"tokenizer": {"path": str(path), "vocabulary": vocabulary, "split_digits": False}},
        }
        return pairs.Pairs(ml_collections.ConfigDict(section), tmp_path / workdir, **options)

    return make


def test_a_tokenizer_is_trained_once(make, tmp_path):
    first = make("run")
    assert first.vocabulary % 64 == 0 and first.identity == {"tokenizer": first.tokenizer.fingerprint}
    (tmp_path / "a/train.jsonl").unlink()
    assert make("run").identity == first.identity


def test_a_tokenizer_is_copied_from_a_path_or_a_base(make, tmp_path):
    first = make("run")
    path = tmp_path / "run" / tokenizer.FILE
    assert make("second", "b", path=path).identity == first.identity
    assert make("third", "b", base=str(tmp_path / "run")).identity == first.identity
    other = make("other", "b")
    assert other.identity != first.identity
    with pytest.raises(errors.DataError, match="is not the tokenizer of .*run"):
        make("other", "b", base=str(tmp_path / "run"))


def test_without_make_the_tokenizer_must_be_there(make):
    with pytest.raises(errors.DataError, match="tokenizer .* cannot be read"):
        make("run", make=False)


def test_a_small_text_yields_fewer_pieces_and_says_so(make, caplog):
    caplog.set_level("INFO", "lwt")
    data = make("run", vocabulary=5000)
    (line,) = (line for line in caplog.records if "all that these texts yield" in line.getMessage())
    assert line.levelname == "INFO" and line.getMessage().startswith(f"its vocabulary has {data.tokenizer.pieces} ")
