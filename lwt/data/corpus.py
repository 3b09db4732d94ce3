"""Running text as ids: lines in the order of their documents, tokenized once and mapped into memory.

A record with a field ``document`` is one line of that document, and the lines of a document follow each other; a
``.txt`` has such records, where a blank line ends a document. Any other record with a text (`text_fields.FIELDS`) is a
document of its own, cut at line breaks and ends of sentences; if most records have one or two sentences, all of them
are one document. Each part of a joined source is judged alone.
"""

import contextlib
import dataclasses
import json
import logging
import pathlib
import re
import secrets
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
    """The lines of documents as ids; no line is empty.

    Attributes:
        values: uint16 or int32; line i is ``values[offsets[i]:offsets[i + 1]]``.
        offsets: int64.
        documents: int64; document j has the lines ``range(documents[j], documents[j + 1])``.
        fingerprint: a hash of the text, the cleaning and the tokenizer.
    """

    values: np.ndarray
    offsets: np.ndarray
    documents: np.ndarray
    fingerprint: str

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
    return sources.join(parts)


def lines(source):
    """Yields ``(lines, numbers)`` of chunks of records; the number of a line is that of its document.

    Raises:
        lwt.errors.DataError: a record has no text, or something other than text in its place.
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


def tokenize(source, tokens, *, cleaner, cache_dir):
    """Cleans and encodes the text of a source: a `Corpus` that is mapped into memory.

    Args:
        source: a `sources.Source` with a text.
        tokens: a `tokenizer.Tokenizer`.
        cleaner: a `text.Cleaner`.
        cache_dir: the folder that keeps the result under the fingerprints of all of the above; a damaged result is
            written again.

    Raises:
        lwt.errors.DataError: see `lines`; or the source has no text.
    """
    key = sources.digest("corpus 2", source.fingerprint, tokens.fingerprint, cleaner)
    folder = pathlib.Path(cache_dir) / key
    corpus = _open(folder)
    if corpus is None:
        # Not `files.replacing_folder`: another process may already map the folder that was there first.
        temporary = folder.with_name(f".{secrets.token_hex(8)}.tmp")
        temporary.mkdir(parents=True)
        try:
            _write(temporary, source, tokens=tokens, cleaner=cleaner)
            with contextlib.suppress(OSError):  # another process was faster
                temporary.replace(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        corpus = _open(folder)
    return corpus


def _write(folder, source, *, tokens, cleaner):
    dtype = np.dtype(np.uint16 if tokens.pieces <= 1 << 16 else np.int32)
    lengths, documents, checksum = [], [], 0
    with open(folder / "values", "wb") as file:
        for texts, numbers in lines(source):
            rows = tokenized.RaggedArray.of(tokens.encode([cleaner.clean(text) for text in texts]))
            real = rows.lengths > 0
            lengths.append(rows.lengths[real])
            documents.append(np.asarray(numbers, np.int64)[real])
            block = rows.values.astype(dtype).tobytes()
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
    meta = {"dtype": dtype.name, "tokens": int(offsets[-1]), "checksum": checksum}
    (folder / META).write_text(json.dumps(meta))


def _open(folder):
    """The corpus in a folder; None if it is missing. A damaged one is removed."""
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
        LOG.warning("the cache %s is damaged (%s); tokenizing again", folder, error)
        shutil.rmtree(folder)
        return None


def _checksum(*arrays):
    checksum = 0
    for array in arrays:
        for start in range(0, len(array), 1 << 24):
            checksum = zlib.crc32(np.ascontiguousarray(array[start : start + (1 << 24)]), checksum)
    return checksum
