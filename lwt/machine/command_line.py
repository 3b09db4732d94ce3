"""What all programs share: flags, several processes, the log, and errors as one line."""

import contextlib
import difflib
import json
import logging
import math
import os
import re
import signal
import sys
import time
import traceback

import ml_collections
from absl import flags

from lwt import errors, files, values
from lwt.machine import compiled, interrupts, memory, peers

HELP = {"--help", "-help", "-h", "--helpshort", "--helpfull", "-?"}
CONFIGS = {}  # flag of a config file -> what loads and what describes it, given FILE.py:key=value,...
CALLED = {}  # how a help text calls a program -> how the user calls it: filled by lwt/__main__.py
PLAIN = {  # what absl says of a wrong flag -> what is printed
    r"^flag (--.+): invalid literal for int\(\) .*": r"\1 should be a whole number",
    r"^flag (--.+): could not convert string to float: .*": r"\1 should be a number",
}

_COORDINATOR = flags.DEFINE_string("coordinator", "", "HOST:PORT of process 0, for a run on several processes.")
_PROCESSES = flags.DEFINE_integer("processes", 1, "Number of processes.", lower_bound=1)
_PROCESS = flags.DEFINE_integer("process", 0, "Index of this process, from 0.", lower_bound=0)


def define_run(*, workdir="Folder of a run or bundle.", checkpoint="best", out=""):
    """Declares --workdir, --checkpoint and --base, which name the run to read, and --out with the help text `out`."""
    flags.DEFINE_string("workdir", None, workdir)
    flags.DEFINE_string("checkpoint", checkpoint, "best, last or a step; a bundle has only one.")
    flags.DEFINE_string("base", "", "Folder of the run that --workdir adapts; default: as recorded, or beside it.")
    if out:
        flags.DEFINE_string("out", None, out)


def define_regex(name, default, *, help):
    """Declares a flag whose value is a regular expression."""
    flags.DEFINE_string(name, default, help)
    _validate(name, values.regex())


def define_integers(name, default, *, help, low, high):
    """Declares a flag with integers separated by commas; its value is a list of texts."""
    flags.DEFINE_list(name, default, help)
    wanted = values.whole(low, high)

    def check(texts):
        wrong = [wanted.check(int(text)) if text.strip().isdecimal() else "integers, with commas" for text in texts]
        return next(filter(None, wrong), "")

    _validate(name, values.Value(check))


def at_most_one(*names):
    """Raises `lwt.errors.ConfigError` if the user has given more than one of these flags."""
    given = [f"--{name}" for name in names if flags.FLAGS[name].present]
    if len(given) > 1:
        raise errors.ConfigError(f"{' and '.join(given)} exclude each other; give one of them")


def _validate(name, value):
    def check(given):
        if wrong := value.check(given):
            raise flags.ValidationError(f"should be {wrong}")
        return True

    flags.register_validator(name, check)


def refuse(names, *, where):
    """Refuses flags that were given and have no effect `where`, such as "without --activations=static".

    Raises:
        lwt.errors.ConfigError: names the first that was given.
    """
    for name in names:
        if flags.FLAGS[name].present:
            raise errors.ConfigError(f"--{name} has no effect {where}")


def run(main, *, required):
    """Parses the flags, of which those named in `required` must be given, prepares the process and calls ``main()``.

    An error that the user can fix (`lwt.errors.LwtError`, or a wrong flag) ends the program with one line on standard
    error and exit code 2.
    """
    memory.tune()
    with guarded():
        _run(main, required)


@contextlib.contextmanager
def guarded():
    """Ends a program with one line for an error of the user, and for a Ctrl-C or SIGTERM, from here to its end."""
    interrupts.install()
    try:
        with _explained():
            yield
    except BaseException as error:
        stopped = interrupts.cause(error)
        if stopped is None:
            raise
        if not stopped.saved:
            interrupts.say(f"error: stopped by {stopped.name}; the same command starts again")
        sys.exit(stopped.code)
    finally:
        interrupts.uninstall()


@contextlib.contextmanager
def _explained():
    """Ends a program with one line for an error of the user."""
    try:
        yield
    except errors.LwtError as error:
        fail(str(error))
    except BrokenPipeError:  # whoever reads the output, such as head, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:  # such as a file without permission to read it, or a disk that is full
        if error.filename is None and error.errno not in files.UNWRITABLE:
            raise
        fail(": ".join(str(part) for part in (error.filename, error.strerror) if part))
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        fail(f"not enough memory{reason}; lower the size of the batches (data.rows, data.row_length)")


def _run(main, required):
    if HELP & {*sys.argv[1:]}:
        print(help_text())
        return
    flags.mark_flags_as_required(required)
    try:
        rest = flags.FLAGS(sys.argv)[1:]
        for name in CONFIGS:
            if flags.FLAGS[name].value is not None:  # reading it raises if its file does not exist
                check_config(flags.FLAGS[name].value, f"--{name}")
        check_flags(rest)
    except Exception as error:
        fail(_explain(error))
    show_log()
    compiled.keep()
    others = distribute()
    try:
        main()
    except interrupts.Stopped as stopped:
        if others and stopped.saved:
            others.leave()
        raise
    except Exception as error:
        if others and not isinstance(error, errors.LwtError):
            time.sleep(5)  # another process may be gone: then its name is printed, and this process ends here
        raise
    if others:
        others.leave()


def check_flags(rest=()):
    """Raises `lwt.errors.ConfigError` for a flag given twice, a number that is not finite, or the arguments `rest`."""
    if rest:
        raise errors.ConfigError(f"unexpected argument {rest[0]!r}; every argument is a --flag=value")
    given = set()
    for name in (argument.lstrip("-").partition("=")[0] for argument in sys.argv[1:] if argument.startswith("-")):
        if name in given and not (name in flags.FLAGS and isinstance(flags.FLAGS[name], flags.MultiFlag)):
            raise errors.ConfigError(f"--{name} is given twice")
        given.add(name)
    for name, value in flags.FLAGS.flag_values_dict().items():
        if isinstance(value, float) and not math.isfinite(value):
            raise errors.ConfigError(f"--{name}={value} should be a finite number")


def check_config(config, flag):
    """Raises `lwt.errors.ConfigError` unless a config file has returned a ConfigDict."""
    if not isinstance(config, ml_collections.ConfigDict):
        kind = "nothing" if config is None else f"a {type(config).__name__}"
        raise errors.ConfigError(f"{flag}: get_config returns {kind}; it should return an ml_collections.ConfigDict")


def help_text():
    """The text of --help: the program's docstring, its flags, and the description of a config that is given."""
    lines = [as_called((sys.modules["__main__"].__doc__ or "").strip()), "", "flags:"]
    for module, defined in flags.FLAGS.flags_by_module_dict().items():
        for flag in defined if module == sys.argv[0] or module.startswith(("lwt", "studies")) else ():
            default = ",".join(map(str, flag.default)) if isinstance(flag.default, (list, tuple)) else flag.default
            shown = "" if default in (None, "") else f"={default}"
            said = flag.help.removesuffix(";\n    repeat this option to specify a list of values")
            lines.append(f"  --{flag.name}{shown}: {' '.join(said.split())}")
    for argument in sys.argv[1:]:
        name, _, spec = argument.lstrip("-").partition("=")
        if name in CONFIGS and spec:
            lines += ["", as_called(CONFIGS[name][1](spec))]
    return "\n".join(lines)


def as_called(text):
    """A text with its programs as the user calls them: below the command lwt, ``lwt train``."""
    for program, called in CALLED.items():
        text = re.sub(rf"{re.escape(program)}(?![\w.])", called, text)
    return text


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
    """Connects to the other processes if the flags name any; returns `peers.Peers`, or None if there are no others.

    It must run before any other use of jax.
    """
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
            reason = errors.first_line(error)
            raise errors.ConfigError(f"--coordinator={coordinator}: {reason}; it should be HOST:PORT") from error
    return peers.watch(coordinator, index=process, count=processes) if processes > 1 else None


def report(figures):
    """Prints figures as one JSON line, on process 0 only. A program's last line of output is its report."""
    import jax

    if jax.process_index() == 0:
        print(json.dumps(figures), flush=True)


def _explain(error):
    """Says in one sentence which flag is wrong: ml_collections wraps the cause in a KeyError's repr or a traceback."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, flags.UnrecognizedFlagError):
        modules, name = flags.FLAGS.flags_by_module_dict().items(), error.flagname
        own = [flag.name for module, defined in modules if not module.startswith("absl") for flag in defined]
        near = difflib.get_close_matches(name, own, n=1)
        return f"--{name}: there is no such flag; {f'did you mean --{near[0]}?' if near else '--help lists all'}"
    if not isinstance(error, OSError) and (wrong := _wrong_config()):
        return wrong
    if missing := re.findall(r"Flag (--\w+) must have a value other than None", text):
        return f"give {' and '.join(missing)}"
    if isinstance(error, OSError):
        return f"the config file cannot be read: {text}"
    if "Traceback" in text:
        begin, _, rest = text.partition(" Error whilst parsing config file")
        kind, _, reason = rest.strip().splitlines()[-1].partition(": ")
        file, line = re.findall(r'File "(.+)", line (\d+)', rest)[-1]
        return f"{begin} {reason}" if kind == "ValueError" else f"{begin} {file}:{line}: {kind}: {reason}"
    if isinstance(error, (flags.Error, errors.LwtError)):
        for said, plain in PLAIN.items():
            text = re.sub(said, plain, text)
        return text
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"the config file fails at {place.filename}:{place.lineno}: {type(error).__name__}: {text}"


def _wrong_config():
    """What is wrong with a config that is given: its file, or the first override of a key that it does not have."""
    for name, (load, _) in CONFIGS.items():
        specs = [argument.partition("=")[2] for argument in sys.argv if re.match(f"--?{name}=", argument)]
        try:
            config = load(specs[-1]) if specs else None
        except errors.LwtError as error:
            return str(error)
        except Exception:  # the file itself fails: the error that was caught says where
            return ""
        for argument in sys.argv[1:]:
            place, (first, *path) = config, argument.partition("=")[0].lstrip("-").split(".")
            for part in path if first == name and specs else ():
                keys = place.keys() if isinstance(place, ml_collections.ConfigDict) else ()
                if part.partition("[")[0] not in keys:
                    return f"{argument}: the config has no such key; {errors.suggest(part, keys)}"
                place = place[part.partition("[")[0]]
    return ""
