"""Programs in forks of one process that has imported lwt: each costs a second less than in a process of its own."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
CHILD = """
import json, os, runpy, sys, traceback
sys.path.insert(0, "tests")
import parse_commands
from lwt.machine import memory
parse_commands.preload()
memory.tune = lambda: None

def call(program, arguments):
    program, *command = program.split()
    sys.argv = [program, *command, *arguments]
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


def answers(calls):
    """Calls programs: ``[[program, arguments]] -> {"program arguments": (exit code, what it printed)}``.

    A program is a file, a module, or ``lwt COMMAND``. What it prints is standard output and standard error together.
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD],
        input=json.dumps([*calls]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
