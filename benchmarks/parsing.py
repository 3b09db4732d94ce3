"""Flags of the benchmarks: checked values, help with examples, and errors as one line."""

import argparse
import math
import re
import sys


class Parser(argparse.ArgumentParser):
    """Parses flags that are written out and given once; an error is one line, with exit code 2.

    Args:
        description: what the program does.
        examples: command lines, shown by ``--help``.
    """

    def __init__(self, description, *, examples):
        epilog = "examples:\n" + "\n".join(f"  {line}" for line in examples)
        super().__init__(description=description, epilog=epilog, formatter_class=_Formatter, allow_abbrev=False)

    def parse_known_args(self, args=None, namespace=None):
        args = sys.argv[1:] if args is None else args
        names = [part.partition("=")[0] for part in args if part.startswith("--")]
        for name in names:
            if names.count(name) > 1:
                self.error(f"{name} is given twice")
        return super().parse_known_args(args, namespace)

    def error(self, message):
        self.exit(2, f"error: {' '.join(message.split())}\n")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def _get_help_string(self, action):
        plain = action.default in (None, "", False, argparse.SUPPRESS) or "default" in action.help
        return action.help if plain else f"{action.help} (default: %(default)s)"


def whole(low):
    """The type of a flag: a whole number of at least `low`."""

    def parse(text):
        if re.fullmatch(r"\d+", text, re.ASCII) and int(text) >= low:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least {low}")

    return parse


def names(known):
    """The type of a flag: one or more of `known` with commas between them, each once; a list."""

    def parse(text):
        found = text.split(",")
        if set(found) <= set(known) and len(set(found)) == len(found):
            return found
        raise argparse.ArgumentTypeError(f"{text!r} must be of {', '.join(known)}, each once, with commas")

    return parse


def real(low, high=math.inf):
    """The type of a flag: a finite number from `low` to `high`."""

    def parse(text):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isfinite(value) and low <= value <= high:
            return value
        limits = f"of at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise argparse.ArgumentTypeError(f"{text!r} must be a number {limits}")

    return parse


def pattern(text):
    """The type of a flag: a regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from error
    return text


def several(kind):
    """The type of a flag: values of a `kind`, such as `whole(1)`, with commas between them."""
    return lambda text: [kind(part) for part in text.split(",")]


def product(text):
    """The type of a flag: the sizes ``(n, in, out)`` of a product, such as ``1024x512x128``."""
    sizes = text.split("x")
    if len(sizes) != 3 or not all(re.fullmatch(r"[1-9]\d*", size, re.ASCII) for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} must be three whole numbers of at least 1, such as 1024x512x128")
    return tuple(map(int, sizes))


def program():
    """The command that starts this program."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return f"python -m {spec.name}" if spec else f"python {sys.argv[0]}"


def work(description, *, data):
    """Parses the flags of a program that fills the cache of batches; `data` is for the examples."""
    line = f"{program()} --data={data} --cache=cache"
    parser = Parser(description, examples=[f"{line} --batches=16", f"{line} --batches=4"])
    parser.add_argument("--data", required=True, help="folder:NAME under LWT_DATA")
    parser.add_argument("--cache", required=True, help="folder of tokenizers and batches")
    parser.add_argument("--batches", type=whole(1), required=True, help="number of batches")
    return parser.parse_args()
