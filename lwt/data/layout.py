"""The files of records in a folder: which of them make up which split.

    SPLIT.jsonl                       one file of any format of `formats`
    SPLIT-00000-of-00002.parquet      shards, as the Hugging Face Hub names them; or SPLIT_0.csv, SPLIT_1.csv, ...
    SPLIT.de, SPLIT.en                a pair of text files
    SPLIT/*.jsonl                     the files of a folder named train, validation or test (or a synonym) are shards

All of this may also lie in a subfolder ``data``. Nothing is guessed from the size of a file.
"""

import collections
import dataclasses
import re

from lwt import errors
from lwt.data import formats

TRAIN = ("train", "training")
VALIDATION = ("validation", "valid", "val", "dev", "development")
TEST = ("test", "testing")
WORDS = (*TRAIN, *VALIDATION, *TEST)
LABELS = "labels.txt"
READ = (
    "a folder can hold files .jsonl, .json, .csv, .tsv or .txt (also .gz) or .parquet, pairs of text files such as "
    "train.de and train.en, images in folders by class, or .tar and .npz files of images"
)
_SHARD = re.compile(r"(.+?)[-._](\d+)[-._]of[-._](\d+)([-._][0-9a-f]{8,})?", re.IGNORECASE)
_NUMBERED = re.compile(rf"({'|'.join(WORDS)}|part|data|shard|chunk)[-._](\d+)(-[0-9a-f]{{8}}-.*)?", re.IGNORECASE)
_LANGUAGES = re.compile(r"[-._][a-z]{2,3}[-_][a-z]{2,3}", re.IGNORECASE)  # "train.de-en.de" is a text of "train"
_DOCUMENTS = re.compile(
    r"[._].*|.*\.md|(readme|license|licence|source|citation|labels)\b.*"
    r"|(dataset_(infos?|dict)|state|config|metadata|schema|croissant|package|origin)\.json",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class Part:
    """The files of a split, in order, and why they cannot be used, or ""."""

    paths: tuple
    problem: str = ""

    def __str__(self):
        shown, more = ", ".join(path.name for path in self.paths[:2]), len(self.paths) - 2
        return f"{shown} and {more} more" if more > 0 else shown


def splits(folder):
    """``(parts, unread)``: {split: [Part, ...]}, one if the folder is well-formed; and the paths that are not read."""
    parts, unread = _files(folder)
    unread += sorted(path for path in folder.iterdir() if not path.exists())  # broken links
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        inner, rest = _files(path) if path.name.lower() in ("data", *WORDS) else ({}, ())
        if path.name.lower() == "data":
            inner, rest = splits(path)
        elif inner:
            inner = {path.name: [_joined([part for alternatives in inner.values() for part in alternatives])]}
        for split, alternatives in inner.items():
            parts.setdefault(known(split), []).extend(alternatives)
        unread += rest if inner else [path] if not is_document(path.name) else []
    return parts, unread


def choose(parts, split, *, folder):
    """The `Part` of a split among the `parts` of a folder, or None if it has no file of it.

    Raises:
        lwt.errors.DataError: the files of the split contradict each other, or one of them is missing.
    """
    alternatives = parts.get(split) or parts.get(known(split)) or []
    if len(alternatives) > 1:
        names = "; ".join(map(str, alternatives))
        raise errors.DataError(f"{folder} holds split {split!r} more than once: {names}")
    if alternatives and alternatives[0].problem:
        raise errors.DataError(f"{folder}, split {split!r}: {alternatives[0].problem}")
    return alternatives[0] if alternatives else None


def grouped(files):
    """``{split: [Part, ...]}`` of files; the shards of a split are one `Part`.

    Args:
        files: ``[(name without the format, format, path)]``
    """
    parts, shards, numbered = {}, collections.defaultdict(list), collections.defaultdict(list)
    for stem, form, path in files:
        if match := _SHARD.fullmatch(stem):
            shards[known(match[1]), form, int(match[3])].append((int(match[2]), path))
        elif match := _NUMBERED.fullmatch(stem):
            numbered[known(match[1]), form].append((int(match[2]), path, stem))
        else:
            parts.setdefault(known(stem), []).append(Part((path,)))
    for (split, _, total), found in shards.items():
        numbers, paths = zip(*sorted(found), strict=True)
        first = int(total in numbers)  # some count from 1
        missing = sorted({*range(first, first + total)} - {*numbers})
        problem = f"of {total} shards, those numbered {', '.join(map(str, missing[:5]))} are missing" if missing else ""
        if len(set(numbers)) < len(numbers):
            problem = f"a shard is there twice: {', '.join(path.name for path in paths)}"
        parts.setdefault(split, []).append(Part(paths, problem))
    for (split, _), found in numbered.items():
        numbers, paths, stems = zip(*sorted(found), strict=True)
        if numbers == (*range(len(numbers)),) or (len(numbers) > 1 and numbers == (*range(1, len(numbers) + 1),)):
            parts.setdefault(split, []).append(Part(paths))
        else:  # splits of their own: test-2016.jsonl, test-2017.jsonl
            for stem, path in zip(stems, paths, strict=True):
                parts.setdefault(stem, []).append(Part((path,)))
    return parts


def _files(folder):
    """`splits` of the files in a folder, without its subfolders."""
    found, texts, unread = [], collections.defaultdict(list), []
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        form = formats.of(path)
        if is_document(path.name):
            if form not in ("", ".txt", ".json") and path.name[0] not in "._":  # source.csv may hold records
                unread.append(path)
            continue
        if formats.language(path):
            texts[_text_stem(path)].append(path)
        elif form:
            found.append((_stem(path), form, path))
        else:
            unread.append(path)
    for paths in [paths for paths in texts.values() if len(paths) == 1]:  # "notes.en.txt"
        found += [(_stem(path), formats.of(path), path) for path in paths if formats.of(path)]
        unread += [path for path in paths if not formats.of(path)]
    parts = grouped(found)
    for stem, paths in texts.items():
        if len(paths) > 1:
            spoken = [formats.language(path).lower() for path in paths]
            twice = next((language for language in spoken if spoken.count(language) > 1), "")
            problem = f"the texts {twice!r} are there twice: {', '.join(path.name for path in paths)}" if twice else ""
            parts.setdefault(known(stem), []).append(Part(tuple(paths), problem))
    return parts, unread


def _joined(parts):
    """One part of all files in the folder of a split."""
    paths = tuple(path for part in parts for path in part.paths)
    problem = next((part.problem for part in parts if part.problem), "")
    pairs = any(formats.is_pair(part.paths) for part in parts)
    if len({formats.of(path) for path in paths}) > 1 or (pairs and len(parts) > 1):
        problem = f"the files have several formats: {', '.join(path.name for path in paths[:4])}"
    return Part(paths, problem)


def _stem(path):
    """The name of a file without its format: "train" for "train.jsonl.gz"."""
    return path.name[: path.name.lower().rindex(formats.of(path))]


def _text_stem(path):
    """The name of a text without its language: "train" for "train.de", "train.de.gz" and "train.de-en.de"."""
    stem = path.name[: path.name.rindex("." + formats.language(path))]
    match = _LANGUAGES.search(stem)
    return stem[: match.start()] if match and match.end() == len(stem) else stem


def known(split):
    """The usual spelling of a split: "train" for "Train"."""
    return split.lower() if split.lower() in WORDS else split


def is_document(name):
    """Whether a file is about the data, such as a README, rather than data."""
    return name == LABELS or bool(_DOCUMENTS.fullmatch(name))
