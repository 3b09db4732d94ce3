"""Text pairs: from a folder to packed rows and single ones, evaluation in the records' order, and predicting."""

import functools
import json

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest

from lwt import errors
from lwt.data.batches import bucketed, packed, pair_examples, sharding
from lwt.data.kinds import pairs
from lwt.models import seq2seq
from lwt.tasks import translate

WORDS = ("rome", "oslo", "bonn", "lima", "cairo", "paris", "tokyo", "quito")


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    (tmp_path / "a").mkdir()
    rng = np.random.default_rng(0)
    for split, count in (("train", 90), ("validation", 21)):
        records = [
            {"de": " ".join(rng.choice(WORDS, n)), "en": " ".join(rng.choice(WORDS, n)), "task": f"t{n % 2}"}
            for n in rng.integers(1, 12, count)
        ]
        text = "".join(json.dumps(record) + "\n" for record in records)
        (tmp_path / "a" / f"{split}.jsonl").write_text(text)

    def make(workdir="run", **other):
        section = {
            **{"train": "folder:a@train", "validation": "folder:a@validation", "test": "folder:a@validation"},
            **{
                "fields": ("de", "en"),
                "max_train_records": 0,
                "max_megabytes": 256.0,
                "max_malformed": 0.0,
                "clean": {},
            },
            **{"tokenizer": {"path": "", "vocabulary": 90, "split_digits": False}},
            **{"rows": 4, "row_length": 48, "target_row_length": 0},
            **{"min_tokens": 1, "max_tokens": 40, "packed": True, "eval_batch": 8},
        }
        return pairs.Pairs(ml_collections.ConfigDict(section | other), tmp_path / workdir)

    return make


@pytest.mark.parametrize("is_packed", [True, False])
def test_from_folder_to_training_batch(make, is_packed, caplog):
    caplog.set_level("INFO")
    data = make(packed=is_packed)
    batches = data.training()
    assert isinstance(batches, packed.PackedBatches if is_packed else bucketed.BucketedBatches)
    batch = next(batches)
    assert set(batch) == set(data.example()) == set(pair_examples.KEYS)
    assert batch["source_segments"].max(1).min() >= (2 if is_packed else 1)
    positions = 2 * (4 * 48 if is_packed else batches.measure()["positions"])
    assert data.positions == positions and "folder:a@train: " in caplog.text
    shares = [next(data.training(share=sharding.Share(p, 2))) for p in range(2)]
    np.testing.assert_array_equal(np.concatenate([share["inputs"] for share in shares]), batch["inputs"])


def test_shorter_rows_for_targets_leave_the_loss_of_an_epoch_as_it_is(make):
    """The loss is a sum over pairs; how they are put into rows does not matter."""
    model, sums = seq2seq.Seq2Seq(128, width=16, heads=2, hidden=16), []
    weights = model.init(jax.random.key(0), model.example())
    for length in (0, 24):
        options = dict(target_row_length=length, max_tokens=20)
        rows = make(**options).training().measure()["rows"]
        data = make(**options, rows=rows)
        batch = {key: jnp.asarray(array) for key, array in next(data.training()).items()}
        shapes = {key: array.shape for key, array in data.example().items()}
        assert {key: array.shape for key, array in batch.items()} == shapes
        assert shapes["source"] == (rows, 48) and shapes["targets"] == (rows, length or 48)
        assert data.positions == rows * (48 + (length or 48))
        apply = functools.partial(model.apply, weights)
        sums.append([float(x) for x in translate.Translate().loss(apply, batch, train=False)[:2]])
    assert sums[0] == pytest.approx(sums[1], rel=1e-5) and sums[0][1] > 90


def test_shorter_rows_for_targets_need_packed_rows(make):
    with pytest.raises(errors.ConfigError, match="target_row_length=24 is for packed rows; with data.packed=False"):
        make(target_row_length=24, packed=False)


def test_an_evaluation_is_in_the_order_of_the_records(make):
    data = make()
    found = data.evaluation(data.named("validation"))
    assert found.name == "folder:a@validation" and len(found.sources) == len(found.references) == 21
    assert set(found.groups) == {"t0", "t1"} and data.named("x") == "folder:a@x"
    for batch in data.batches(found):
        assert batch["source"].shape[0] == 8 and batch["source"].shape[1] % pairs.MULTIPLE == 0
        real = batch["example"] >= 0
        for name, texts in (("source", found.sources), ("targets", found.references)):
            decoded = data.tokenizer.decode(batch[name][real])
            assert decoded == [texts[i] for i in batch["example"][real]]
    assert len(data.evaluation("folder:a@validation", limit=5).sources) == 5
    with pytest.raises(errors.ConfigError, match="must be KIND:NAME@SPLIT"):
        data.evaluation("")


def test_a_set_without_a_split_is_not_the_training_set(make):
    data = make(validation="folder:a", test="folder:a")
    assert len(data.evaluation(data.named("validation")).sources) == 21
    with pytest.raises(errors.DataError, match="has no split 'test'; choose from train, validation"):
        data.evaluation(data.named("test"))


def test_what_is_taken_is_said_before_it_is_read(make):
    wanted = "train: folder:a@train (train.jsonl); validation: folder:a@validation (validation.jsonl); test: "
    assert make(test="").taken() == wanted + "none"
    missing = make(test="folder:a").taken()
    assert missing.startswith(wanted + "MISSING, ") and "has no split 'test'" in missing


@pytest.mark.parametrize("fields", [("source",), ("a", "b", "c"), ()])
def test_other_numbers_of_fields_are_refused(make, fields):
    with pytest.raises(errors.ConfigError, match="must name two fields"):
        make(fields=fields)


def test_texts_to_predict_have_no_target_unless_it_is_given(make):
    data = make()
    (batch,) = data.batches(data.from_texts(["rome oslo", "bonn"]))
    assert batch["example"].tolist() == [0, 1] + [-1] * 6 or batch["example"].tolist() == [1, 0] + [-1] * 6
    assert "targets" not in batch
    (batch,) = data.batches(data.from_texts(["rome"], ["oslo"]))
    assert data.tokenizer.decode(batch["targets"][:1]) == ["oslo"]


def test_few_texts_are_a_small_batch(make):
    data = make(eval_batch=64)
    data.training()  # makes the tokenizer
    for count, expected in ((1, 1), (2, 16), (16, 16), (17, 64), (65, 64)):
        records = data.from_texts(["rome oslo"] * count)
        batches = [*data.batches(records)]
        assert {len(batch["example"]) for batch in batches} == {expected}
        assert sorted(n for batch in batches for n in batch["example"] if n >= 0) == [*range(count)]
        (half, *_) = data.batches(records, share=sharding.Share(0, 2))
        assert len(half["example"]) == 32
    assert len(next(iter(make("run2", eval_batch=8).batches(data.from_texts(["rome"] * 9))))["example"]) == 8


def test_an_empty_name_of_data_is_an_error_that_names_its_key(make):
    data = make(test="")
    with pytest.raises(errors.ConfigError, match=r"empty, but must be KIND:NAME@SPLIT: data\.test$"):
        data.evaluation("")
