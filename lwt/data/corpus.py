"""Running text as ids: lines in the order of their documents, tokenized once and mapped into memory.

A record with a field ``document`` is one line of that document, and the lines of a document follow each other; a
``.txt`` has such records, where a blank line ends a document. Any other record with a text (`text_fields.FIELDS`) is a
document of its own, cut at line breaks and ends of sentences; if most records have one or two sentences, all of them
are one document. Each part of a joined source is judged alone.
"""

import dataclasses
import functools
import re

import numpy as np

from lwt import errors
from lwt.data import array_cache, sources, text_fields
from lwt.data.batches import tokenized

SENTENCE = re.compile(r"\n+|(?<=[.!?])\s+|(?<=[.!?][\"')\]])\s+")


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The lines of documents as ids; no line is empty."""

    values: np.ndarray  # uint16 or int32; line i is ``values[offsets[i]:offsets[i + 1]]``
    offsets: np.ndarray  # int64
    documents: np.ndarray  # int64; document j has the lines ``range(documents[j], documents[j + 1])``
    fingerprint: str  # a hash of the text, the cleaning and the tokenizer

    def __len__(self):
        return len(self.offsets) - 1


def load(name, *, split="train", **options):
    """Loads the source `name` of running text, or of any records that have a text; raises as `sources.load` does."""
    parts = []
    for part in sources.parts_of(name):
        source = sources.load(part, split=split, fields=(), **options)
        if "document" not in source.fields:  # load again, so that records without a text count as malformed
            fields = text_fields.required(text_fields.choose(part, source.fields))
            source = sources.load(part, split=split, fields=fields, **options)
        parts.append(source)
    return sources.join(parts, labels=False)


def lines(source):
    """Yields ``(lines, numbers)`` of chunks of records; the number of a line is that of its document.

    Raises:
        lwt.errors.DataError: a record has no text, or something other than text in its place.
    """
    number = -1
    for part in source.parts:
        named, fields, last = "document" in part.fields, text_fields.choose(part.name, part.fields), None
        alone = False if named else _are_sentences(part, fields)
        for start in range(0, len(part), sources.CHUNK):
            texts, documents = [], []
            for i, record in enumerate(part.read(start, start + sources.CHUNK), start):
                key = (record["document"] if named else 0 if alone else i,)
                number, last = number + (key != last), key
                new = _texts(part, i, record=record, fields=fields)
                new = new if named else [sentence for text in new for sentence in sentences(text)]
                texts.extend(new)
                documents.extend([number] * len(new))
            yield texts, documents


def sentences(text):
    """Splits a text into its lines, and each line into its sentences."""
    return [sentence for sentence in map(str.strip, SENTENCE.split(text)) if sentence]


def _texts(source, i, *, record, fields):
    try:
        return text_fields.texts_of(record, fields)
    except errors.DataError as error:
        raise errors.DataError(f"{source.where(i)}: {error}") from error


def _are_sentences(source, fields):
    records = [_texts(source, i, record=record, fields=fields) for i, record in enumerate(source.read(0, 1000))]
    return sum(sum(map(len, map(sentences, texts))) > 2 for texts in records) * 2 < len(records)


def tokenize(source, tokens, *, cleaner, folders):
    """Cleans and encodes the text of a source: a `Corpus` that is mapped into memory.

    Args:
        source: a `sources.Source` with a text.
        tokens: a `tokenizer.Tokenizer`.
        cleaner: a `text.Cleaner`.
        folders: see `array_cache.cached`.

    Raises:
        lwt.errors.DataError: see `lines`; or the source has no text.
    """
    fingerprint = sources.digest("corpus 2", source.fingerprint, tokens.fingerprint, cleaner)
    make = functools.partial(_make, source=source, tokens=tokens, cleaner=cleaner)
    found = array_cache.cached(sources.digest("arrays 1", fingerprint), folders, make=make)
    return Corpus(found["values"], found["offsets"], found["documents"], fingerprint)


def _make(append, *, source, tokens, cleaner):
    count, total, last = 0, 0, -1  # lines, tokens, the number of the last document
    append("offsets", np.zeros(1, np.int64))
    for texts, numbers in lines(source):
        rows = tokenized.RaggedArray.of(tokens.encode([cleaner.clean(text) for text in texts]))
        real = rows.lengths > 0
        numbers = np.asarray(numbers, np.int64)[real]
        append("values", rows.values.astype(tokens.dtype))
        append("offsets", total + rows.lengths[real].cumsum())
        append("documents", count + np.flatnonzero(np.diff(numbers, prepend=last)))
        count, total, last = count + len(numbers), total + len(rows.values), numbers[-1] if len(numbers) else last
    if not count:
        raise errors.DataError(f"{source.name} has no text")
    append("documents", np.array([count]))
