"""What all programs share: flags, several processes, the log, and errors as one line."""

import contextlib
import json
import logging
import pathlib
import re
import signal
import sys

from absl import app, flags

from lwt import errors
from lwt.machine import interrupts, memory

_COORDINATOR = flags.DEFINE_string("coordinator", "", "HOST:PORT of process 0, for a run on several processes.")
_PROCESSES = flags.DEFINE_integer("processes", 1, "Number of processes.")
_PROCESS = flags.DEFINE_integer("process", 0, "Index of this process, from 0.")


def define_run(*, workdir="Folder of a run or bundle.", checkpoint="best", out=""):
    """Declares --workdir, --checkpoint and --base, which name the run to read, and --out with the help text `out`."""
    flags.DEFINE_string("workdir", None, workdir)
    flags.DEFINE_string("checkpoint", checkpoint, "best, last or a step; a bundle has only one.")
    flags.DEFINE_string("base", "", "Folder of the run that --workdir adapts; default: as recorded, or beside it.")
    if out:
        flags.DEFINE_string("out", None, out)


def run(main, *, required):
    """Parses the flags, of which those named in `required` must be given, prepares the process and calls ``main()``.

    An error that the user can fix (`lwt.errors.LwtError`, or a wrong flag) ends the program with one line on standard
    error and exit code 2.
    """
    memory.tune_allocator()
    with guarded():
        _run(main, required)


@contextlib.contextmanager
def guarded():
    """Ends a program with one line for an error of the user, and for a Ctrl-C or SIGTERM, from here to its end."""
    interrupts.install()
    try:
        yield
    except errors.LwtError as error:
        fail(str(error))
    except OSError as error:  # such as a file without permission to read it
        if error.filename is None:
            raise
        fail(f"{error.filename}: {error.strerror}")
    except interrupts.Stopped as stopped:
        if not stopped.saved:
            print(f"error: stopped by {stopped.name}; the same command starts again", file=sys.stderr, flush=True)
        sys.exit(stopped.code)
    finally:
        for number in interrupts.SIGNALS:
            signal.signal(number, signal.SIG_DFL)


def _run(main, required):
    app.define_help_flags()
    flags.mark_flags_as_required(required)
    try:
        rest = flags.FLAGS(sys.argv)[1:]
        for name in required:
            getattr(flags.FLAGS[name].value, "lock", None)  # raises if it is a config whose file does not exist
        if rest:
            raise errors.ConfigError(f"unexpected argument {rest[0]!r}; every argument is a --flag=value")
    except Exception as error:
        fail(_explain(error))
    show_log()
    distribute()
    main()


def show_log(stream=None):
    """Prints to standard output, or to `stream`, what the package and the program log."""
    console = logging.StreamHandler(stream or sys.stdout)
    console.setFormatter(logging.Formatter("%(message)s"))
    for name in ("lwt", "__main__"):  # a module run by python -m logs as __main__
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [console], False
        logger.setLevel(logging.INFO)


def fail(message):
    """Prints one line on standard error and exits with code 2."""
    print("error: " + " ".join(message.split()), file=sys.stderr, flush=True)
    sys.exit(2)


def distribute():
    """Connects to the other processes if the flags name any; must run before any other use of jax."""
    coordinator, processes, process = _COORDINATOR.value, _PROCESSES.value, _PROCESS.value
    if not 0 <= process < processes or (processes > 1 and not coordinator):
        raise errors.ConfigError(
            f"--process={process} --processes={processes} --coordinator={coordinator!r}: processes are numbered from "
            "0, and several need the HOST:PORT of process 0 as --coordinator"
        )
    if coordinator:
        import jax

        try:
            jax.distributed.initialize(coordinator, processes, process)
        except (ValueError, RuntimeError) as error:
            raise errors.ConfigError(
                f"--coordinator={coordinator}: {_first_line(error)}; it should be HOST:PORT"
            ) from error


def report(figures):
    """Prints figures as one JSON line, on process 0 only. A program's last line of output is its report."""
    import jax

    if jax.process_index() == 0:
        print(json.dumps(figures), flush=True)


def _explain(error):
    """Says in one sentence which flag is wrong: ml_collections wraps the cause in a KeyError's repr or a traceback."""
    text = str(error).strip() or type(error).__name__
    if missing := re.findall(r"Flag (--\w+) must have a value other than None", text):
        return f"give {' and '.join(missing)}"
    if isinstance(error, OSError):
        path = pathlib.Path(text.rsplit("'", 2)[-2] if text.count("'") > 1 else text)
        there = [str(p) for p in path.parent.glob("*.py")]
        return f"--config={path} cannot be read; {errors.suggest(path, there)}"
    if isinstance(error, AttributeError) and isinstance(error.args[0], KeyError):
        key, *hint = str(error.args[0].args[0]).splitlines()
        given = next((a for a in sys.argv if re.match(rf"--?config\..*{re.escape(key.strip(chr(39)))}\b", a)), key)
        keys = "The keys are those of configs/common.py and of the config's own file"
        return f"{given}: the config has no such key. {hint[0] if hint else keys}"
    if "Traceback" in text:
        begin, _, rest = text.partition(" Error whilst parsing config file")
        kind, _, reason = rest.strip().splitlines()[-1].partition(": ")
        file, line = re.findall(r'File "(.+)", line (\d+)', rest)[-1]
        return f"{begin} {reason}" if kind == "ValueError" else f"{begin} {file}:{line}: {kind}: {reason}"
    known = isinstance(error, (flags.Error, errors.LwtError))
    return text if known else f"the config file fails: {type(error).__name__}: {text}"


def _first_line(error):
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
