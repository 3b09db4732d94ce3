"""Flags of the benchmarks: checked values, one line for an error, and help with examples."""

import sys

import pytest

from benchmarks import common, integers, parsing, products, run
from benchmarks.lwt import vit


def parser():
    made = parsing.Parser("What it does.", examples=["python -m x", "python -m x --count=2"])
    made.add_argument("--count", type=parsing.whole(1), default=3, help="number of turns")
    made.add_argument("--share", type=parsing.real(0, 1), help="a share")
    made.add_argument("--only", type=parsing.pattern, default="", help="a regular expression")
    made.add_argument("--sizes", type=parsing.several(parsing.whole(1)), help="some sizes")
    made.add_argument("--shapes", type=parsing.several(parsing.product), help="some products")
    return made


def test_values_are_checked(capsys):
    given = parser().parse_args(["--count=2", "--share=0.5", "--only=^a", "--sizes=4,8", "--shapes=4x8x16,1x1x1"])
    assert given.shapes == [(4, 8, 16), (1, 1, 1)]
    assert (given.count, given.share, given.only, given.sizes) == (2, 0.5, "^a", [4, 8])
    wrong = {
        "--count=0": "'0' must be a whole number of at least 1",
        "--count=1.5": "whole number",
        "--count=²": "whole number",
        "--share=nan": "'nan' must be a number from 0 to 1",
        "--share=inf": "from 0 to 1",
        "--only=(": "'(' is not a regular expression",
        "--sizes=4,x": "'x' must be a whole number",
        "--shapes=4x4x4,4x4": "'4x4' must be three whole numbers",
        "--shapes=4x0x4": "'4x0x4' must be three whole numbers",
        "--counts=3": "unrecognized arguments: --counts=3",
        "--cou=3": "unrecognized arguments",
    }
    for argument, message in wrong.items():
        with pytest.raises(SystemExit) as ended:
            parser().parse_args([argument])
        said = capsys.readouterr().err
        assert ended.value.code == 2 and said.startswith("error: ") and message in said and said.count("\n") == 1
    with pytest.raises(SystemExit):
        parser().parse_args(["--count=1", "--count=2"])
    assert capsys.readouterr().err == "error: --count is given twice\n"


def worker():
    common.arguments(vit.__doc__, vit.VARIANTS)


@pytest.mark.parametrize(
    "main", [run.main, integers.main, products.main, worker], ids=["run", "integers", "products", "a worker"]
)
def test_help_says_what_a_program_does_with_its_flags_and_examples(main, monkeypatch, capsys):
    monkeypatch.setattr(common.memory, "tune", lambda: None)  # it would start the process anew
    monkeypatch.setattr(sys, "argv", ["x", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().out
    assert ended.value.code == 0 and said.split("examples:")[1].count("  python ") >= 2
    assert all(line.split(maxsplit=1)[1:] for line in said.splitlines() if line.startswith("  --"))


def test_help_shows_defaults(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["--help"])
    said = capsys.readouterr().out
    assert "number of turns (default: 3)" in said and "a share (default" not in said and "What it does." in said
