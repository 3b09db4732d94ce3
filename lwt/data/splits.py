"""The training, validation and test parts of a labelled set, by the rule of EmbBERT-Q (Section 4.3.3).

(i) Splits that come with the data are used as they are. (ii) If a set has one split beside the training data, that
split is the test, and 10 % of the training data is withheld for validation. (iii) A set without splits is cut into
90 % and a 10 % test, and then 10 % of the 90 % is withheld.

A file in the workdir keeps the indices of the withheld records, which are drawn once, and the fingerprints of the data,
so that no later run can be tested on what an earlier one was trained on.

Splits are known by their names, never by their sizes. A split whose labels are hidden (all -1) does not count: GLUE's
validation sets become the tests, as in the paper. What is taken for which part is logged.
"""

import dataclasses
import itertools
import logging
import pathlib

import numpy as np

from lwt import errors, files
from lwt.data import formats, layout, sources, text_fields

LOG = logging.getLogger(__name__)
FILE = "splits.json"  # of a workdir
CHUNK = 100  # records read at a time, where the first often decides
RULES = {
    "i": "the splits that came with the data",
    "ii": "10 % of the training data withheld for validation",
    "iii": "10 % withheld for the test, then 10 % for validation",
}


@dataclasses.dataclass(frozen=True)
class Splits:
    """The parts of a labelled set."""

    train: sources.Source
    validation: sources.Source
    tests: dict  # name -> `sources.Source`; several if the set has several test splits (MNLI)
    fields: tuple  # the one or two text fields of a record (see `text_fields.texts_of`), or the field of the image
    rule: str  # a key of RULES
    counts: dict  # {"train": 900, "test": 100, "test in train": 2, ...}: records, and repeated ones (see `overlaps`)

    def __str__(self):
        parts = {"train": self.train, "validation": self.validation, **self.tests}
        taken = "; ".join(f"{part}: {source}, {len(source)} records" for part, source in parts.items())
        shared = [f"{name} {count}" for name, count in self.counts.items() if name not in parts and count]
        return f"{taken} ({RULES[self.rule]}); {', '.join(shared) or 'no record is repeated'}"


def make(
    train,
    path,
    *,
    validation="",
    tests=(),
    fields=(),
    label="label",
    seed=0,
    unlabelled=False,
    leak_free=False,
    max_malformed=0.01,
    load=None,
    key=None,
):
    """The splits of the set `train`, drawn and written to `path`, or read from there.

    Args:
        train: ``KIND:NAME``, whose splits the rule looks up; or with ``@SPLIT``.
        path: the JSON file of indices.
        validation, tests: names of sources that replace what the rule finds.
        fields: names of one or two text fields; default: the first entry of `text_fields.FIELDS` that exists.
        label: the field of the label.
        seed: the seed of the withheld records.
        unlabelled: whether the label of a record may be empty, as where it may have several labels or none.
        leak_free: leave out training records that are in validation or a test, and validation records in a test.
        load: loads a source; default: `sources.load`.
        key: ``(record, fields)`` -> a value that records share if a model cannot tell them apart; default: `text_key`.

    Raises:
        lwt.errors.DataError: a source or field is missing, or `path` was made with other data, fields or seed.
    """
    load, key = load or sources.load, key or text_key
    named = bool(validation or tests or not sources.splits(train))
    names = _named(train, validation=validation, tests=tuple(tests)) if named else _find(train)
    default = {"train": "train", "validation": "validation"}

    def load_part(part, required):
        return load(names[part], split=default.get(part, "test"), fields=required, max_malformed=max_malformed)

    path, labelled = pathlib.Path(path), () if unlabelled else (label,)
    fields = tuple(fields) or _fields_in(path) or text_fields.choose(train, load_part("train", labelled).fields)
    loaded, hidden = {}, []
    while not loaded or hidden:
        needed = (*text_fields.required(fields), *labelled)
        loaded = {part: load_part(part, needed) for part, name in names.items() if name}
        new = [source for part, source in loaded.items() if part != "train" and _hidden(source, loaded["train"], label)]
        for source in new:
            message = f"the labels of {source.name} are hidden (all are -1)"
            if named:
                raise errors.DataError(f"{message}; data.validation and data.test must name sets with labels")
            LOG.warning("%s: it is not used", message)
        hidden, names = new, _find(train, without={source.name for source in new}) if new else names
    for source in loaded.values():
        sources.need_fields(source.name, [*text_fields.names_in(fields), label], there=source.fields)
    rule = "iii" if len(loaded) == 1 else "i" if "validation" in loaded else "ii"
    asked = {
        "rule": rule,
        "seed": seed,
        "leak_free": leak_free,
        "fields": list(fields),
        **{f"{part}.name": source.name for part, source in loaded.items()},
        **{f"{part}.fingerprint": source.fingerprint for part, source in loaded.items()},
    }
    there = path.exists()  # asked once: another process may write it meanwhile, with the same content
    if there:
        saved = _read(path, asked)
        indices = saved["indices"]
    else:
        indices = _draw(loaded, seed)
        if leak_free:
            indices = _without_leaks(loaded, indices, fields=fields, key=key)
    parts = {part: _part(loaded, indices, part) for part in indices}
    if not there:
        counts = {part: len(source) for part, source in parts.items()} | overlaps(parts, fields, key=key)
        saved = {"asked": asked, "counts": counts, "indices": indices}
        files.write_json(path, saved, indent=None, checked=True)
    for part, shared in ((part, saved["counts"].get(f"{part} in train", 0)) for part in parts):
        if shared * 2 > len(parts[part]):
            formats.tell(f"{parts[part].name}: {shared} of {len(parts[part])} records are training records too")
    train, validation = parts.pop("train"), parts.pop("validation")
    return Splits(train, validation, parts, fields, rule, saved["counts"])


def text_key(record, fields):
    """The texts of a record, lower-cased and with single spaces."""
    return text_fields.key(text_fields.texts_of(record, fields))


def overlaps(parts, fields, *, key=text_key):
    """Counts the records of `parts` (name -> source) that equal an earlier one by their `key`.

    Returns:
        ``{"repeated in train": 2, "repeated in test": 0, "test in train": 1, ...}``: within each part, and for each
        pair of parts the records of the later one that the earlier one holds.
    """
    keys = {name: _keys(source, fields, key=key) for name, source in parts.items()}
    counts = {f"repeated in {name}": len(found) - len(np.unique(found)) for name, found in keys.items()}
    names = list(parts)
    for i, later in enumerate(names):
        for earlier in names[:i]:
            counts[f"{later} in {earlier}"] = int(np.isin(keys[later], keys[earlier]).sum())
    return counts


def _keys(source, fields, *, key):
    """[records] 64-bit hashes of the keys, the same for equal keys while the process lives."""
    keys = np.empty(len(source), np.int64)
    for i, record in enumerate(source.each()):
        try:
            keys[i] = hash(key(record, fields))
        except errors.DataError as error:
            raise errors.DataError(f"{source.where(i)}: {error}") from error
    return keys


def _fields_in(path):
    """The fields that the file of indices was made with; empty if it is missing or damaged."""
    try:
        return tuple(files.read_json(path)["asked"]["fields"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _named(train, *, validation, tests):
    """``{part: name of a source, or "" if it must be withheld}`` of the sources that a config names."""
    names = {"train": train, "validation": validation}
    for name in tests:
        split = name.rpartition("@")[2] if "@" in name and len(tests) > 1 else "test"
        names[name if split in names else split] = name
    return names


def _find(train, *, without=()):
    """`_named` of the sources that the rule finds; `without` are the names of those that do not count."""
    there = [split for split in sources.splits(train) if sources.at(train, split) not in without]
    first = next((split for split in layout.TRAIN if split in there), None)
    second = next((split for split in layout.VALIDATION if split in there), None)
    others = [split for split in there if split.startswith("test")]
    if not others:  # the split to tune on becomes the test
        others, second = [split for split in there if split.startswith(layout.VALIDATION)], None
    if first is None and len(there) == 1:
        first, second, others = there[0], None, []
    if first is None:
        raise errors.DataError(
            f"{train} has the splits {', '.join(there) or 'none'}, but no split train; name the parts: "
            "data.train=KIND:NAME@SPLIT, data.validation, data.test"
        )
    if unused := ", ".join(split for split in there if split not in (first, second, *others)):
        LOG.warning(
            "%s: not used: the splits %s; data.train, data.validation and data.test choose others", train, unused
        )
    names = {"train": sources.at(train, first), "validation": sources.at(train, second) if second else ""}
    return names | {"test" if len(others) == 1 else split: sources.at(train, split) for split in others}


def _hidden(source, train, label):
    """Whether all labels of a split are -1, which is not a label of the training data."""

    def is_hidden(record):
        return str(record.get(label)).strip() in ("-1", "-1.0")

    return all(map(is_hidden, _records(source))) and not any(map(is_hidden, _records(train)))


def _records(source):
    starts = range(0, len(source), CHUNK)
    return itertools.chain.from_iterable(source.read(start, start + CHUNK) for start in starts)


def _draw(loaded, seed):
    """``{part: {"of": part of `loaded`, "records": indices, or None for all}}``; starts with train and validation."""
    train = loaded["train"]
    order = np.random.default_rng(seed).permutation(len(train))
    withheld = (["test"] if len(loaded) == 1 else []) + (["validation"] if "validation" not in loaded else [])
    indices = {part: {"of": part, "records": None} for part in ("train", "validation", *sorted(loaded), *withheld)}
    for part in withheld:
        size = len(order) // 10
        if not size:
            raise errors.DataError(f"{train.name}: 10 % of {len(order)} records is less than one; name data.{part}")
        indices[part] = {"of": "train", "records": sorted(order[:size].tolist())}
        order = order[size:]
    if withheld:
        indices["train"]["records"] = sorted(order.tolist())
    return indices


def _without_leaks(loaded, indices, *, fields, key):
    """`indices` without validation records that are in a test, and training records that are in any other part."""
    indices, seen = dict(indices), np.empty(0, np.int64)
    for part in reversed(indices):  # the tests, validation, train
        source = _part(loaded, indices, part)
        keys = _keys(source, fields, key=key)
        if part in ("train", "validation"):
            before = indices[part]["records"]
            before = np.arange(len(source)) if before is None else np.asarray(before)
            left = before[~np.isin(keys, seen)].tolist()
            if not left:
                raise errors.DataError(f"{source.name}: data.leak_free leaves no record for {part}")
            indices[part] = indices[part] | {"records": left}
        seen = np.concatenate([seen, keys])
    return indices


def _part(loaded, indices, part):
    source, records = loaded[indices[part]["of"]], indices[part]["records"]
    if records is None:
        return source
    return dataclasses.replace(source.pick(np.asarray(records, np.int64)), name=f"{source.name}[{part}]")


def _read(path, asked):
    try:
        saved = files.read_json(path)
        before, _ = saved["asked"], saved["counts"]["train"]
        if not all({"of", "records"} <= set(saved["indices"][part]) for part in ("train", "validation")):
            raise ValueError("no indices")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.DataError(f"{path} is damaged ({error}); remove it to have the splits drawn again") from error
    for key in sorted({*asked, *before}):
        if asked.get(key) != before.get(key):
            raise errors.DataError(
                f"{path} was made with {key} {before.get(key)!r}, not {asked.get(key)!r}; the splits of a run do not "
                "change: use another --workdir, or remove the file if nothing was trained on it"
            )
    return saved
