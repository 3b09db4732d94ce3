"""Running text as ids: lines in the order of their documents, tokenized once and mapped into memory.

A record with a field ``document`` is one line of that document, and lines of a document follow each other: so it is in
a ``.txt``, where a blank line ends a document. Any other record with a text (`text_fields.FIELDS`) is a document of its own,
cut at line breaks and ends of sentences; if most records have one sentence or two, all of them are one document. Of
sources that are joined, every one is looked at alone.
"""

import dataclasses
import json
import logging
import os
import pathlib
import re
import shutil
import zlib

import numpy as np

from lwt import errors
from lwt.data import sources, text_fields
from lwt.data.batches import tokenized

LOG = logging.getLogger(__name__)
SENTENCE = re.compile(r"\n+|(?<=[.!?])\s+|(?<=[.!?][\"')\]])\s+")
META = "meta.json"


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Lines of ids: line i is ``values[offsets[i]:offsets[i + 1]]``, and document j has the lines
    ``range(documents[j], documents[j + 1])``. No line is empty.

    Attributes:
        fingerprint: of the text, the cleaning and the tokenizer.
    """

    values: np.ndarray  # uint16 or int32
    offsets: np.ndarray  # int64
    documents: np.ndarray  # int64
    fingerprint: str

    def __len__(self):
        return len(self.offsets) - 1


def load(name, *, split="train", max_malformed=0.01):
    """The source `name` of running text, or of any records that have a text; see `sources.load`.

    Raises:
        lwt.errors.DataError: as `sources.load`; or the records have no field of `text_fields.FIELDS`.
    """
    parts = []
    for part in sources.parts_of(name):
        found = sources.load(part, split=split, fields=(), max_malformed=max_malformed)
        if "document" not in found.fields:  # records may lack a text, and are to be counted then
            fields = text_fields.required(text_fields.choose(part, found.fields))
            found = sources.load(part, split=split, fields=fields, max_malformed=max_malformed)
        parts.append(found)
    return sources.join(parts)


def lines(source):
    """Yields ``(texts, documents)`` of chunks of records: lines, and the running number of the document of each.

    Raises:
        lwt.errors.DataError: no field of `text_fields.FIELDS`, or something else than text in it.
    """
    number = -1
    for part in source.parts:
        named, fields, last = "document" in part.fields, text_fields.choose(part.name, part.fields), None
        alone = False if named else _are_sentences(part, fields)
        for start in range(0, len(part), tokenized.CHUNK):
            texts, documents = [], []
            for i, record in enumerate(part.read(start, start + tokenized.CHUNK), start):
                key = (record["document"] if named else 0 if alone else i,)
                number, last = number + (key != last), key
                found = _texts(part, i, record, fields)
                found = found if named else [sentence for text in found for sentence in sentences(text)]
                texts.extend(found)
                documents.extend([number] * len(found))
            yield texts, documents


def sentences(text):
    """The lines of a text, and of each line its sentences."""
    return [sentence for sentence in map(str.strip, SENTENCE.split(text)) if sentence]


def _texts(source, i, record, fields):
    try:
        return text_fields.texts_of(record, fields)
    except errors.DataError as error:
        raise errors.DataError(f"{source.name}, record {i}: {error}") from error


def _are_sentences(source, fields):
    records = [_texts(source, i, record, fields) for i, record in enumerate(source.read(0, 1000))]
    return sum(sum(map(len, map(sentences, texts))) > 2 for texts in records) * 2 < len(records)


def tokenize(source, tokens, *, cleaner, cache_dir):
    """Cleans and encodes a source's text: a `Corpus`, of which only what is used is in memory.

    Args:
        source: a `sources.Source` with a text.
        tokens: a `tokenizer.Tokenizer`.
        cleaner: a `text.Cleaner`.
        cache_dir: where the result is kept, by fingerprint of all of the above; a damaged file is made anew.

    Raises:
        lwt.errors.DataError: see `lines`; or there is no text.
    """
    key = sources.digest("corpus 2", source.fingerprint, tokens.fingerprint, cleaner)
    folder = pathlib.Path(cache_dir) / key
    corpus = _open(folder)
    if corpus is None:
        part = folder.with_name(f"{key}.{os.getpid()}.part")
        part.mkdir(parents=True, exist_ok=True)
        _write(part, source, tokens, cleaner)
        try:
            part.replace(folder)
        except OSError:  # another process was faster
            shutil.rmtree(part)
        corpus = _open(folder)
    return corpus


def _write(folder, source, tokens, cleaner):
    kind = np.dtype(np.uint16 if tokens.pieces <= 1 << 16 else np.int32)
    lengths, documents, checksum = [], [], 0
    with open(folder / "values", "wb") as file:
        for texts, numbers in lines(source):
            rows = tokenized.RaggedArray.of(tokens.encode([cleaner.clean(text) for text in texts]))
            kept = rows.lengths > 0
            lengths.append(rows.lengths[kept])
            documents.append(np.asarray(numbers, np.int64)[kept])
            block = rows.values.astype(kind).tobytes()
            checksum = zlib.crc32(block, checksum)
            file.write(block)
    lengths, documents = np.concatenate(lengths), np.concatenate(documents)
    if not len(lengths):
        raise errors.DataError(f"{source.name} has no text")
    offsets = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
    starts = np.flatnonzero(np.diff(documents, prepend=-1))
    starts = np.append(starts, len(lengths)).astype(np.int64)
    for name, array in (("offsets", offsets), ("documents", starts)):
        (folder / name).write_bytes(array.tobytes())
        checksum = zlib.crc32(array, checksum)
    meta = {"dtype": kind.name, "tokens": int(offsets[-1]), "checksum": checksum}
    (folder / META).write_text(json.dumps(meta))


def _open(folder):
    """The corpus there, or None: it is missing, or damaged and removed."""
    if not folder.is_dir():
        return None
    try:
        meta = json.loads((folder / META).read_text())
        values = np.memmap(folder / "values", dtype=meta["dtype"], mode="r")
        offsets, documents = (np.fromfile(folder / name, np.int64) for name in ("offsets", "documents"))
        if len(values) != meta["tokens"] or _checksum(values, offsets, documents) != meta["checksum"]:
            raise ValueError("its checksum is wrong")
        return Corpus(values, offsets, documents, folder.name)
    except (OSError, ValueError, KeyError, TypeError) as error:
        LOG.warning("the cache %s is damaged (%s) and is made anew", folder, error)
        shutil.rmtree(folder)
        return None


def _checksum(*arrays):
    checksum = 0
    for array in arrays:
        for start in range(0, len(array), 1 << 24):
            checksum = zlib.crc32(np.ascontiguousarray(array[start : start + (1 << 24)]), checksum)
    return checksum
