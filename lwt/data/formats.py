"""Files of records: ``.jsonl``, ``.json``, ``.csv``, ``.tsv``, ``.txt``, ``.parquet``, and pairs of text files.

All but ``.parquet`` may be gzipped. A ``.json`` is an array of objects, or one object per line. The first line of a
``.csv`` or ``.tsv`` names the fields, which hold text; only a ``.csv`` has quotes. Every line of a ``.txt`` is a record
with the fields ``text`` and ``document``; a blank line starts a new document. Of a pair such as ``train.de`` and
``train.en``, line i of both is record i, with the fields ``de`` and ``en``. `dialects` finds separators and encodings.
"""

import contextlib
import csv
import functools
import gzip
import io
import itertools
import json
import logging
import pathlib
import re
import zlib

from lwt import errors, extras
from lwt.data import dialects

LOG = logging.getLogger(__name__)
MAX_MEGABYTES = 256  # of a record, unless data.max_megabytes says otherwise
JSON_RECORDS = 4  # a .json is read whole, and may hold this many times what a record may


class Malformed(ValueError):
    """Why a record cannot be used."""


@functools.cache
def tell(note, level=logging.WARNING):
    """Logs a note once, however often its file is read."""
    LOG.log(level, "%s", note)


def of(path):
    """The format of a file, ".jsonl" for "train.JSONL.gz"; "" if it is not read."""
    name = path.name.lower()
    suffix = pathlib.PurePath(name.removesuffix(".gz")).suffix
    return suffix if suffix in READERS and not (suffix == ".parquet" and name.endswith(".gz")) else ""


def language(path):
    """The language in the name of one text of a pair, "de" for "train.de", "train.de.gz" and "train.de.txt"; or ""."""
    suffix = pathlib.PurePath(re.sub(r"(\.txt)?(\.gz)?$", "", path.name, flags=re.IGNORECASE)).suffix
    return suffix[1:] if LANGUAGE.fullmatch(suffix) and suffix.lower() not in NO_LANGUAGES else ""


def is_pair(paths):
    """Whether the files of a split are the texts of a pair."""
    return len(paths) > 1 and all(map(language, paths))


def is_running_text(paths):
    """Whether the files of a split hold running text, whose lines are not records of their own."""
    return of(paths[0]) == ".txt" and not is_pair(paths)


def read(paths, *, max_megabytes=MAX_MEGABYTES):
    """Yields ``(path, line, span, record)``: a record of a split, its first line, and the number of its lines.

    A record is a dict, or a `Malformed` that says why it cannot be used.

    Args:
        paths: files of one format, one after the other; or a pair of text files.
        max_megabytes: a longer line, cell or text is malformed.

    Raises:
        lwt.errors.DataError: a file is damaged.
    """
    limit = int(max_megabytes * 1e6)
    if is_pair(paths):
        yield from _pair(paths, limit)
        return
    for path in paths:
        try:
            for line, span, record in READERS[of(path)](path, limit):
                yield path, line, span, record
        except MemoryError as error:
            raise errors.DataError(f"{path} does not fit into memory; split it into smaller files") from error


def _pair(paths, limit):
    names = [language(path).lower() if language(path).isalpha() else language(path) for path in paths]
    for numbered in itertools.zip_longest(*(_texts(path, limit) for path in paths)):
        if None in numbered:
            short, whole = (next(p for p, x in zip(paths, numbered) if (x is None) == over) for over in (True, False))
            raise errors.DataError(f"{short} has fewer lines than {whole}; the lines of a pair must correspond")
        number, texts = numbered[0][0], [text for _, text in numbered]
        wrong = next((text for text in texts if isinstance(text, Malformed)), None)
        yield paths[0], number, 1, wrong or {n: text.rstrip("\r\n") for n, text in zip(names, texts, strict=True)}


def _jsonl(path, limit):
    # By the lines of the file: a JSON string may hold U+0085 or U+2028, which str.splitlines would cut at.
    for number, text in _texts(path, limit):
        record = text
        if not isinstance(text, Malformed):
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                record = Malformed(f"bad JSON: {error}")
        yield number, 1, _object(record)


def _json(path, limit):
    with _damage(path, lambda: "the beginning"), _open(path) as file:
        content = file.read(JSON_RECORDS * limit + 1)
    if len(content) > JSON_RECORDS * limit:
        raise errors.DataError(
            f"{path} is larger than {JSON_RECORDS * limit / 1e6:.0f} MB; write one record per line (.jsonl), or raise "
            f"data.max_megabytes={limit / 1e6:g}"
        )
    if content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"[":
        yield from _jsonl(path, limit)
        return
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.DataError(f"{path}: bad UTF-8 at byte {error.start}") from error
    decoder, at, line, counted = json.JSONDecoder(), text.index("[") + 1, 1, 0
    while True:
        at = SPACE.match(text, at).end()
        line, counted = line + text.count("\n", counted, at), at
        if text.startswith("]", at):
            if text[at + 1 :].strip():
                raise errors.DataError(f"{path}:{line}: more follows the array; a .json must be one array")
            return
        try:
            record, at = decoder.raw_decode(text, at)
            at = SPACE.match(text, at).end()
            if text[at : at + 1] not in (",", "]"):
                raise ValueError("expected ',' or ']' after a record")
        except (ValueError, RecursionError) as error:
            raise errors.DataError(f"{path}:{line}: bad JSON: {error}") from error
        at += text.startswith(",", at)
        yield line, 1, _object(record)


def _object(record):
    if isinstance(record, Malformed) or (isinstance(record, dict) and record):
        return record
    return Malformed(f"expected a JSON object with fields, found {json.dumps(record, ensure_ascii=False)!r:.40}")


def _txt(path, limit):
    document = None
    for number, text in _texts(path, limit):
        if isinstance(text, Malformed):
            yield number, 1, text
            continue
        text = text.strip()
        document = (document or f"{path}:{number}") if text else None
        if text:
            yield number, 1, {"text": text, "document": document}


def dialect(path):
    """``(what separates the cells, whether a spreadsheet wrote them)`` of a ``.csv`` or ``.tsv``."""
    with _damage(path, lambda: "the beginning"), _open(path) as file:
        separator, spreadsheet = dialects.of(file.read(dialects.SNIFFED))
    return "\t" if of(path) == ".tsv" else separator, spreadsheet


def _csv(path, limit):
    with _damage(path, lambda: "the beginning"), _open(path) as file:
        encoding, wrong = dialects.encoding_of(file.read(dialects.SNIFFED)), []
    if encoding == dialects.WINDOWS:
        tell(f"{path} is not in UTF-8; it is read as Windows-1252")

    def decoded():
        for _, text in _texts(path, limit, encoding=encoding):
            if isinstance(text, Malformed):
                wrong.append(text)
                text = "\n"
            yield text

    csv.field_size_limit(limit)
    lines = decoded()
    first = next(lines, "")
    if of(path) == ".tsv":
        form = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    else:
        form = {"delimiter": dialects.separator_of(first), "strict": True}
        if form["delimiter"] != ",":
            tell(f"{path}: the cells are separated by {dialects.SEPARATORS[form['delimiter']]}", logging.INFO)
    rows, header, last, merged = csv.reader(itertools.chain([first] * bool(first), lines), **form), None, 0, []
    while True:
        try:
            cells = next(rows)
        except StopIteration:
            break
        except csv.Error as error:
            cells = Malformed(_too_long(limit) if "field limit" in str(error) else dialects.problem(error))
        first, last = last + 1, rows.line_num
        if wrong:
            cells = wrong[0]
            wrong.clear()
        if header is None:
            if isinstance(cells, Malformed) or not cells or len(set(cells)) != len(cells):
                raise errors.DataError(f"{path}:{first}: the first line must name the fields, each once: {cells}")
            header = cells
        elif isinstance(cells, Malformed):
            yield first, last - first + 1, cells
        elif len(cells) != len(header) and cells:
            message = f"{len(cells)} cells instead of {len(header)} ({', '.join(header)})"
            yield first, last - first + 1, Malformed(message)
        elif cells:
            if last > first and any(
                dialects.looks_merged(cell, len(header) - 1, separator=form["delimiter"]) for cell in cells
            ):
                merged.append((first, last))
            yield first, 1, dict(zip(header, cells, strict=True))
    if merged:
        (first, last), count = merged[0], sum(last - first + 1 for first, last in merged)
        cells = "1 cell spans" if len(merged) == 1 else f"{len(merged)} cells span"
        tell(f"{path}: {cells} {count} lines that look like records; check the quotes in lines {first}-{last}")


def _texts(path, limit, *, encoding=dialects.UTF_8):
    """``(number from 1, text or Malformed)`` of every line of a file."""
    number = 0
    with _damage(path, lambda: f"line {number}"), _open(path) as file:
        while line := file.readline(limit + 1):
            number += 1
            if len(line) > limit:
                while line and not line.endswith(b"\n"):
                    line = file.readline(1 << 20)
                yield number, Malformed(_too_long(limit))
                continue
            if b"\0" in line:
                yield number, Malformed("zero bytes: the file is damaged, or its text is not UTF-8")
                continue
            try:
                yield number, line.decode("utf-8-sig" if number == 1 and encoding == dialects.UTF_8 else encoding)
            except UnicodeDecodeError as error:
                yield number, Malformed(f"bad UTF-8 at byte {error.start}")


def _too_long(limit):
    return f"longer than data.max_megabytes={limit / 1e6:g} allows"


def _open(path):
    zipped = path.name.lower().endswith(".gz")
    return dialects.as_utf8(io.BufferedReader(gzip.open(path)) if zipped else open(path, "rb"))


@contextlib.contextmanager
def _damage(path, where):
    try:
        yield
    except PermissionError as error:
        raise errors.DataError(f"{path} cannot be read: {error.strerror}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise errors.DataError(
            f"{path} is damaged after {where()} ({errors.first_line(error)}); get the file again"
        ) from error


def _parquet(path, limit):
    parquet = extras.load("pyarrow.parquet", f"{path}, a Parquet file,")  # imported here because it is slow
    import pyarrow

    row = 0
    try:
        for batch in parquet.ParquetFile(path, page_checksum_verification=True).iter_batches(batch_size=1024):
            for record in batch.to_pylist():
                row += 1
                long = any(isinstance(value, str) and len(value) > limit for value in record.values())
                yield row, 1, Malformed(_too_long(limit)) if long else record
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise errors.DataError(
            f"{path} is damaged after row {row} ({errors.first_line(error)}); get the file again"
        ) from error


READERS = {
    **{".jsonl": _jsonl, ".ndjson": _jsonl, ".json": _json, ".csv": _csv, ".tsv": _csv, ".txt": _txt},
    ".parquet": _parquet,
}
SPACE = re.compile(r"\s*")
LANGUAGE = re.compile(r"\.([a-z]{2,3}([-_][A-Za-z]{2,4})?|source|target)", re.IGNORECASE)
NO_LANGUAGES = set(  # suffixes of other files
    ".7z .bak .bat .bib .bin .bmp .bz2 .cc .cfg .cpp .css .csv .dat .db .doc .gif .go .gz .h5 .hdf .hpp .htm .idx .ini "
    ".jar .jpg .js .jsx .lck .log .md .mp3 .mp4 .npy .npz .old .org .out .pb .pdf .php .pgm .pkl .png .ppm .ppt .pth "
    ".py .pyc .rar .rb .rs .rst .rtf .sh .so .sql .svg .swp .tar .tex .tgz .tif .tmp .toc .tsv .txt .wav .xls .xml .xz "
    ".yml .zip .zst".split()
)
