"""What a table holds: rows that repeat or contradict each other, labels that look alike, scripts. Nothing is changed
silently: every row that is left out has a reason, and labels are merged only when asked to.
"""

import collections
import dataclasses
import difflib
import math
import re
import unicodedata

from lwt import errors
from lwt.classify import table
from lwt.data import labels, text
from lwt.machine import command_line

CLEANER = text.Cleaner()  # texts that it makes equal are one text to a model
TYPO = 0.1  # a label with at most this share of the rows of a similar one may be a misspelling of it
ORDER = {"test": 0, "validation": 1, "train": 2, "": 3}  # a text that several parts share stays in the first


@dataclasses.dataclass(frozen=True)
class Looked:
    """What was found in a `table.Table`.

    Attributes:
        rows: the rows to use.
        left_out: the others, a list of `table.LeftOut`, in the order of the table.
        counts: ``{label: rows}`` of the rows to use, most frequent first.
        alike: groups of labels that differ in case, white space or punctuation alone.
        typos: ``{rare label: frequent label}`` that differ in a letter or two.
        spaced: ``{label: rows}`` whose label has white space around it in the table.
        merged: ``{label: (what it became, rows)}``.
        exact, normalized: rows that repeat the text of another row to the letter, and only after cleaning.
        scripts: ``{script: texts}``, most frequent first.
    """

    rows: list
    left_out: list
    counts: dict
    alike: list
    typos: dict
    spaced: dict
    merged: dict
    exact: int
    normalized: int
    scripts: dict


def look(found, *, merge=False, rename=None, min_rows=1):
    """Looks at a `table.Table`; returns a `Looked`.

    Args:
        merge: whether labels that differ in case, white space or punctuation alone become the most frequent of them.
        rename: ``{label: label}`` to replace.
        min_rows: labels with fewer rows are left out, with their rows.

    Raises:
        lwt.errors.ConfigError: `rename` names a label that is not there.
    """
    left_out, rows = list(found.left_out), []
    spaced = collections.Counter(row.label for row in found.rows if row.raw_label != row.raw_label.strip())
    renamed, merged = _merged(found.rows, merge=merge, rename=rename or {})
    for row in renamed:
        if CLEANER.clean(row.text):
            rows.append(row)
        else:
            left_out.append(table.LeftOut(row, "no text", "addresses and tags are all of the text"))
    rows, repeated = _distinct(rows)
    left_out += repeated
    counts = collections.Counter(row.label for row in rows)
    rare = {label for label, count in counts.items() if count < min_rows}
    for row in rows:
        if row.label in rare:
            reason = f"the label {row.label!r} has {counts[row.label]} rows, and --min_rows={min_rows}"
            left_out.append(table.LeftOut(row, "rare label", reason))
    rows = [row for row in rows if row.label not in rare]
    counts = dict(collections.Counter(row.label for row in rows).most_common())
    kinds = collections.Counter(wrong.kind for wrong in repeated)
    return Looked(
        rows=rows,
        left_out=sorted(left_out, key=lambda wrong: (ORDER[wrong.row.part], wrong.row.path, wrong.row.number)),
        counts=counts,
        alike=labels.near_duplicates(counts),
        typos=misspelled(counts),
        spaced=dict(spaced),
        merged=merged,
        exact=kinds["repeated"],
        normalized=kinds["nearly repeated"],
        scripts=scripts(row.text for row in rows),
    )


def check(looked, *, column):
    """Checks the labels of a `Looked`, which are those of `column`.

    Raises:
        lwt.errors.DataError: they are numbers with a fraction, or some of them not finite; or fewer than two.
    """
    numbers = [labels.number_of(label) for label in looked.counts]
    of_numbers = numbers and None not in numbers
    unclear = of_numbers and [label for label, x in zip(looked.counts, numbers) if not math.isfinite(x)]
    if unclear:
        raise errors.DataError(
            f"the labels of column {column!r} are numbers, but for {unclear[0]!r} ({looked.counts[unclear[0]]} rows); "
            f"leave those cells empty, or name the class: --rename_labels={unclear[0]}:NAME"
        )
    if of_numbers and any(number != int(number) for number in numbers):
        command = (
            "python train.py --config=configs/finetune.py:task=regress,data=folder:FOLDER,label=COLUMN --workdir=RUN"
        )
        raise errors.DataError(
            f"the labels of column {column!r} are numbers with a fraction; to predict numbers: "
            f"{command_line.as_called(command)}"
        )
    if not looked.counts:
        raise errors.DataError("no row is left to use")
    if len(looked.counts) < 2:
        (only,) = looked.counts
        raise errors.DataError(f"all rows to use have the label {only!r} in column {column!r}; a classifier needs two")


def misspelled(counts):
    """``{rare label: frequent label}`` of labels without digits that differ in a letter or two."""
    found = {}
    for rare, few in counts.items():
        for label, many in counts.items():
            near = len(rare) > 3 and abs(len(rare) - len(label)) <= 2 and not re.search(r"\d", rare + label)
            if near and few <= TYPO * many:
                same = difflib.SequenceMatcher(None, rare.casefold(), label.casefold(), autojunk=False).ratio()
                if same >= 1 - 1.6 / max(len(rare), len(label)) and labels.near_duplicates([rare, label]) == []:
                    found[rare] = label
    return found


def scripts(texts):
    """``{script: texts}`` by the script of most letters of a text, such as "Latin", most frequent first."""
    found = collections.Counter()
    for one in texts:
        letters = collections.Counter(_script(c) for c in one[:1000] if c.isalpha())
        found[letters.most_common(1)[0][0] if letters else "no letters"] += 1
    return dict(found.most_common())


def _script(letter):
    word = "Latin" if letter.isascii() else unicodedata.name(letter, "other").split()[0].capitalize()
    return {"Cjk": "Chinese characters", "Hiragana": "Japanese", "Katakana": "Japanese"}.get(word, word)


def _merged(rows, *, merge, rename):
    """``(rows, {label: (what it became, rows)})``."""
    counts = collections.Counter(row.label for row in rows)
    for label in rename:
        if label not in counts:
            raise errors.ConfigError(
                f"--rename_labels: no row has the label {label!r}; {errors.suggest(label, counts)}"
            )
    into = dict(rename)
    for label, count in [*counts.items()]:
        if label in rename:
            counts[rename[label]] += count
    if merge:
        for group in labels.near_duplicates([label for label in counts if label not in rename]):
            best = max(group, key=lambda label: (counts[label], label))
            into |= {label: best for label in group if label != best}
    into = {label: into.get(name, name) for label, name in into.items()}  # renamed to a label that is merged
    renamed = [dataclasses.replace(row, label=into[row.label]) if row.label in into else row for row in rows]
    return renamed, {label: (name, sum(row.label == label for row in rows)) for label, name in into.items()}


def _distinct(rows):
    """``(rows, left out)``: one row for each text; none for a text with several labels."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[CLEANER.clean(row.text)].append(row)
    kept, left_out = [], []
    for same in groups.values():
        found = list(dict.fromkeys(row.label for row in same))
        if len(found) > 1:
            who = ", ".join(f"{row.label!r} in {_place(row, same[0])}" for row in same[:4]) + ", ..." * (len(same) > 4)
            left_out += [table.LeftOut(row, "contradictory", f"the text has several labels: {who}") for row in same]
            continue
        first = min(same, key=lambda row: ORDER[row.part])
        kept.append(first)
        for row in same:
            if row is not first:
                exactly = row.text == first.text
                kind = "repeated" if exactly else "nearly repeated"
                how = "the text" if exactly else "the text, but for case, spaces or addresses,"
                left_out.append(table.LeftOut(row, kind, f"{how} is that of {_place(first, row)}"))
    return kept, left_out


def _place(row, other):
    """A row's number, and its file if it differs from that of the row `other`."""
    return f"row {row.number}" + f" of {row.path}" * (row.path != other.path)
