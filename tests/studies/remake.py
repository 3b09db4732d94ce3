"""Makes pages of docs/results again: runs their commands, each in a fork, because programs define flags of one name.

A line of standard input is a JSON list ``[module, *arguments]``. The answer is a line of standard output: a JSON list
of the program's exit code and the end of what it printed.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import runpy
import sys
import tempfile
import traceback
import warnings

import benchmarks
import lwt.inspect
import lwt.report
import studies
from lwt.machine import memory
from lwt.report import style


def main():
    warnings.simplefilter("ignore")  # jax warns about forks; this process computes nothing
    memory.tune = lambda: None  # it would start the process anew
    style.DPI = 20  # pixels are not compared
    for room in (lwt.inspect, lwt.report, studies, benchmarks):
        preload(room)
    for line in sys.stdin:
        print(json.dumps(attempt(*json.loads(line))), flush=True)


def preload(room):
    """Imports what the programs import, once for all forks; not the workers, which need PyTorch."""
    for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        if not found.name.endswith("__main__") and not found.name.startswith(("benchmarks.torch", "benchmarks.lwt")):
            importlib.import_module(found.name)


def attempt(module, *arguments):
    """``[exit code, end of what it printed]`` of a program."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        child = os.fork()
        if not child:
            os._exit(code_of(module, arguments, file))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        file.seek(0)
        return [code, file.read()[-1000:]]


def code_of(module, arguments, file):
    """The exit code of a program, whose output goes to `file`."""
    sys.argv = [module, *arguments]
    with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as error:
            return error.code if isinstance(error.code, int) else error.code is not None
        except BaseException:
            traceback.print_exc()
            return 1
        finally:
            file.flush()
    return 0


if __name__ == "__main__":
    main()
