"""Exports a trained run: `lwt/commands/export.py`, which ``lwt export`` starts, too."""

import runpy
import signal

from lwt.machine import memory

signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the program handles Ctrl-C itself, it ends without a traceback

if __name__ == "__main__":
    memory.tune()  # it may start the program anew, which costs least before the imports of the command
    runpy.run_module("lwt.commands.export", run_name="__main__", alter_sys=True)
