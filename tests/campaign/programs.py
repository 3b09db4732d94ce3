"""Runs the command-line programs in forked processes, so that Python and JAX are imported once for all cases."""

import atexit
import dataclasses
import os
import pathlib
import runpy
import signal
import sys
import tempfile
import threading
import time
import traceback

from lwt.machine import memory

ROOT = pathlib.Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Attributes:
        code: exit code; negative: the signal that ended it.
        out, err: what it printed.
        seconds: how long it ran.
        hung: whether it was still running at its limit, and was killed.
    """

    code: int
    out: str
    err: str
    seconds: float
    hung: bool

    @property
    def fault(self):
        """Why no user should see this outcome, or an empty text."""
        if self.hung:
            return f"hang: still running after {self.seconds:.0f} s"
        for line in reversed((self.out + self.err).splitlines()):
            if line.startswith("Traceback (most recent call last)"):
                return f"traceback: {self.last_line}"
        if self.code == 2 and not self.complaint:
            return f"exit code 2 without an error line: {self.last_line}"
        return "" if self.code in (0, 2) else f"exit code {self.code}: {self.last_line}"

    @property
    def complaint(self):
        """The error line, without ``error:``; empty if there is none, or more than one."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        return lines[0].removeprefix("error: ") if len(lines) == 1 else ""

    @property
    def last_line(self):
        """The last line that is not blank; standard error comes last."""
        return ([""] + [line for line in (self.out + "\n" + self.err).splitlines() if line.strip()])[-1]


def preload():
    """Imports what the programs import, without starting a JAX backend; a fork keeps it."""
    os.environ.setdefault("GLIBC_TUNABLES", memory.TUNABLES)  # or the programs would restart this process
    import lwt.runs.experiment
    import lwt.training.train  # noqa: F401


def run(program, *arguments, limit=120, stop=None, stdin=os.devnull):
    """Runs ``python program arguments`` in a forked process.

    Args:
        program: a file such as train.py, or a module such as lwt.export.quantize.
        limit: seconds after which it counts as hung.
        stop: ``(signal, seconds)`` to send it a signal after some time, unless it has ended before.
        stdin: path of the file to read as standard input.

    Returns:
        An `Outcome`.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(stdin, "rb") as given:
        sys.stdout.flush(), sys.stderr.flush()
        begin = time.monotonic()
        child = os.fork()
        if not child:
            _child(program, arguments, streams=(given, out, err))
        code, hung = _wait(child, begin=begin, limit=limit, stop=stop)
        texts = (os.pread(file.fileno(), 1 << 24, 0).decode(errors="replace") for file in (out, err))
        return Outcome(code, *texts, time.monotonic() - begin, hung)


def _wait(child, *, begin, limit, stop):
    """The exit code of a process (negative: a signal), and whether it had to be killed at its limit."""
    hung = False
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), hung
        passed = time.monotonic() - begin
        if stop and passed >= stop[1]:
            os.kill(child, stop[0])
            stop = None
        if passed >= limit and not hung:
            hung = True
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.01)


def _child(program, arguments, *, streams):
    """Becomes the program, and ends like a process of its own."""
    code = 1
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream.fileno(), number)
        os.chdir(ROOT)
        sys.argv = [program, *arguments]
        if program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            threading._shutdown()
            atexit._run_exitfuncs()
            sys.stdout.flush(), sys.stderr.flush()
        finally:
            os._exit(code)
