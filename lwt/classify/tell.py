"""Says in sentences what a table holds, and writes the list of the rows that are left out."""

import csv
import io
import shlex

import numpy as np

from lwt import files
from lwt.classify import split, table
from lwt.data import tokenizer

SHOWN = 12  # labels in a sentence
WHY = {  # kind of a row that is left out -> what such rows are
    "malformed": "that cannot be read",
    "no text": "without a text",
    "no label": "without a label",
    "contradictory": "whose text has several labels",
    "repeated": "with the text of another row",
    "nearly repeated": "with the text of another row but for case, spaces or addresses",
    "rare label": "whose label has too few rows",
}


def all_of(sentences, say):
    """Says each sentence, indented."""
    for sentence in sentences:
        say(f"  {sentence}")


def of_rows(found, looked):
    """Sentences on the rows of a `table.Table` and what `look.look` found in them."""
    paths = ", ".join(str(path) for paths in found.files.values() for path in paths)
    kinds = table.counts(looked.left_out)
    total = len(looked.rows) + sum(kinds.values())
    yield f"{paths}: {total:,} rows, of which {len(looked.rows):,} are used."
    yield from found.notes
    for kind, why in WHY.items():
        if kinds[kind]:
            yield f"Left out: {_rows(kinds[kind])} {why}."
    scripts = ", ".join(f"{script} {100 * count / len(looked.rows):.3g} %" for script, count in looked.scripts.items())
    if scripts:
        yield f"Script of the texts: {scripts}."


def of_labels(looked):
    """Sentences on the labels."""
    shown = ", ".join(f"{label} {count:,}" for label, count in [*looked.counts.items()][:SHOWN])
    more = f" and {len(looked.counts) - SHOWN} more" if len(looked.counts) > SHOWN else ""
    if shown:
        yield f"{len(looked.counts)} label{'s' * (len(looked.counts) != 1)}: {shown}{more}."
    if looked.spaced:
        yield f"White space around a label does not count: {_rows(sum(looked.spaced.values()))}."
    if looked.merged:
        became = ", ".join(f"{label!r} ({count:,}) to {into!r}" for label, (into, count) in looked.merged.items())
        yield f"Labels changed as you asked: {became}."
    for group in looked.alike:
        names = ", ".join(f"{label!r} ({looked.counts[label]:,})" for label in group)
        yield f"Labels that are nearly equal and stay different classes: {names}; --merge_labels merges them."
    if looked.typos:
        pairs = ", ".join(f"{rare!r} ({looked.counts[rare]:,}) for {label!r}" for rare, label in looked.typos.items())
        flag = ",".join(f"{rare}:{label}" for rare, label in looked.typos.items())
        can = flag.count(":") == len(looked.typos) and flag.count(",") == len(looked.typos) - 1
        how = f"{shlex.quote(f'--rename_labels={flag}')} renames them" if can else "rename them in the table"
        yield f"Rare labels that may be misspelled: {pairs}; {how}."


def of_parts(parts):
    """Sentences on the parts of `split.split`."""
    sizes = ", ".join(f"{part} {len(rows):,}" for part, rows in parts.items())
    yield f"Parts: {sizes}; no text is in two of them."
    lost = split.untested(parts)
    if lost:
        names = ", ".join(f"{label} ({count})" for label, count in lost.items())
        yield f"Without a row in the test, so that no figure covers them: {names}; --min_rows=3 leaves such labels out."
    new = {row.label for part in table.PARTS[1:] for row in parts[part]} - {row.label for row in parts["train"]}
    if new:
        yield f"Labels without a training row, which count as wrong answers: {', '.join(sorted(new))}."


def of_tokens(ids, *, longest, own):
    """Sentences on the lengths of the texts in tokens.

    Args:
        ids: of all texts, ``[[id, ...], ...]``, without special ones.
        longest: tokens of the longest row, the special ones included.
        own: the run's tokenizer.
    """
    lengths = np.array([len(one) for one in ids]) + own.frame.count(1)
    middle, high, most = (int(np.quantile(lengths, share, method="inverted_cdf")) for share in (0.5, 0.95, 1))
    cut = int((lengths > longest).sum())
    share = f"{100 * cut / len(lengths):.2g} % are longer than {longest} and lose their end" if cut else ""
    yield (
        f"Tokens of a text: the median is {middle}, 95 % have at most {high}, the longest has {most}; "
        f"{share or 'none is cut'}."
    )
    unknown = tokenizer.unknown_share(np.concatenate([np.array(one, int) for one in ids]), own)
    if unknown > 0.01:
        yield (
            f"{100 * unknown:.2g} % of the tokens are unknown to the model: its trained weights are of another "
            "language; --model=embedder starts from scratch, with a vocabulary of the table."
        )


def of_ngrams(right):
    """A sentence on the network, the linear model of n-grams and their sum.

    Args:
        right: the accuracy of each on the validation part, see `ngrams.add`.
    """
    return (
        f"Right on the validation part: the network {100 * right['network']:.1f} %, a linear model of n-grams "
        f"{100 * right['ngrams']:.1f} %, the sum of the two, which is the run, {100 * right['both']:.1f} %."
    )


def _rows(count):
    return f"{count:,} row{'s' * (count != 1)}"


def left_out(looked):
    """The rows that are left out as a ``.csv``: their place, the reason, the label and the text."""
    content = io.StringIO()
    writer = csv.writer(content)
    writer.writerow(["file", "row", "line", "kind", "reason", "label", "text"])
    for wrong in looked.left_out:
        row = wrong.row
        writer.writerow([row.path, row.number, row.line, wrong.kind, wrong.reason, row.raw_label, row.text])
    return content.getvalue()


def write_left_out(path, looked):
    """Writes `left_out` to a file, with the byte-order mark by which spreadsheets know UTF-8."""
    files.write_bytes(path, left_out(looked).encode("utf-8-sig"))
