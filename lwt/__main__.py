"""The console command ``lwt``, and ``python -m lwt``: starts the program of a command.

lwt quickstart
lwt train --config=quickstart:stage=base --workdir=runs/base
lwt train --help
"""

import runpy
import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the program handles Ctrl-C itself, it ends without a traceback

import lwt
from lwt import errors
from lwt.machine import command_line, memory

COMMANDS = {  # command -> its module, and what it does
    "quickstart": ("lwt.quickstart", "a first look: trains, adapts, evaluates and plots"),
    "classify": ("lwt.classify", "a classifier of a table of texts and labels: lwt classify TABLE"),
    "train": ("lwt.commands.train", "trains the run of a config, or resumes it"),
    "eval": ("lwt.commands.evaluate", "evaluates a run"),
    "predict": ("lwt.commands.evaluate", "answers a file: lwt predict FILE --workdir=RUN"),
    "sweep": ("lwt.commands.sweep", "trains a grid of settings and ranks them"),
    "compare": ("lwt.commands.compare", "compares runs in a table and a plot"),
    "export": ("lwt.commands.export", "writes a run for phones, servers and microcontrollers"),
    "demo": ("lwt.demo", "opens a page to use a run in the browser"),
    "cost": ("lwt.inspect.cost", "parameters, bytes and FLOPs of a config"),
}
FILES = {"lwt.commands.train": "train.py", "lwt.commands.evaluate": "eval.py", "lwt.commands.export": "export.py"}


def overview():
    """What ``lwt`` alone prints."""
    lines = [f"  lwt {name:<12}{what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        [f"lwt {lwt.__version__}: lightweight transformers in JAX\n", *lines, "\nlwt COMMAND --help explains."]
    )


def main():
    """The program."""
    memory.tune()  # it may restart the program, which costs least before the imports of a command
    command, *rest = sys.argv[1:] or ["--help"]
    if command in command_line.HELP:
        print(overview())
        return
    if command == "--version":
        print(f"lwt {lwt.__version__}")
        return
    if command not in COMMANDS:
        command_line.fail(f"lwt {command}: there is no such command; {errors.suggest(command, COMMANDS)}")
    if command == "predict" and not command_line.HELP & {*rest}:
        if not rest or rest[0].startswith("--"):
            command_line.fail(
                "lwt predict: name the file to answer first, or - for standard input: lwt predict FILE ..."
            )
        rest[0] = f"--predict={rest[0]}"
    sys.argv[1:] = rest
    for name, (module, _) in COMMANDS.items():
        command_line.CALLED.setdefault(f"python {FILES.get(module) or f'-m {module}'}", f"lwt {name}")
    runpy.run_module(COMMANDS[command][0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
