"""Arguments of a program that are not flags."""

import sys


def name(flag):
    """Turns the arguments of this program that are not flags into ``--FLAG=argument``."""
    sys.argv[1:] = [part if part.startswith("-") else f"--{flag}={part}" for part in sys.argv[1:]]
