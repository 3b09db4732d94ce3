"""The flags of all programs: numbers have bounds, and what a program would misread is refused."""

import ast
import pathlib

import pytest
from absl import flags

from lwt import errors
from lwt.machine import command_line

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = [*ROOT.glob("*.py"), *(path for room in ("lwt", "studies") for path in sorted((ROOT / room).rglob("*.py")))]


def test_every_number_has_a_lower_bound():
    unbounded = []
    for path in PROGRAMS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("DEFINE_integer", "DEFINE_float"):
                if "lower_bound" not in {keyword.arg for keyword in node.keywords}:
                    unbounded.append(f"{path.relative_to(ROOT)}: --{node.args[0].value}")
    assert unbounded == []


@pytest.fixture
def parse(monkeypatch):
    """``parse(*arguments)`` with flags of our own."""
    own = flags.FlagValues()
    monkeypatch.setattr(command_line.flags, "FLAGS", own)
    flags.DEFINE_float("temperature", 1.0, "", lower_bound=0, flag_values=own)
    flags.DEFINE_multi_string("adapter", [], "", flag_values=own)

    def parse(*arguments):
        monkeypatch.setattr("sys.argv", ["program", *arguments])
        own.unparse_flags()
        command_line.check_flags(own(["program", *arguments])[1:])

    return parse


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--temperature=inf"], "--temperature=inf should be a finite number"),
        (["--temperature=nan"], "--temperature=nan should be a finite number"),
        (["--temperature=1", "--temperature=2"], "--temperature is given twice"),
        (["rest"], "unexpected argument 'rest'"),
    ],
)
def test_a_flag_that_would_be_misread_is_refused(parse, arguments, words):
    with pytest.raises(errors.ConfigError, match=words):
        parse(*arguments)


def test_right_flags_pass(parse):
    parse("--temperature=0.5", "--adapter=a=x", "--adapter=b=y")
    command_line.at_most_one("temperature")


def test_flags_that_exclude_each_other(parse):
    parse("--temperature=1.0", "--adapter=a=x")
    with pytest.raises(errors.ConfigError, match="--temperature and --adapter exclude each other"):
        command_line.at_most_one("temperature", "adapter")
