"""Running text: from a text file to the batches of pre-training."""

import ml_collections
import numpy as np

from lwt.data.kinds import masked


def test_from_text_file_to_batch(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    (tmp_path / "books").mkdir()
    rng = np.random.default_rng(0)
    for split, books in (("train", 9), ("validation", 2)):
        lines = [" ".join(rng.choice(["Été", "rain", "sea", "wind", "cold"], rng.integers(2, 9))) for _ in range(90)]
        pages = ["\n".join(lines[i::books]) for i in range(books)]
        (tmp_path / "books" / f"{split}.txt").write_text("\n\n".join(pages), encoding="utf-8")
    section = {
        **{
            "train": "folder:books",
            "validation": "folder:books",
            "test": "",
            "max_train_records": 0,
            "max_malformed": 0.01,
            "max_megabytes": 256.0,
        },
        **{
            "clean": {"strip_accents": True},
            "masking": "code",
            "join": 0,
            "rows": 4,
            "row_length": 32,
            "eval_batch": 8,
        },
        **{"tokenizer": {"path": "", "vocabulary": 80, "split_digits": False}},
    }
    data = masked.Masked(ml_collections.ConfigDict(section), tmp_path / "run")
    batch, example = next(data.training()), data.example()
    kinds = {name: (array.dtype, array.shape[0], array.ndim) for name, array in batch.items()}
    assert kinds == {name: (array.dtype, array.shape[0], array.ndim) for name, array in example.items()}
    ids = batch["ids"].copy()
    for row, places, targets in zip(ids, batch["masked_positions"], batch["masked_targets"], strict=True):
        row[places[targets > 0]] = targets[targets > 0]
    words = set(" ".join(data.tokenizer.decode(ids)).split())
    assert words <= {"ete", "rain", "sea", "wind", "cold"} and len(words) > 3
    evaluation = data.evaluation("folder:books@validation")
    assert sum((part["example"] >= 0).sum() for part in data.batches(evaluation)) == 88
    assert len(evaluation.sources) == 88 and evaluation.references is None and data.named("x") == "folder:books@x"
    assert data.positions == data.training().measure()["positions"] > 0
