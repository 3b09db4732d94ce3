"""Pairs of texts, and regression."""

import json

import numpy as np
import pytest

from lwt.data import labels
from lwt.export.c import reference, weights

PAIRS = [
    ("a cold old one", "bold warm"),
    ("", "x2"),
    ("long dark young slow great small " * 8, "cold"),
    ("cold", "long dark young slow great small " * 8),
    ("long dark young slow " * 8, "great small £5 cold bold " * 8),
]


@pytest.mark.parametrize(("cut", "pool"), [("end", "rms"), ("middle", "rms"), ("middle", "pair")])
def test_pairs_and_regression(cut, pool, variant, program, tmp_path):
    experiment = variant("embedder", outputs=1, pool=pool, kernel_size=3, segments=2, ngram_weights=99)
    experiment.workdir, experiment.labels = str(tmp_path), ()
    with experiment.config.unlocked():
        experiment.config.data.cut = cut
    (tmp_path / labels.FILE).write_text(json.dumps({"names": [], "fields": ["a", "b"]}))
    answer = program(experiment, "fp16")
    lines = ["\t".join(pair) + "\n" for pair in PAIRS]
    rows = [reference.row(experiment, pair) for pair in PAIRS]
    assert [list(map(int, line.split())) for line in answer(lines, "--ids")] == [ids.tolist() for ids, _ in rows]
    assert {len(ids) for ids, _ in rows} >= {24} and all(segments.max() == 2 for _, segments in rows)
    wanted = reference.logits(experiment, weights.of(experiment)[0], records=PAIRS)[:, 0]
    found = np.array(list(map(float, answer(lines))))
    np.testing.assert_allclose(found, wanted, rtol=0.002, atol=0.002 * np.abs(wanted).max())
