"""Sources: records with declared fields, readable by index, so that shuffling, sharding and resuming are exact.

A source is named ``KIND:NAME`` or ``KIND:NAME@SPLIT``; ``+`` joins several::

    folder:multi30k_de_en                                  a folder of records or images, see `folder`
    folder:/home/me/letters.txt                            one file of such a format
    tfds:wmt17_translate/de-en                             a TensorFlow Datasets builder
    generated:arithmetic,tasks=add_1|add_2                 made by `generated`
    folder:mt_de_en_train+folder:multi30k_de_en@train      one after the other

The file ``lwt/data/sources/KIND.py`` registers a kind. It defines

    read(name, split, *, fields, max_malformed, max_megabytes) -> Source

and may define ``splits(name) -> [str]``, ``describe(name, split) -> str`` and ``is_one_file(name) -> bool``.
"""

import bisect
import collections.abc
import dataclasses
import hashlib
import itertools
import re

import numpy as np

from lwt import errors, registry
from lwt.data import formats

CHUNK = 8192  # records read at a time


@dataclasses.dataclass(frozen=True)
class Source:
    """Records by index: ``len(source)``, ``source[i] -> dict``, ``source[a:b] -> Source``, ``source.read(a, b)``.

    Attributes:
        name: ``KIND:NAME@SPLIT``.
        records: anything with ``len`` and ``[i] -> dict``, optionally with ``__getitems__(indices)`` and
            ``pick(indices)``.
        fields: the names that every record has.
        fingerprint: a hash of the content, or of what determines it, for caches.
        malformed: a message with file and line for each of the first 1000 records that were left out.
        classes: the names of the classes of the field ``label``, in order, if the source declares them.
        notes: what a user must know, such as the files that were not read.
        origin: the files that it was read from, or "".
    """

    name: str
    records: collections.abc.Sequence = dataclasses.field(repr=False)
    fields: tuple
    fingerprint: str
    malformed: tuple = ()
    classes: tuple = ()
    notes: tuple = ()
    origin: str = ""

    def __len__(self):
        return len(self.records)

    def __str__(self):
        return f"{self.name} ({self.origin})" if self.origin else self.name

    @property
    def parts(self):
        """The sources that this one joins."""
        return self.records.parts if isinstance(self.records, _Joined) else (self,)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self.pick(np.arange(len(self))[index])
        if not 0 <= index < len(self.records):
            raise IndexError(f"{self.name} has {len(self)} records, asked for {index}")
        return self.records[index]

    def each(self):
        """Yields all records, which are read in chunks."""
        for start in range(0, len(self), CHUNK):
            yield from self.read(start, start + CHUNK)

    def read(self, start, stop):
        """The records of ``range(start, stop)`` that exist."""
        return _many(self.records, range(start, min(stop, len(self))))

    def where(self, index):
        """The place of a record for an error message: its file and line, if it has one."""
        records = self.records
        while isinstance(records, _Picked):
            index, records = int(records.indices[index]), records.records
        return records.where(index) if hasattr(records, "where") else f"{self.name}, record {index}"

    def subset(self, count, *, seed=0):
        """`count` records drawn without replacement, in order; all of them if `count` is 0 or too large."""
        if not 0 < count < len(self):
            return self
        return self.pick(np.sort(np.random.default_rng(seed).permutation(len(self))[:count]))

    def pick(self, indices):
        """The records of `indices`, an [n] array, in that order."""
        fingerprint = digest(self.fingerprint, hashlib.sha256(indices.astype(np.int64)).hexdigest())
        pick = getattr(self.records, "pick", None)
        records = pick(indices) if pick else _Picked(self.records, indices)
        return dataclasses.replace(self, records=records, fingerprint=fingerprint)


@dataclasses.dataclass(frozen=True)
class _Picked(collections.abc.Sequence):
    records: collections.abc.Sequence
    indices: np.ndarray

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        return self.records[int(self.indices[index])]

    def __getitems__(self, indices):
        return _many(self.records, self.indices[np.asarray(indices, np.int64)].tolist())


class _Joined(collections.abc.Sequence):
    def __init__(self, parts):
        self.parts = parts
        self.ends = list(itertools.accumulate(len(part) for part in parts))

    def __len__(self):
        return self.ends[-1]

    def __getitem__(self, index):
        part, index = self._place(index)
        return self.parts[part][index]

    def where(self, index):
        part, index = self._place(index)
        return self.parts[part].where(index)

    def _place(self, index):
        part = bisect.bisect_right(self.ends, index)
        return part, index - (self.ends[part - 1] if part else 0)

    def pick(self, indices):
        """The records of `indices`; they keep their parts, unless `indices` mix those."""
        owners = np.searchsorted(self.ends, indices, side="right")
        if not len(indices) or (np.diff(owners) < 0).any():
            return _Picked(self, indices)
        begins = [0, *self.ends]
        return _Joined(tuple(self.parts[i].pick(indices[owners == i] - begins[i]) for i in np.unique(owners)))


def _many(records, indices):
    return records.__getitems__(indices) if hasattr(records, "__getitems__") else [records[i] for i in indices]


def load(name, *, split="train", fields=None, max_malformed=0.01, max_megabytes=formats.MAX_MEGABYTES):
    """Opens a source.

    Args:
        name: ``KIND:NAME``, ``KIND:NAME@SPLIT``, or several joined by ``+``.
        split: the split of every part that does not name its own.
        fields: the fields that no record may lack or leave empty; default: those of the first record.
        max_malformed: the share of malformed records above which loading fails; below it, they are left out.
        max_megabytes: a record whose line, cell or image is larger is malformed.

    Raises:
        lwt.errors.DataError: a kind, name, split or field does not exist, a split is empty, a file is damaged, or too
            many records are malformed.
        lwt.errors.ConfigError: `max_megabytes` is out of range.
    """
    if not 0 < max_megabytes < 1e6:
        raise errors.ConfigError(f"data.max_megabytes={max_megabytes!r} must be above 0 and below 1,000,000")
    fields, parts = None if fields is None else tuple(fields), []
    for part in parts_of(name):
        module, rest, own = _resolve(part)
        options = {"fields": fields, "max_malformed": max_malformed, "max_megabytes": max_megabytes}
        parts.append(module.read(rest, own or split, **options))
    if not (joined := join(parts, labels=not fields or "label" in fields)).fields:
        raise errors.DataError(f"{name}: the parts share no field: {[list(part.fields) for part in parts]}")
    return joined


def join(parts, *, labels=True):
    """Joins sources, one after the other; keeps the fields that all have.

    Args:
        parts: the sources.
        labels: whether the field ``label`` is used; otherwise its numbers may mean different things.

    Raises:
        lwt.errors.DataError: the parts give the numbers of classes different meanings.
    """
    if len(parts) == 1:
        return parts[0]
    named = {part.classes: part for part in parts if part.classes}
    if labels and len(named) > 1 and any(isinstance(part.read(0, 1)[0].get("label"), int) for part in named.values()):
        meanings = "; ".join(f"{part.name}: {', '.join(classes[:8])}" for classes, part in named.items())
        raise errors.DataError(f"the parts number their classes differently ({meanings}); write names as labels")
    return Source(
        name="+".join(part.name for part in parts),
        records=_Joined(tuple(parts)),
        fields=tuple(f for f in parts[0].fields if all(f in part.fields for part in parts)),
        fingerprint=digest(*(part.fingerprint for part in parts)),
        malformed=tuple(message for part in parts for message in part.malformed),
        classes=parts[0].classes if all(part.classes == parts[0].classes for part in parts) else (),
        notes=tuple(note for part in parts for note in part.notes),
        origin=", ".join(filter(None, (part.origin for part in parts))),
    )


def splits(name):
    """The splits that all parts of ``KIND:NAME`` have; none if a part names its own.

    Raises:
        lwt.errors.DataError: a kind or name does not exist.
    """
    found = []
    for part in parts_of(name):
        module, rest, own = _resolve(part)
        found.append([] if own else module.splits(rest) if hasattr(module, "splits") else ["train"])
    common = [split for split in found[0] if all(split in others for others in found)]
    if all(found) and (rest := sorted({split for splits in found for split in splits} - {*common})):
        formats.tell(f"{name}: not used: the splits {', '.join(rest)}, which not all parts have")
    return common


def describe(name, *, split="train"):
    """The name of a source with its split and files, which are not read: "folder:a@train (train.jsonl)".

    Raises:
        lwt.errors.DataError: a kind, name or split does not exist.
    """
    texts = []
    for part in parts_of(name):
        module, rest, own = _resolve(part)
        origin = module.describe(rest, own or split) if hasattr(module, "describe") else ""
        texts.append(at(part, own or split) + f" ({origin})" * bool(origin))
    return " + ".join(texts)


def parts_of(name):
    """``"a:x+b:y"`` -> ``["a:x", "b:y"]``."""
    return re.split(r"\+(?=[a-z_]+:)", name)  # paths and slices of splits ("train+test") keep their '+'


def with_split(name, split):
    """``"a:x+b:y@old"`` -> ``"a:x@SPLIT+b:y@old"``; a file has no split, and "" stays as it is."""
    parts = filter(None, parts_of(name))
    return "+".join(p if split_of(p) or _is_one_file(*_resolve(p)[:2]) else f"{p}@{split}" for p in parts)


def at(name, split):
    """``"a:x+b:y@old"`` -> ``"a:x@SPLIT+b:y@SPLIT"``."""
    return "+".join(f"{without_split(part)}@{split}" for part in parts_of(name))


def without_split(part):
    """``"a:x@old"`` -> ``"a:x"``."""
    return part.rpartition("@")[0] if split_of(part) else part


def _resolve(name):
    """``(module of the kind, NAME, SPLIT or "")``."""
    kinds = registry.SOURCES.names()
    kind, colon, rest = name.partition(":")
    if not colon or not rest:
        raise errors.DataError(f"data {name!r}: expected KIND:NAME or KIND:NAME@SPLIT; {errors.suggest(kind, kinds)}")
    if kind not in kinds:
        raise errors.DataError(f"data {name!r}: no kind {kind!r}; {errors.suggest(kind, kinds)}")
    own, module = split_of(rest), registry.SOURCES.find(kind, key="data")
    rest = without_split(rest)
    if own not in ("", "train") and _is_one_file(module, rest):
        raise errors.DataError(f"{name}: {rest} is one file, without a split {own!r}; leave out @{own}")
    return module, rest, own


def _is_one_file(module, rest):
    return hasattr(module, "is_one_file") and module.is_one_file(rest)


def split_of(name):
    """The split that a part names, or ""; an '@' before a '/' belongs to a path."""
    tail = name.rpartition("@")[2] if "@" in name else ""
    return "" if "/" in tail else tail


def need_fields(name, fields, *, there):
    """Raises DataError for the first of `fields` (which may be None) that is not `there`."""
    for field in fields or ():
        if field not in there:
            raise errors.DataError(f"{name} has no field {field!r}; {errors.suggest(field, there)}")


def digest(*parts):
    """A short stable hash of the texts of `parts`."""
    return hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()[:32]


def report(source):
    """Logs which files and records a source left out."""
    for note in source.notes:
        formats.tell(note)
