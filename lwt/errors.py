"""Errors that a user can mend. The command-line programs print them as one line and exit with code 2.

A message names the culprit (the key, the file and line, the leaf) and says what would be right.
"""

import difflib


class LwtError(Exception):
    """Base of all errors below."""


class ConfigError(LwtError):
    """A key, value or name in a config (or a flag) is wrong."""


class DataError(LwtError):
    """A data set, a record or a tokenizer is missing or malformed."""


class CheckpointError(LwtError):
    """A checkpoint is missing, damaged, or belongs to something else."""


class NotFinite(LwtError):
    """A loss or a gradient is not a number; the last good checkpoint is kept."""


def suggest(word, choices, *, limit=12):
    """Ends a sentence about an unknown `word`: the nearest choice, or what there is."""
    choices = sorted(str(c) for c in choices)
    close = difflib.get_close_matches(str(word), choices, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(choices[:limit]) + (", ..." if len(choices) > limit else "")
    return f"there is: {shown or 'nothing'}"
