"""Ctrl-C (SIGINT) and SIGTERM: the first one asks a program to save and stop, the second stops it at once.

In `deferred` code, which the loop of training is, the first one is only noted; elsewhere there is nothing to save, and
it raises `Stopped`. A thread watches for the second, so that it works while the main thread is in compiled code.
"""

import contextlib
import os
import signal
import sys
import threading
import time

SIGNALS = {signal.SIGINT: "SIGINT", signal.SIGTERM: "SIGTERM"}
TOGETHER = 0.1  # seconds; signals this close are one, sent to the process and to its group
_state = {"program": False, "deferred": False, "asked": ""}


class Stopped(KeyboardInterrupt):
    """The program was asked to stop; `saved` tells whether the same command resumes it."""

    def __init__(self, name, *, saved=False):
        super().__init__(name)
        self.name, self.saved = name, saved

    @property
    def code(self):
        """Exit code of the program."""
        return 0 if self.saved else 128 + signal.Signals[self.name]


def install():
    """Handles the signals of this process from now to its end; for programs only, in the main thread."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(read,), name="signals", daemon=True).start()
    _state["program"], sys.unraisablehook = True, _again
    for number in SIGNALS:
        signal.signal(number, _ask)


def uninstall():
    """Leaves the signals of this process to the system: they end it at once."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def say(text):
    """Prints a line on standard error in one piece, since two threads may print at once."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def cause(error):
    """The `Stopped` that an error is, or that it followed while a library cleaned up; or None."""
    while error is not None and not isinstance(error, Stopped):
        error = None if isinstance(error, SystemExit) else error.__cause__ or error.__context__
    return error


@contextlib.contextmanager
def deferred():
    """Notes a signal instead of raising; yields a function that returns its name, or "" if there was none.

    Outside a program it handles the signals until the block ends; the second one is then a KeyboardInterrupt.
    """
    before, program = {}, _state["program"]
    if not program:
        _state["asked"] = ""
        with contextlib.suppress(ValueError):  # not in the main thread: nothing to catch
            before = {number: signal.signal(number, _ask) for number in SIGNALS}
    elif _state["asked"]:
        raise Stopped(_state["asked"])
    _state["deferred"] = True
    try:
        yield lambda: _state["asked"]
    finally:
        _state["deferred"] = False
        for number, handler in before.items():
            signal.signal(number, handler)


def stop():
    """Ends a program that has saved its state because it was asked to stop; returns outside a program."""
    if _state["program"]:
        raise Stopped(_state["asked"] or "SIGTERM", saved=True)


def _ask(number, frame):
    del frame
    first, _state["asked"] = not _state["asked"], SIGNALS[number]
    if not _state["deferred"]:
        raise Stopped(SIGNALS[number])
    if number == signal.SIGINT and _of_several():
        os.kill(os.getpid(), signal.SIGTERM)  # jax tells the other processes
    elif not first and not _state["program"]:
        raise KeyboardInterrupt


def _again(unraisable):
    """Sends the signal again if its `Stopped` was raised where Python ignores errors, such as in a destructor."""
    if not isinstance(unraisable.exc_value, Stopped):
        return sys.__unraisablehook__(unraisable)
    number = signal.Signals[unraisable.exc_value.name]
    threading.Timer(TOGETHER / 4, os.kill, (os.getpid(), number)).start()


def _of_several():
    jax = sys.modules.get("jax")
    return jax is not None and jax.process_count() > 1


def _watch(read):
    """Ends the process at the second signal."""
    first = None
    while True:
        for number in os.read(read, 64):
            if number not in SIGNALS:
                continue
            if first is None:
                first = time.monotonic()
                say(f"{SIGNALS[number]}: stopping; send it again to stop at once")
            elif time.monotonic() - first > TOGETHER:
                say("stopped at once; the last checkpoint is complete")
                os._exit(128 + number)
