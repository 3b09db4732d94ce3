"""The page of the spectra of a run that changed what it started from."""

import csv

import jax.numpy as jnp
import numpy as np

from lwt.inspect import spectra
from lwt.report import results
from studies.inspection import spectra as spectra_page


def test_the_page(tmp_path):
    weights = {f"encoder/layer_{i}/mlp/fc1/kernel": jnp.diag(jnp.array([4.0, 3.0, 0.0])) for i in range(2)}
    found = {"weights": spectra.of_weights(weights), "updates": {"encoder/layer_1/mlp/fc1/kernel": np.array([2.0, 0])}}
    assert spectra_page.kind("encoder/layer_1/mlp/fc1/kernel") == "encoder/mlp/fc1"
    about = {"workdir": "runs/x", "command_line": "c", "seconds": 1.0, "machine": "m"}
    names = spectra_page.write(tmp_path, **spectra_page.facts_of(found), **about)
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    page = (tmp_path / "README.md").read_text()
    assert "| encoder/mlp/fc1 | 2 | 5.000 | 4.000 |" in page and "| encoder/mlp/fc1 | 1 | 2.000 | 2.000 |" in page
    lines = list(csv.DictReader((tmp_path / "spectra.csv").open()))
    assert [line["of"] for line in lines] == ["weights", "weights", "updates"]
    assert float(lines[0]["stable_rank"]) == 25 / 16 and lines[0]["rank_90"] == "2"
    rows = results.load(tmp_path / "results.json")
    assert {row["metric"]: row["value"] for row in rows if row["overrides"]["of"] == "updates"}["rank_90"] == 1
    assert "updates,encoder/layer_1/mlp/fc1/kernel,2,0" in (tmp_path / "singular_values.csv").read_text()
