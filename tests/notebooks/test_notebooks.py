"""Every notebook runs from its first cell to its last: in smoke mode, two steps wherever it trains."""

import pathlib

import nbclient
import nbformat
import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch, cache):
    monkeypatch.setenv("LWT_SMOKE", "1")
    monkeypatch.setenv("LWT_RUNS", str(tmp_path))
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "made"))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", cache)
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")  # runs of a notebook share programs
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "cells are committed without their outputs"
    nbclient.NotebookClient(notebook, timeout=500, resources={"metadata": {"path": path.parent}}).execute()
    shown = [out.data for cell in notebook.cells for out in cell.get("outputs", []) if "data" in out]
    assert any("image/png" in data for data in shown)


def test_there_is_one_for_each_paper():
    papers = {path.stem for path in (ROOT / "docs" / "papers").glob("*.md") if not path.stem.endswith("_appendix")}
    assert {path.stem for path in NOTEBOOKS} == {"tour", *papers}
