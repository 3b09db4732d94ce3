"""What --help of a study's program says: the docstring of the program, with two examples of it."""

import importlib
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "studies").rglob("*.py")
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_docstring_has_two_examples(name):
    said = importlib.import_module(name).__doc__
    command = re.escape(f"python -m {name.removesuffix('.__main__')}")
    assert len(re.findall(rf"^ {{4}}{command}( |$)", said, re.MULTILINE)) >= 2
    assert "see `study.py`" not in said.splitlines()[0]
