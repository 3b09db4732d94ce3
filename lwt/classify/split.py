"""Divides the rows of a table into training, validation and test parts, each class by the same shares.

No text may be in two parts: `look.look` has left one row for each text, and the run's own ``data.leak_free`` holds.
Parts that come as files stay as they are. A class of fewer than three rows is all in the training part, so that no part
that is drawn measures it.
"""

import collections
import json
import pathlib
import zlib

import numpy as np

from lwt import errors, files
from lwt.classify import table

SHARES = {"test": 0.15, "validation": 0.1}  # of the rows of a class, of the parts that must be drawn
LEAST = 20  # rows of a table to divide


def split(rows, *, seed=0, given=()):
    """``{part: [Row, ...]}`` for `table.PARTS`, in the order of the table.

    Args:
        rows: of `look.Looked`.
        seed: of the draw; a class is drawn by itself, so that another class does not change it.
        given: the parts that come as files, as `table.Table.files` names them.

    Raises:
        lwt.errors.DataError: there are fewer than `LEAST` rows to divide, or a given part has no row left.
    """
    parts = {part: [row for row in rows if row.part == part] for part in table.PARTS}
    parts["train"] = parts["train"] or [row for row in rows if not row.part]
    for part, mine in parts.items():
        if not mine and part in {*given, "train"}:
            name = "training" if part == "train" else part
            raise errors.DataError(f"no row of the {name} part can be used; classify/left_out.csv lists the reasons")
    missing = [part for part in SHARES if not parts[part]]
    if not missing:
        return parts
    if len(parts["train"]) < LEAST:
        raise errors.DataError(f"{len(parts['train'])} rows can be used; a table to divide needs at least {LEAST}")
    classes = collections.defaultdict(list)
    for number, row in enumerate(parts["train"]):
        classes[row.label].append(number)
    drawn = {part: set() for part in missing}
    for label, numbers in classes.items():
        order = np.random.default_rng([seed, zlib.crc32(label.encode())]).permutation(numbers).tolist()
        for part in missing if len(order) > 2 else ():
            count = max(1, round(SHARES[part] * len(numbers)))
            drawn[part].update(order[:count])
            order = order[count:]
    taken = set().union(*drawn.values())
    train = parts["train"]
    parts |= {part: [train[number] for number in sorted(numbers)] for part, numbers in drawn.items()}
    parts["train"] = [row for number, row in enumerate(train) if number not in taken]
    for part in missing:
        if not parts[part]:
            raise errors.DataError(
                f"every label has fewer than {len(missing) + 1} rows, too few to divide; --label names another column"
            )
    return parts


def untested(parts):
    """``{label: training rows}`` of the classes without a row in the test."""
    tested = {row.label for row in parts["test"]}
    return dict(collections.Counter(row.label for row in parts["train"] if row.label not in tested))


def write(parts, folder, *, label):
    """Writes ``PART.jsonl`` for each part: the text's columns, the label, and the number of the row in the table."""
    for part, rows in parts.items():
        lines = []
        for row in rows:
            number = {} if "row" in row.fields or label == "row" else {"row": row.number}
            lines.append(json.dumps(row.fields | {label: row.label} | number, ensure_ascii=False) + "\n")
        files.write_text(pathlib.Path(folder, f"{part}.jsonl"), "".join(lines))
