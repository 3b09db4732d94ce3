"""The shell of all programs: the log on standard output, and errors of the user as one line."""

import json
import logging
import subprocess
import sys

import pytest
from absl import flags

from lwt import errors
from lwt.machine import command_line

PROGRAM = """
from absl import flags
from lwt import errors
from lwt.machine import command_line

def main():
    command_line.report({"checkpoint": flags.FLAGS.checkpoint})
    if flags.FLAGS.workdir == "none":
        raise errors.DataError("the data\\nare missing")

command_line.define_run(checkpoint="last", out="Folder of the result.")
command_line.run(main, required=["workdir", "out"])
"""


def start(*arguments):
    return subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True)


def test_a_program_prints_one_json_line():
    done = start("--workdir=runs/mt", "--out=x")
    assert (done.returncode, done.stderr) == (0, "") and json.loads(done.stdout) == {"checkpoint": "last"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "give --workdir and --out"),
        (["--workdir=runs/mt"], "give --out"),
        (["--process=1.5"], "--process=1.5 should be a whole number"),
        (["--workdr=x"], "--workdr: there is no such flag; did you mean --workdir?"),
        (["--log_dirs=x"], "--log_dirs: there is no such flag; --help lists all"),
        (["--workdir=none", "--out=x"], "the data are missing"),
        (["--workdir=runs/mt", "--out=x", "rest"], "unexpected argument 'rest'; every argument is a --flag=value"),
        (["--workdir=runs/mt", "--out=x", "--process=1"], "--process=1 --processes=1 --coordinator='': processes are"),
    ],
)
def test_an_error_of_the_user_is_one_line(arguments, message):
    done = start(*arguments)
    assert done.returncode == 2 and done.stderr.startswith(f"error: {message}") and done.stderr.count("\n") == 1


def test_flags_without_effect_are_refused(monkeypatch):
    own = flags.FlagValues()
    for name in ("percentile", "data"):
        flags.DEFINE_string(name, "default", "", flag_values=own)
    own(["program", "--data=default"])
    monkeypatch.setattr(flags, "FLAGS", own)
    command_line.refuse(["percentile"], where="without --activations=static")
    with pytest.raises(errors.ConfigError, match="--data has no effect without --activations=static"):
        command_line.refuse(["percentile", "data"], where="without --activations=static")


def test_log_lines_of_the_package_and_the_program_are_printed(monkeypatch, capsys):
    names = ("lwt", "__main__")
    for logger in map(logging.getLogger, names):
        for name in ("handlers", "propagate", "level"):
            monkeypatch.setattr(logger, name, getattr(logger, name))
    command_line.show_log()
    for name in ("lwt.data.kinds.pairs", *names):
        logging.getLogger(name).info("left out by %s", name)
    assert capsys.readouterr().out.splitlines() == [f"left out by {name}" for name in ("lwt.data.kinds.pairs", *names)]


@pytest.mark.parametrize(
    "error, line",
    [
        ('OSError(13, "Permission denied", "runs/a/config.json")', "runs/a/config.json: Permission denied"),
        ('OSError(28, "No space left on device")', "No space left on device"),
        ("MemoryError()", "not enough memory; lower the size of the batches (data.rows, data.row_length)"),
        (
            'MemoryError("of the GPU")',
            "not enough memory (of the GPU); lower the size of the batches (data.rows, data.row_length)",
        ),
    ],
)
def test_an_error_of_the_machine_is_one_line(error, line):
    program = PROGRAM.replace('errors.DataError("the data\\nare missing")', error)
    command = [sys.executable, "-c", program, "--workdir=none", "--out=x"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (2, f"error: {line}\n")
