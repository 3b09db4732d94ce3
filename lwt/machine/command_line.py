"""What train.py and eval.py share: flags, several processes, and errors as one line."""

import json
import logging
import pathlib
import re
import sys

from absl import app, flags

from lwt import errors
from lwt.machine import memory

_COORDINATOR = flags.DEFINE_string("coordinator", "", "HOST:PORT of process 0, for a run of several processes.")
_PROCESSES = flags.DEFINE_integer("processes", 1, "How many processes there are.")
_PROCESS = flags.DEFINE_integer("process", 0, "The number of this process.")


def run(main, *, required):
    """Parses the flags and calls ``main()``. What a user can mend ends as one line and exit code 2."""
    memory.settle()
    app.define_help_flags()
    flags.mark_flags_as_required(required)
    try:
        rest = flags.FLAGS(sys.argv)[1:]
        for name in required:
            getattr(flags.FLAGS[name].value, "lock", None)  # raises if it is a config whose file is not there
        if rest:
            raise errors.ConfigError(f"unexpected argument {rest[0]!r}; every argument is a --flag=value")
    except Exception as error:
        fail(_explain(error))
    show_log()
    try:
        distribute()
        main()
    except errors.LwtError as error:
        fail(str(error))


def show_log():
    """Prints what the package and the program log (what was left out of the data, what a checkpoint fell back to)."""
    console = logging.StreamHandler(sys.stdout)
    console.setFormatter(logging.Formatter("%(message)s"))
    for name in ("lwt", "__main__"):  # a module of lwt that is run by python -m is the latter
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [console], False
        logger.setLevel(logging.INFO)


def fail(message):
    """One line on standard error, exit code 2."""
    print("error: " + " ".join(message.split()), file=sys.stderr, flush=True)
    sys.exit(2)


def distribute():
    """Joins the other processes, if the flags name any; nothing of jax may have run before."""
    coordinator, processes, process = _COORDINATOR.value, _PROCESSES.value, _PROCESS.value
    if not 0 <= process < processes or (processes > 1 and not coordinator):
        raise errors.ConfigError(
            f"--process={process} --processes={processes} --coordinator={coordinator!r}: processes count from 0, and "
            "several need the HOST:PORT of number 0 as --coordinator"
        )
    if coordinator:
        import jax

        try:
            jax.distributed.initialize(coordinator, processes, process)
        except (ValueError, RuntimeError) as error:
            raise errors.ConfigError(
                f"--coordinator={coordinator}: {_first_line(error)}; it should be HOST:PORT"
            ) from error


def is_first_process():
    """True where results are printed."""
    import jax

    return jax.process_index() == 0


def report(figures):
    """Prints figures as one JSON line, the last line of the output."""
    if is_first_process():
        print(json.dumps(figures), flush=True)


def _explain(error):
    """What is wrong with the flags, in a sentence: ml_collections wraps it in a KeyError's repr or in a traceback."""
    text = str(error).strip() or type(error).__name__
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
