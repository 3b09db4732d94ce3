"""``--help`` of every program: exit code 0, what it does, its flags, and two examples."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


def programs():
    """The files of lwt and studies that ``python -m`` starts, and those at the root."""
    found = ["train.py", "eval.py", "export.py"]
    for room in ("lwt", "studies"):
        for path in sorted((ROOT / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8").partition('\nif __name__ == "__main__":')[2]
            if text:
                found.append(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__"))
    return found


# Each program runs in its own fork of a process that has imported what all of them import.
CHILD = """
import json, os, runpy, sys, traceback
sys.path.insert(0, "tests")
import parse_commands
from lwt.machine import memory
parse_commands.preload()
memory.tune_allocator = lambda: None

def call(program, arguments):
    sys.argv = [program, *arguments]
    try:
        if program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        return error.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0

answers = {}
for program, arguments in json.load(sys.stdin):
    read, write = os.pipe()
    if not (child := os.fork()):
        os.dup2(write, 1), os.dup2(write, 2)
        code = call(program, arguments)
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else 1)
    os.close(write)
    with open(read) as file:
        said = file.read()
    answers[" ".join([program, *arguments])] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said
print(json.dumps(answers))
"""
CONFIG = "--config=configs/translation.py:data=pool"
OTHERS = [("train.py", ["--help", CONFIG]), ("export.py", ["--target=c", "--help"]), ("export.py", ["-h"])]


@pytest.fixture(scope="module")
def answers():
    calls = [*((program, ["--help"]) for program in programs()), *OTHERS]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("program", programs())
def test_help(answers, program):
    code, said = answers[f"{program} --help"]
    assert code == 0, said
    examples = re.findall(rf"python (?:-m )?{re.escape(program)}(?!\.?\w)|    make quickstart", said)
    assert len(examples) >= 2, said
    assert re.search(r"^  --\w+", said, re.MULTILINE) and not re.search(r"^  --\w*orbax", said, re.MULTILINE), said
    assert len(said.strip().splitlines()[0]) > 20, "it says what it does"


def test_help_with_a_config_has_its_arguments_and_keys(answers):
    code, said = answers[f"train.py --help {CONFIG}"]
    assert code == 0 and "German-English translation" in said
    assert "  data=multi30k\n  vocabulary=0\n" in said, "arguments with their defaults"
    assert "  optimizer.schedule.warmup=500\n" in said and "  model.width=128\n" in said, "the keys of data=pool"


def test_export_helps_with_its_targets_too(answers):
    code, said = answers["export.py --target=c --help"]
    assert code == 0 and "--budget" in said
    code, said = answers["export.py -h"]
    assert code == 0 and "--target=litert" in said
