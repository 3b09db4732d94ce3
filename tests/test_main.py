"""The console command: its overview, its commands, and what it says to wrong ones."""

import importlib.util
import re
import runpy
import sys

import pytest

import lwt
from lwt import __main__ as console
from lwt.machine import command_line, memory


@pytest.fixture
def call(monkeypatch):
    """``call(*arguments)`` gives the module that ``lwt ARGUMENTS`` starts, and its arguments; None without one."""

    def call(*arguments):
        started = []
        monkeypatch.setattr(sys, "argv", ["lwt", *arguments])
        monkeypatch.setattr(runpy, "run_module", lambda name, **_: started.append((name, sys.argv[1:])))
        monkeypatch.setattr(command_line, "CALLED", {})
        monkeypatch.setattr(memory, "tune", lambda: None)  # it would start the process anew
        console.main()
        return started[0] if started else None

    return call


def test_commands_start_their_modules(call):
    assert call("train", "--config=x", "--workdir=y") == ("lwt.commands.train", ["--config=x", "--workdir=y"])
    assert call("predict", "new.csv", "--workdir=y") == ("lwt.commands.evaluate", ["--predict=new.csv", "--workdir=y"])
    assert call("predict", "-", "--workdir=y")[1][0] == "--predict=-"
    for module, *_ in console.COMMANDS.values():
        assert importlib.util.find_spec(module)


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_the_overview_names_every_command(call, capsys, arguments):
    assert call(*arguments) is None
    assert re.findall(r"^  lwt (\w+)", capsys.readouterr().out, re.MULTILINE) == [*console.COMMANDS]


def test_the_version(call, capsys):
    assert call("--version") is None and capsys.readouterr().out == f"lwt {lwt.__version__}\n"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("trian",), "lwt trian: there is no such command; did you mean 'train'?"),
        (("predict", "--workdir=x"), "lwt predict: name the file to answer first, or - for standard input"),
    ],
)
def test_wrong_commands_are_one_line(call, capsys, arguments, message):
    with pytest.raises(SystemExit) as ended:
        call(*arguments)
    said = capsys.readouterr().err
    assert ended.value.code == 2 and message in said and said.count("\n") == 1


def test_help_calls_a_program_as_the_user_does(call):
    text = "python train.py --config=a; python eval.py; python -m lwt.demo; python -m lwt.demo.page"
    assert command_line.as_called(text) == text
    call("train")
    assert command_line.as_called(text) == "lwt train --config=a; lwt eval; lwt demo; python -m lwt.demo.page"
