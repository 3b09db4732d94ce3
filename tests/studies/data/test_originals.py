"""Data sets from their authors' files: records, splits and classes, and what is said when a file is missing."""

import gzip
import json
import subprocess
import sys

import pytest

from lwt import errors
from studies.data import __main__ as program
from studies.data import originals


def put(folder, files):
    """Writes ``{path: text}`` below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return folder


def test_pairs_are_read_in_order(tmp_path):
    files = {
        f"data/task1/raw/{name}.{language}.gz": f"{name} 1 {language}\n{name} 2\u2028 {language}\n"
        for name in ("train", "val", "test_2016_flickr", "test_2017_flickr")
        for language in ("de", "en")
    }
    found = originals.read("multi30k_de_en", put(tmp_path, files))
    assert list(found) == ["train", "validation", "test2016_flickr", "test2017_flickr"]
    assert found["validation"] == [{"de": f"val {i} de", "en": f"val {i} en"} for i in ("1", "2\u2028")]


def test_paragraphs_of_a_help_are_matched_by_their_ids(tmp_path):
    files = {}
    for i in range(100):
        german = (
            f'<h1 id="hd_id1">Titel</h1><p id="par_id2">Nur {i}:\n <b>fett</b> &amp; mehr</p><p id="par_id3">BASIC</p>'
        )
        english = f'<p id="par_id3">BASIC</p><p id="par_id2">Only {i}: bold &amp; more</p><h1 id="hd_id1">Title</h1>'
        files |= {f"de/text/{i}.html": german, f"en-US/text/{i}.html": english}
    files["de/text/alone.html"] = '<p id="par_id2">Ohne Seite</p>'
    found = originals.read("libreoffice_help_de_en", put(tmp_path, files))
    assert {split: len(pairs) for split, pairs in found.items()} == {"test": 3, "validation": 2, "train": 96}
    assert {"de": "Titel", "en": "Title"} in found["test"], "and, since it is there, in no other split"
    body = [pair for pairs in found.values() for pair in pairs if pair["de"] != "Titel"]
    assert len(body) == 100 and {"de": "Nur 7: fett & mehr", "en": "Only 7: bold & more"} in body


def test_a_help_without_pages_is_named(tmp_path):
    put(tmp_path, {"de/text/1.html": "", "en-US/text/2.html": ""})
    with pytest.raises(errors.DataError, match="no page of de/ in en-US/ .*libreoffice-help-de and -en-us"):
        originals.read("libreoffice_help_de_en", tmp_path)


def test_a_tenth_is_held_out_and_labels_become_numbers(tmp_path):
    rows = {str(i): {"sentence": f" sentence {i}", "motion": "yes" if i % 3 else "no"} for i in range(30)}
    found = originals.read(
        "limit", put(tmp_path, dict.fromkeys(("data/train.json", "data/test.json"), json.dumps(rows)))
    )
    assert {split: len(records) for split, records in found.items()} == {"train": 27, "validation": 3, "test": 30}
    held = {record["text"] for record in found["validation"]}
    assert held.isdisjoint(record["text"] for record in found["train"])
    for record in found["test"]:
        assert record["label"] == (int(record["text"].split()[1]) % 3 > 0)


def test_of_tweets_that_recur_the_first_is_kept(tmp_path):
    rows = [f'"tweet {i % 20},\x85 and more",{"age" if i < 20 else "gender"}\n' for i in range(40)]
    put(tmp_path, {"cyberbullying_tweets.csv": "tweet_text,cyberbullying_type\n" + "".join(rows)})
    found = originals.read("cyberbullying", tmp_path)
    assert [len(found[split]) for split in ("train", "validation", "test")] == [17, 1, 2]
    assert all(record["label"] == 0 and "\x85" in record["text"] for records in found.values() for record in records)


SCORES = "index\tsentence1\tsentence2\tscore\n" + "0\ta\tb\t2.5\n" * 10
PAIRS = "sentence1\tsentence2\tlabel\n" + "a\tb\tnot_entailment\n" * 10
REVIEWS = {f"{split}/neg/{i}_3.txt": f"bad {i}\n" for split in ("train", "test") for i in range(10)}
FEELINGS = {f"data/emotion/{name}.txt": "text;label_name\nso; sad;love\n" for name in ("train", "val", "test")}


@pytest.mark.parametrize(
    ("name", "files", "wanted"),
    [
        ("glue_cola", {"CoLA/train.tsv": "a\t1\t\tOne.\n" * 10, "CoLA/dev.tsv": "a\t0\t*\tOf two.\n"}, 0),
        ("glue_stsb", {"STS-B/train.tsv": SCORES, "STS-B/dev.tsv": SCORES}, 2.5),
        ("glue_rte", {"RTE/train.tsv": PAIRS, "RTE/dev.tsv": PAIRS}, 1),
        ("imdb_reviews", REVIEWS, 0),
        ("emotion", FEELINGS, 2),
    ],
)
def test_labels(tmp_path, name, files, wanted):
    found = originals.read(name, put(tmp_path, files))
    assert {record["label"] for record in found["test"]} == {wanted}


def test_the_program_writes_a_folder_and_compares_it(tmp_path):
    files = {
        f"data/snips/{split}/{file}": text
        for split in ("train", "valid", "test")
        for file, text in (("seq.in", "play  jazz \nrate it\n"), ("label", "PlayMusic\nRateBook\n"))
    }
    put(tmp_path / "theirs", files)
    command = [
        sys.executable,
        "-m",
        "studies.data",
        "--name=snips",
        f"--originals={tmp_path}/theirs",
        f"--out={tmp_path}/ours",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "snips: test.jsonl.gz differs" in done.stdout
    assert done.stderr.startswith("error: 1 of these data sets differ") and done.stderr.count("\n") == 1
    records = [json.loads(line) for line in gzip.open(tmp_path / "ours/train.jsonl.gz", "rt", encoding="utf-8")]
    assert sorted(record["text"] for record in records) == ["play jazz", "rate it"]
    own = {path.name: program.digest(path) for path in (tmp_path / "ours").iterdir()}
    assert program.differences(tmp_path / "ours", own) == []
    assert own["labels.txt"] == program.expected()["snips"]["labels.txt"]
    assert program.differences(tmp_path / "theirs", own | {"more": ""})[-1] == "more is missing"


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("snips", {}, "no .*seq.in: --originals should name a clone of github.com/MiuLab/SlotGated-SLU"),
        ("emotion", FEELINGS | {"data/emotion/val.txt": "x\nso;lovely\n"}, "label 'lovely'; did you mean"),
        ("glue_rte", {"RTE/train.tsv": PAIRS + "cut\n"}, "is not glue_rte as it was: zip"),
        ("imdb_reviews", {}, "has no neg"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, files, message):
    with pytest.raises(errors.DataError, match=message):
        originals.read(name, put(tmp_path, files))


def test_every_set_has_checksums_of_its_splits():
    for name, own in originals.SETS.items():
        files = program.expected()[name]
        assert any(file.endswith(".jsonl.gz") for file in files)
        assert ("labels.txt" in files) == bool(own.classes), name
