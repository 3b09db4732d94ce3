"""Studies name config files from the root of the repository."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)
