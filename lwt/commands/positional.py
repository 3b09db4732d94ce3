"""Arguments of a program that are neither flags nor values of flags."""

import sys

from absl import flags


def name(flag):
    """Turns such arguments of this program into ``--FLAG=argument``; comes after the flags are defined."""
    parts, is_value = [], False
    for part in sys.argv[1:]:
        is_flag = part.startswith("-")
        parts.append(part if is_flag or is_value else f"--{flag}={part}")
        is_value = is_flag and "=" not in part and not _is_boolean(part.lstrip("-"))
    sys.argv[1:] = parts


def _is_boolean(name):
    """Whether a flag takes no value after a space, as ``--debug`` and ``--nodebug`` take none."""
    return flags.FLAGS[name].boolean if name in flags.FLAGS else name.removeprefix("no") in flags.FLAGS
