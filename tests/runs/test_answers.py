"""Answers to a file: as many as there are texts, with probabilities, in the file's own format."""

import csv
import io
import json
import tracemalloc

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from lwt import errors
from lwt.runs import answers, config_file
from tests.configs import smoke

WORDS = "cold old bold warm long dark young slow great small".split()
TEXTS = [f"the {word} year was {word}er, {i}" for i, word in enumerate(WORDS * 3)]


@pytest.fixture(scope="module")
def run(untrained, tmp_path_factory, compiled_once):
    """An untrained BERT of three classes."""
    folder = tmp_path_factory.mktemp("labelled")
    rows = [{"text": text, "label": ("billing", "sales, etc", "text")[i % 3]} for i, text in enumerate(TEXTS * 3)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = smoke.encoder(f"embbert_finetune.py:model=bert_2mb,data=folder:{folder}")
    return untrained(config, tmp_path_factory.mktemp("run"))


def written(run, path, **wanted):
    """What `answers.write` prints."""
    said = io.StringIO()
    run.predict_file(path, output=said, wanted=answers.Wanted(**wanted))
    return said.getvalue()


def test_probabilities_are_those_of_the_logits(run):
    shares, (logits, _) = run.predict_proba(TEXTS), run.outputs(TEXTS)
    assert shares.dtype == np.float32 and shares.shape == (30, 3)
    wanted = np.exp(logits.astype(np.float64)) / np.exp(logits.astype(np.float64)).sum(1, keepdims=True)
    np.testing.assert_allclose(shares, wanted, atol=1e-7)
    assert [run.labels[i] for i in shares.argmax(1)] == run.predict(TEXTS)
    assert run.predict_proba([]).shape == (0, 3)


def test_a_table_comes_out_with_columns_added(run, tmp_path):
    rows = [{"id": str(i), "text": f'{text}, "so\nit is"', "note": ""} for i, text in enumerate(TEXTS)]
    with open(tmp_path / "x.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    shares = run.predict_proba([" ".join(row["text"].split()) for row in rows])
    bound = float(np.median(shares.max(1)))
    found = list(csv.DictReader(io.StringIO(written(run, tmp_path / "x.csv", scores=True, threshold=bound), "")))
    names = [f"score_{name}" for name in run.labels]
    assert [*found[0]] == ["id", "text", "note", "prediction", "score", "abstained", *names]
    assert [{key: row[key] for key in rows[0]} for row in found] == rows
    np.testing.assert_allclose([[float(row[name]) for name in names] for row in found], shares, atol=6e-7)
    kept = shares.max(1) >= bound
    assert 0 < kept.sum() < 30 and [row["abstained"] for row in found] == ["false" if keep else "true" for keep in kept]
    wanted = [run.labels[best] if keep else "" for best, keep in zip(shares.argmax(1), kept, strict=True)]
    assert [row["prediction"] for row in found] == wanted


def test_every_format_comes_out_as_it_went_in(run, tmp_path):
    records = [{"text": TEXTS[0], "score": 5}, {"text": TEXTS[1], "more": [1]}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    found = [json.loads(line) for line in written(run, tmp_path / "x.jsonl", threshold=1.0).splitlines()]
    assert [*found[0]] == ["text", "score", "prediction", "score_2", "abstained"] and found[0]["score"] == 5
    assert found[1]["prediction"] is None and found[1]["abstained"] is True and found[1]["more"] == [1]
    table = pyarrow.table({"text": TEXTS, "id": range(30)})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(errors.ConfigError, match="written to a file only; give --out=FILE.parquet"):
        written(run, tmp_path / "x.parquet", scores=True)
    run.predict_file(tmp_path / "x.parquet", out=tmp_path / "y.parquet")
    found = pyarrow.parquet.read_table(tmp_path / "y.parquet")
    assert found["id"].equals(table["id"]) and found["prediction"].to_pylist() == run.predict(TEXTS)


def test_lines_have_their_score_after_a_tab(run, tmp_path):
    (tmp_path / "x.txt").write_text("\n".join(TEXTS) + "\n")
    shares = run.predict_proba(TEXTS).max(1)
    pairs = [line.split("\t") for line in written(run, tmp_path / "x.txt", threshold=0).splitlines()]
    assert [answer for answer, _ in pairs] == run.predict(TEXTS)
    np.testing.assert_allclose([float(score) for _, score in pairs], shares, atol=6e-7)
    assert all(line.startswith("\t") for line in written(run, tmp_path / "x.txt", threshold=1).splitlines())
    run.predict_file(tmp_path / "x.txt", out=tmp_path / "y.txt")
    assert (tmp_path / "y.txt").read_text() == written(run, tmp_path / "x.txt")


def test_the_images_of_a_folder_have_their_paths_before_a_tab(untrained, tmp_path, compiled_once):
    for i in range(12):
        path = tmp_path / "set" / "xy"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), 20 * i, np.uint8)).save(path)
    config = config_file.load(f"{smoke.ROOT}/configs/vit.py:data=folder:{tmp_path}/set,smoke=true")
    run = untrained(config, tmp_path / "run")
    paths = sorted(map(str, (tmp_path / "set").rglob("*.png")))
    rows = [line.split("\t") for line in written(run, tmp_path / "set", scores=True).splitlines()]
    assert [row[:2] for row in rows] == [list(pair) for pair in zip(paths, run.predict(paths), strict=True)]
    assert written(run, paths[0]) == f"{run.predict(paths[:1])[0]}\n"


def test_empty_texts_are_counted(run, tmp_path, caplog):
    (tmp_path / "x.csv").write_text(f"id,text\n1,\n2,{WORDS[0]}\n3, \n")
    with caplog.at_level("WARNING"):
        assert written(run, tmp_path / "x.csv").count("\n") == 3
    assert caplog.messages == ["empty texts, whose answers mean nothing: 2"]


def test_what_cannot_be_answered_is_named(run, tmp_path):
    (tmp_path / "x.csv").write_text(f"text,a\n{TEXTS[0]!r},b,c\n")
    with pytest.raises(errors.DataError, match="x.csv:2: 4 cells instead of 2"):
        run.predict_file(tmp_path / "x.csv", out=tmp_path / "y.csv")
    assert not (tmp_path / "y.csv").exists()
    (tmp_path / "x.csv").write_text("text\n")
    with pytest.raises(errors.DataError, match="x.csv has no records"):
        written(run, tmp_path / "x.csv", scores=True)
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"text": "b", "score": 1}\n')
    with pytest.raises(errors.DataError, match="the first record has no field 'score' and a later one has"):
        written(run, tmp_path / "x.jsonl", scores=True)


def test_a_long_table_is_answered_in_chunks(run, tmp_path, monkeypatch):
    """Memory does not grow with the file; the model is a stub."""
    monkeypatch.setattr(run, "outputs", lambda texts: (np.zeros((len(texts), 3), np.float32), 0))
    peaks = {}
    for count in (4_000, 8_000):
        (tmp_path / "x.csv").write_text("text,more\n" + "".join(f"{i} of {count},{'x' * 1000}\n" for i in range(count)))
        tracemalloc.start()
        run.predict_file(tmp_path / "x.csv", out=tmp_path / "y.csv", wanted=answers.Wanted(scores=True))
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (tmp_path / "y.csv").read_text().count("\n") == count + 1
    assert peaks[8_000] - peaks[4_000] < 1e6


def test_a_task_without_probabilities_is_refused(tiny, untrained, tmp_path):
    translator = untrained(tiny(), tmp_path)
    (tmp_path / "x.csv").write_text("source\ncopy: 1 2\n")
    with pytest.raises(errors.ConfigError, match="task.name='translate' gives none"):
        written(translator, tmp_path / "x.csv", scores=True)
    with pytest.raises(errors.ConfigError, match="task.name='translate' gives no probabilities"):
        translator.predict_proba(["copy: 1 2"])
    translator.predict_file(tmp_path / "x.csv", out=tmp_path / "y.csv")
    header, line = (tmp_path / "y.csv").read_text().splitlines()
    assert header == "source,prediction" and line == f"copy: 1 2,{translator.predict(['copy: 1 2'])[0]}"
