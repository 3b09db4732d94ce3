"""A missing package is named with the extra that installs it, and every extra exists."""

import importlib.metadata
import pathlib
import re
import sys

import pytest

from lwt import errors, extras

SETUP = (pathlib.Path(__file__).parents[1] / "setup.py").read_text()


def test_a_module_that_is_there_is_imported():
    assert extras.load("pyarrow.parquet", "a Parquet file") is sys.modules["pyarrow.parquet"]
    assert extras.available("numpy") and not extras.available("no_such_package")


def pretend(monkeypatch, tmp_path, **installed):
    """One distribution lwt is found: the one of these files."""
    for file, content in installed.items():
        (tmp_path / file).write_text(content)
    there = [importlib.metadata.PathDistribution(tmp_path)] if installed else []
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: there)


def test_a_missing_package_is_named_with_its_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(extras.EXTRAS, "no_such_package", "data")
    pretend(monkeypatch, tmp_path, METADATA="Name: lwt\nProvides-Extra: data\n", INSTALLER="pip\n")
    words = r"a Parquet file needs no_such_package, which is not installed: pip install 'lwt\[data\]'$"
    with pytest.raises(errors.ConfigError, match=words):
        extras.load("no_such_package.parquet", "a Parquet file")


def test_a_package_that_fails_is_not_called_missing(monkeypatch, tmp_path):
    (tmp_path / "broken_package.py").write_text("raise RuntimeError('two builds')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(extras.EXTRAS, "broken_package", "onnx")
    words = r"needs broken_package, which fails \(two builds\): .*\[onnx\]' && pip install --no-deps jax2onnx"
    with pytest.raises(errors.ConfigError, match=words):
        extras.load("broken_package", "this")


@pytest.mark.parametrize(
    "installed",
    [
        {},
        dict(METADATA="Name: lwt\nSummary: another program of PyPI\n", INSTALLER="pip\n"),
        {"PKG-INFO": "Name: lwt\nProvides-Extra: data\n"},  # what a build leaves in the clone
    ],
)
def test_without_an_installed_lwt_the_command_is_that_of_a_clone(installed, monkeypatch, tmp_path):
    """The package lwt of PyPI is another program: no command may bring it."""
    pretend(monkeypatch, tmp_path, **installed)
    assert extras.install("data") == "pip install '.[data]'"


def test_setup_has_the_extras():
    there = re.findall(r'^        "(\w+)": ', SETUP[SETUP.index("extras_require") :], re.MULTILINE)
    assert {*extras.EXTRAS.values()} <= {*there}
    makefile = (pathlib.Path(__file__).parents[1] / "Makefile").read_text()
    assert all(package in makefile for package in extras.NO_DEPS.values())
