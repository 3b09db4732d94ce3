"""``--help`` of every program: exit code 0, what it does, its flags, and two examples."""

import pathlib
import re

import pytest

from lwt import __main__ as console
from tests import forks

ROOT = pathlib.Path(__file__).parents[1]


def programs():
    """The files of lwt and studies that ``python -m`` starts, and those at the root."""
    found = ["train.py", "eval.py", "export.py", *(f"lwt {command}" for command in console.COMMANDS)]
    for room in ("lwt", "studies"):
        for path in sorted((ROOT / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8").partition('\nif __name__ == "__main__":')[2]
            if text and path.parent.name != "commands" and path != ROOT / "lwt/__main__.py":
                found.append(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__"))
    return found


CONFIG = "--config=configs/translation.py:data=pool"
OTHERS = [("train.py", ["--help", CONFIG]), ("export.py", ["--target=c", "--help"]), ("export.py", ["-h"])]


@pytest.fixture(scope="module")
def answers():
    calls = [*((program, ["--help"]) for program in programs()), *OTHERS]
    return forks.answers(calls)


@pytest.mark.parametrize("program", programs())
def test_help(answers, program):
    code, said = answers[f"{program} --help"]
    assert code == 0, said
    called = program.replace("lwt predict", "lwt eval") if program.startswith("lwt ") else f"python (?:-m )?{program}"
    examples = re.findall(rf"{called}(?!\.?\w)|    make quickstart", said)
    assert len(examples) >= 2, said
    assert re.search(r"^  --\w+", said, re.MULTILINE) and not re.search(r"^  --\w*orbax", said, re.MULTILINE), said
    assert len(said.strip().splitlines()[0]) > 20, "it says what it does"


def test_help_with_a_config_has_its_arguments_and_keys(answers):
    code, said = answers[f"train.py --help {CONFIG}"]
    assert code == 0 and "German-English translation" in said
    assert "  data=multi30k\n  source=source\n" in said, "arguments with their defaults"
    assert "  optimizer.schedule.warmup=500\n" in said and "  model.width=128\n" in said, "the keys of data=pool"


def test_export_helps_with_its_targets_too(answers):
    code, said = answers["export.py --target=c --help"]
    assert code == 0 and "--budget" in said
    code, said = answers["export.py -h"]
    assert code == 0 and "--target=litert" in said
