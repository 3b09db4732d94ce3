"""What train.py and eval.py share: flags, several processes, and errors as one line."""

import json
import logging
import sys

from absl import app, flags

from lwt import errors

_COORDINATOR = flags.DEFINE_string("coordinator", "", "HOST:PORT of process 0, for a run of several processes.")
_PROCESSES = flags.DEFINE_integer("processes", 1, "How many processes there are.")
_PROCESS = flags.DEFINE_integer("process", 0, "The number of this process.")


def run(main, *, required):
    """Parses the flags and calls ``main()``. What a user can mend ends as one line and exit code 2."""
    app.define_help_flags()
    flags.mark_flags_as_required(required)
    try:
        rest = flags.FLAGS(sys.argv)[1:]
        if rest:
            raise errors.ConfigError(f"unexpected argument {rest[0]!r}; every argument is a --flag=value")
    except Exception as error:
        fail(f"{_first_line(error)}")
    show_log()
    try:
        distribute()
        main()
    except errors.LwtError as error:
        fail(str(error))


def show_log():
    """Prints what the package logs (what was left out of the data, what a checkpoint fell back to)."""
    console = logging.StreamHandler(sys.stdout)
    console.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("lwt")
    logger.handlers, logger.propagate = [console], False
    logger.setLevel(logging.INFO)


def fail(message):
    """One line on standard error, exit code 2."""
    print("error: " + " ".join(message.split()), file=sys.stderr, flush=True)
    sys.exit(2)


def distribute():
    """Joins the other processes, if the flags name any; nothing of jax may have run before."""
    if _COORDINATOR.value:
        import jax

        jax.distributed.initialize(_COORDINATOR.value, _PROCESSES.value, _PROCESS.value)


def is_first_process():
    """True where results are printed."""
    import jax

    return jax.process_index() == 0


def report(figures):
    """Prints figures as one JSON line, the last line of the output."""
    if is_first_process():
        print(json.dumps(figures), flush=True)


def _first_line(error):
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
