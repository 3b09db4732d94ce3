"""A local page to use and to look into a trained run.

    python -m lwt.demo --workdir=runs/mt
    python -m lwt.demo --workdir=runs/base --adapter=sort=runs/sort --adapter=add=runs/add --port=7861

Needs the extra ``demo``: ``pip install -e '.[demo]'``. See docs/demo.md.
"""

import importlib.util
import os
import threading

from absl import flags

from lwt import errors
from lwt.machine import command_line

HOME = "127.0.0.1"


def adapters_of(given):
    """``["sort=runs/sort"]`` -> ``{"sort": "runs/sort"}``.

    Raises:
        lwt.errors.ConfigError: one is not NAME=FOLDER, or a name is there twice.
    """
    found = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not (name and equals and folder):
            raise errors.ConfigError(f"--adapter={text} should be NAME=FOLDER, such as sort=runs/sort")
        if name in found:
            raise errors.ConfigError(f"--adapter={text}: {name!r} is {found[name]} already; give it another name")
        found[name] = folder
    return found


def main():
    """The program: serves the page until it is interrupted."""
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # what is typed here, and that it is, stays here
    if importlib.util.find_spec("gradio") is None:
        raise errors.ConfigError("the page needs Gradio: pip install -e '.[demo]'")
    from lwt.demo import session

    values = flags.FLAGS
    opened = session.Session(values.workdir, checkpoint=values.checkpoint, given=adapters_of(values.adapter))
    from lwt.demo import page  # last: it takes seconds, and what is wrong with a workdir is said before

    print(f"open {page.launch(opened, host=values.host, port=values.port)} (Ctrl-C ends it)", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "Folder of a run, or a bundle of one.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step; a bundle has one.")
    flags.DEFINE_multi_string("adapter", [], "NAME=FOLDER of an adapter on this run; may be given several times.")
    flags.DEFINE_string("host", HOME, "Address to serve at; 0.0.0.0: the whole network sees the page.")
    flags.DEFINE_integer("port", 7860, "Port to serve at.", lower_bound=1, upper_bound=65535)
    command_line.run(main, required=["workdir"])
