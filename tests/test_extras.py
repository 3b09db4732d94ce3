"""A missing package is named with the extra that installs it, and every extra exists."""

import pathlib
import re
import sys

import pytest

from lwt import errors, extras

SETUP = (pathlib.Path(__file__).parents[1] / "setup.py").read_text()


def test_a_module_that_is_there_is_imported():
    assert extras.load("pyarrow.parquet", "a Parquet file") is sys.modules["pyarrow.parquet"]
    assert extras.available("numpy") and not extras.available("no_such_package")


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(extras.EXTRAS, "no_such_package", "data")
    words = r"a Parquet file needs no_such_package, which is not installed: pip install 'lwt\[data\]'$"
    with pytest.raises(errors.ConfigError, match=words):
        extras.load("no_such_package.parquet", "a Parquet file")


def test_a_package_that_fails_is_not_called_missing(monkeypatch, tmp_path):
    (tmp_path / "broken_package.py").write_text("raise RuntimeError('two builds')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(extras.EXTRAS, "broken_package", "onnx")
    words = r"needs broken_package, which fails \(two builds\): .*lwt\[onnx\]' && pip install --no-deps jax2onnx"
    with pytest.raises(errors.ConfigError, match=words):
        extras.load("broken_package", "this")


def test_setup_has_the_extras():
    there = re.findall(r'^        "(\w+)": ', SETUP[SETUP.index("extras_require") :], re.MULTILINE)
    assert {*extras.EXTRAS.values()} <= {*there}
    makefile = (pathlib.Path(__file__).parents[1] / "Makefile").read_text()
    assert all(package in makefile for package in extras.NO_DEPS.values())
