"""The tokenizer in the folder of a run or a bundle.

SentencePiece's ``tokenizer.model``, a ``tokenizer.json``, or the ``tokenizer.marian`` of a pair of languages.
"""

import os
import pathlib

from lwt import errors, files
from lwt.data import hf_tokenizer, marian_tokenizer, tokenizer

NAMES = (tokenizer.FILE, hf_tokenizer.FILE, marian_tokenizer.FILE)
KINDS = {pathlib.Path(kind.FILE).suffix: kind for kind in (hf_tokenizer, marian_tokenizer)}  # others: SentencePiece


def path_in(folder):
    """The path of the tokenizer of a folder; that of the ``tokenizer.model`` it lacks, if it has none."""
    paths = [os.path.join(folder, name) for name in NAMES]
    return next(filter(os.path.exists, paths), paths[0])


def load(path, *, specials=tokenizer.SEQ2SEQ):
    """The tokenizer of a file, which its suffix tells.

    Args:
        specials: of a SentencePiece model, `tokenizer.SEQ2SEQ` or `tokenizer.ENCODER`.

    Raises:
        lwt.errors.DataError: the file is missing or damaged, or its special ids do not fit.
    """
    kind = KINDS.get(pathlib.Path(path).suffix)
    return kind.Tokenizer(path) if kind else tokenizer.Tokenizer(path, specials=specials)


def copy(given, folder, *, specials=tokenizer.SEQ2SEQ):
    """Copies the tokenizer of the file `given` into a folder; raises what `load` raises."""
    load(given, specials=specials)
    files.copy(given, os.path.join(folder, KINDS.get(pathlib.Path(given).suffix, tokenizer).FILE))


def of_run(folder, base="", *, specials=tokenizer.SEQ2SEQ):
    """The tokenizer of a run, which must be that of the run `base` it starts from; an adapter alone has none.

    A missing base is not compared, since it may have moved.

    Raises:
        lwt.errors.DataError: the tokenizer is missing or damaged, or is not that of the base.
    """
    path, other = path_in(folder), path_in(base) if base else ""
    there = bool(other) and os.path.exists(other)
    own = load(other if there and not os.path.exists(path) else path, specials=specials)
    if there and load(other, specials=specials).fingerprint != own.fingerprint:
        raise errors.DataError(
            f"{own.path} is not the tokenizer of {os.path.dirname(other)}, whose weights fit no other tokenizer; "
            "remove it (and data.tokenizer.path) to use that of init_from"
        )
    return own
