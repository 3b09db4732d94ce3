"""Serves a local page to use a trained run and to look into it.

    python -m lwt.demo --workdir=runs/mt
    python -m lwt.demo --workdir=runs/base --adapter=sort=runs/sort --adapter=add=runs/add --port=7861

Needs the extra ``demo``: ``pip install '.[demo]'``. See docs/demo.md.
"""

import os
import signal
import threading

from absl import flags

from lwt import extras, values
from lwt.machine import command_line

HOME = "127.0.0.1"


def main():
    """Serves the page until it is interrupted."""
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # no usage data leaves this machine
    extras.load("gradio", "the page")
    from lwt.demo import session

    stop, given = threading.Event(), flags.FLAGS
    adapters = values.named("adapter", given.adapter)
    served = session.Session(given.workdir, checkpoint=given.checkpoint, base=given.base, adapters=adapters)
    from lwt.demo import page  # last: it takes seconds, and errors of the workdir come first

    served.prepare(first=True)  # so that the first answer does not wait for the compiler
    address = page.launch(served, host=given.host, port=given.port)
    threading.Thread(target=served.prepare, daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    print(f"open {address} (Ctrl-C stops)", flush=True)
    while not stop.wait(timeout=1):  # a signal may reach another thread, which does not end this wait
        pass
    print("stopped\n", end="", flush=True)  # in one piece, since `interrupts` may print at once
    os._exit(0)  # threads that still answer a request would delay the end


if __name__ == "__main__":
    command_line.define_run()
    flags.DEFINE_multi_string("adapter", [], "NAME=FOLDER of an adapter on this run; repeat the flag for more.")
    flags.DEFINE_string("host", HOME, "Address to serve at; 0.0.0.0 shows the page to the whole network.")
    flags.DEFINE_integer("port", 7860, "Port to serve at.", lower_bound=1, upper_bound=65535)
    command_line.run(main, required=["workdir"])
