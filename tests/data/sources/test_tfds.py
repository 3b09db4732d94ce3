"""TFDS without TensorFlow: its own mock, and a small builder that is really prepared and read."""

import json
import sys

import numpy as np
import pytest

from lwt import errors
from lwt.data import sources, text, tokenizer
from lwt.data.batches import tokenized
from lwt.data.sources import tfds as lwt_tfds

tfds = pytest.importorskip("tensorflow_datasets")
from tensorflow_datasets.core import registered  # noqa: E402

PAIRS = {
    "train": [(f"zwei Straßen {i}", f"two streets {i}") for i in range(30)],
    "valid": [("ein Hund", "a dog")],
}

with registered.skip_registration():

    class ToyPairs(tfds.core.GeneratorBasedBuilder):
        """Pairs from JSON lines in the manual folder."""

        VERSION = tfds.core.Version("1.0.0")
        MANUAL_DOWNLOAD_INSTRUCTIONS = "Put train.jsonl and valid.jsonl there."

        def _info(self):
            features = {"de": tfds.features.Text(), "en": tfds.features.Text(), "label": tfds.features.Scalar(np.int64)}
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

        def _split_generators(self, dl_manager):
            return {split: self._generate_examples(dl_manager.manual_dir / f"{split}.jsonl") for split in PAIRS}

        def _generate_examples(self, path):
            for i, line in enumerate(path.read_text().splitlines()):
                yield i, json.loads(line)


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """The builder's files below TFDS_DATA_DIR, as another program would have left them."""
    manual = tmp_path / "manual"
    manual.mkdir()
    for split, pairs in PAIRS.items():
        lines = [json.dumps({"de": de, "en": en, "label": i}) for i, (de, en) in enumerate(pairs)]
        (manual / f"{split}.jsonl").write_text("\n".join(lines))
    builder = ToyPairs(data_dir=tmp_path / "tfds", file_format="array_record")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir=manual))
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))


def test_a_prepared_builder_is_read_by_index(prepared):
    assert sources.splits("tfds:toy_pairs") == ["train", "valid"] and sources.splits("tfds:toy_pairs@valid") == []
    source = sources.load("tfds:toy_pairs")
    assert len(source) == 30 and set(source.fields) == {"de", "en", "label"}
    found = {source[i]["label"]: (source[i]["de"], source[i]["en"]) for i in range(len(source))}
    assert found == dict(enumerate(PAIRS["train"]))
    assert source.read(3, 7) == [source[i] for i in range(3, 7)]
    assert type(source[0]["de"]) is str and type(source[0]["label"]) is int
    assert list(sources.load("tfds:toy_pairs@valid")) == [{"de": "ein Hund", "en": "a dog", "label": 0}]
    assert len(sources.load("tfds:toy_pairs@train[:10]")) == 10
    assert sources.load("tfds:toy_pairs@valid").fingerprint != source.fingerprint


def test_from_builder_to_ids(prepared, tmp_path):
    source = sources.load("tfds:toy_pairs", fields=("de", "en"))
    tokens = tokenizer.train([r[f] for r in source for f in ("de", "en")], tmp_path / "t.model", vocabulary=128)
    cleaner = text.Cleaner(lowercase=False)
    de, en = tokenized.tokenize(source, tokens, cleaner=cleaner, fields=("de", "en"), folders=(tmp_path,))
    assert tokens.decode([de[5], en[5]]) == [source[5]["de"], source[5]["en"]]


def test_wrong_split_and_field_of_a_prepared_builder(prepared, tmp_path):
    with pytest.raises(errors.DataError, match="no split 'test'; choose from train, valid"):
        sources.load("tfds:toy_pairs@test")
    with pytest.raises(errors.DataError, match="no field 'fr'; choose from de, en, label"):
        sources.load("tfds:toy_pairs", fields=("de", "fr"))
    source, tokens = sources.load("tfds:toy_pairs"), tokenizer.train(["x"] * 9, tmp_path / "t.model", vocabulary=100)
    with pytest.raises(errors.DataError, match="toy_pairs@train, record 0: field 'label' is not text"):
        tokenized.tokenize(source, tokens, cleaner=text.Cleaner(), fields=("label",), folders=(tmp_path,))


@pytest.mark.parametrize(
    "name, fields",
    [
        ("wmt17_translate/de-en", {"de", "en"}),
        ("glue/sst2", {"sentence", "label", "idx"}),
        ("imdb_reviews", {"text", "label"}),
        ("cifar10", {"image", "label", "id"}),
    ],
)
def test_real_builders_under_tfds_s_mock(tmp_path, monkeypatch, name, fields):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    with tfds.testing.mock_data(num_examples=4):
        source = sources.load(f"tfds:{name}")
        records = list(source)
    assert len(records) == 4 and set(source.fields) == fields
    named = {"glue/sst2": ("negative", "positive"), "imdb_reviews": ("neg", "pos"), "wmt17_translate/de-en": ()}
    assert source.classes == named.get(name, source.classes)
    assert all(type(record["label"]) is int for record in records if "label" in record)
    for field in fields & {"de", "en", "sentence", "text"}:
        assert all(isinstance(record[field], str) for record in records)
    if "image" in fields:
        assert records[0]["image"].shape == (32, 32, 3)


def test_without_network_the_way_out_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))

    def refused(*_, **__):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", refused)
    with pytest.raises(
        errors.DataError, match="glue/sst2 is not prepared in .*no route to host.*TFDS_DATA_DIR"
    ) as caught:
        sources.load("tfds:glue/sst2")
    assert "\n" not in str(caught.value)


def test_unknown_names(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    with pytest.raises(errors.DataError, match="did you mean 'wmt17_translate'"):
        sources.load("tfds:wmt17_translat/de-en")
    with pytest.raises(errors.DataError, match="tfds:wmt17_translate has no config 'en-de'; "):
        sources.load("tfds:wmt17_translate/en-de")
    for name, message in (
        ("mnist:9.9.9", "tfds:mnist:9.9.9: Dataset mnist cannot be loaded at version 9.9.9, only: "),
        ("glue/sst2:9.9.9", "cannot be loaded at version 9.9.9"),
        (
            "mnist:",
            "tfds:mnist:: Parsing builder name string mnist: failed.*the form is tfds:NAME/CONFIG:VERSION@SPLIT",
        ),
        ("..", "tfds:..: Parsing"),
    ):
        with pytest.raises(errors.DataError, match=message) as caught:
            sources.load(f"tfds:{name}")
        assert "\n" not in str(caught.value)


def test_a_config_that_is_not_named_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    with tfds.testing.mock_data(num_examples=4):
        assert "tfds:glue does not name a config: cola is read, of cola, sst2" in sources.load("tfds:glue").notes[0]
        assert not sources.load("tfds:glue/sst2").notes and not sources.load("tfds:cifar10").notes


def test_bytes_and_scalars_become_plain():
    assert lwt_tfds._plain(np.asarray(b"\xc3\xbc")) == "ü" and lwt_tfds._plain(b"\xff") == "\ufffd"
    assert "tensorflow" not in sys.modules
