"""Errors that a user can fix. The command-line programs print them as one line and exit with code 2.

A message names the cause (the key, the file and line, the leaf) and says what would be right.
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


class DamageError(LwtError, ValueError):
    """A file is not as lwt wrote it."""


class WriteError(LwtError, OSError):
    """A file cannot be written: the disk is full, the folder is read-only, the name is too long."""

    def __str__(self):
        return f"{self.filename} cannot be written: {self.strerror}"


class NotFinite(LwtError):
    """A loss, a gradient or a leaf is not finite; the last good checkpoint is kept."""


def first_line(error):
    """The first line of another error's message, for a message of one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def suggest(word, choices, *, limit=12):
    """Ends a message about an unknown `word`: names the closest choice, or else lists the first `limit` choices."""
    choices = sorted(str(c) for c in choices)
    close = difflib.get_close_matches(str(word), choices, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    if not choices:
        return "there are no choices"
    return f"choose from {', '.join(choices[:limit])}{', ...' if len(choices) > limit else ''}"
