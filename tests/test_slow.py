"""Which tests `make test` leaves out: those that are slow, by name."""

import ast
import pathlib

from tests import slow

ROOT = pathlib.Path(__file__).parents[1]


def test_a_function_is_slow_if_its_tests_are_on_average():
    lines = """\
2.00s call     tests/test_a.py::test_one
0.60s setup    tests/test_a.py::test_one
2.00s call     tests/test_a.py::test_two[a b]
0.50s call     tests/test_a.py::test_two[c]
3 passed in 9.10s""".splitlines()
    assert slow.slow(lines) == ["tests/test_a.py::test_one"]


def test_every_slow_test_exists():
    names = (ROOT / "tests/slow.txt").read_text(encoding="utf-8").split()
    assert names == sorted(names) and len(names) > 100
    missing = []
    for name in names:
        file, _, function = name.partition("::")
        path = ROOT / file
        found = path.exists() and {
            n.name for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.FunctionDef)
        }
        if not found or function not in found:
            missing.append(name)
    assert missing == []  # renamed or removed: see tests/slow.py
