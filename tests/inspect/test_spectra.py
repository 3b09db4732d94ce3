"""Figures of spectra that are known by hand, and the page of a run that changed what it started from."""

import csv
import json

import jax.numpy as jnp
import numpy as np

from lwt.inspect import spectra
from lwt.layers import linear


def test_figures_of_known_spectra():
    flat = spectra.figures(np.full(8, 3.0))
    assert flat["norm"] == np.sqrt(72) and flat["largest"] == 3 and flat["elbow"] is None
    np.testing.assert_allclose([flat["effective_rank"], flat["stable_rank"]], 8)
    assert (flat["rank_90"], flat["rank_99"]) == (8, 8)
    steep = spectra.figures(np.array([np.sqrt(98), 1.0, 1.0, 0.0]))  # 98 %, 1 %, 1 % and nothing of the energy
    assert (steep["rank_90"], steep["rank_99"], steep["elbow"]) == (1, 2, 1)
    np.testing.assert_allclose(steep["stable_rank"], 100 / 98)
    two = spectra.figures(np.array([1.0, 1.0, 0.0, 0.0]))
    np.testing.assert_allclose(two["effective_rank"], 2)


def test_the_update_of_an_adapter_has_its_rank():
    generator = np.random.default_rng(0)

    def draw(*shape):
        return jnp.asarray(generator.normal(size=shape), jnp.float32)

    base = {"layer_0/query/kernel": draw(9, 7), "layer_0/key/kernel": draw(9, 7), "layer_0/query/bias": draw(7)}
    a, b = draw(9, 2), draw(2, 7)
    adapted = {**base, "layer_0/query/kernel": linear.LowRank(base["layer_0/query/kernel"], a, b, jnp.float32(0.5))}
    found = spectra.of_updates(adapted, base)
    assert set(found) == {"layer_0/query/kernel"}
    expected = np.linalg.svd(0.5 * np.asarray(a @ b), compute_uv=False)
    np.testing.assert_allclose(found["layer_0/query/kernel"], expected, atol=1e-5)
    assert spectra.figures(found["layer_0/query/kernel"])["rank_99"] <= 2
    assert spectra.of_updates(base, base) == {}
    assert spectra.of_updates({"other/kernel": base["layer_0/key/kernel"]}, base) == {}


def test_the_page(tmp_path):
    weights = {f"encoder/layer_{i}/mlp/fc1/kernel": jnp.diag(jnp.array([4.0, 3.0, 0.0])) for i in range(2)}
    found = {"weights": spectra.of_weights(weights), "updates": {"encoder/layer_1/mlp/fc1/kernel": np.array([2.0, 0])}}
    assert spectra.kind("encoder/layer_1/mlp/fc1/kernel") == "encoder/mlp/fc1"
    about = {"workdir": "runs/x", "command_line": "c", "seconds": 1.0, "machine": "m"}
    assert sorted(spectra.write(tmp_path, found, **about)) == sorted(path.name for path in tmp_path.iterdir())
    page = (tmp_path / "README.md").read_text()
    assert "| encoder/mlp/fc1 | 2 | 5.000 | 4.000 |" in page and "| encoder/mlp/fc1 | 1 | 2.000 | 2.000 |" in page
    lines = list(csv.DictReader((tmp_path / "spectra.csv").open()))
    assert [line["of"] for line in lines] == ["weights", "weights", "updates"]
    assert float(lines[0]["stable_rank"]) == 25 / 16 and lines[0]["rank_90"] == "2"
    rows = json.loads((tmp_path / "results.json").read_text())
    assert {row["metric"]: row["value"] for row in rows if row["overrides"]["of"] == "updates"}["rank_90"] == 1
    assert "updates,encoder/layer_1/mlp/fc1/kernel,2,0" in (tmp_path / "singular_values.csv").read_text()
