"""Training, validation and test part of a labelled set, by the rule of EmbBERT-Q (Section 4.3.3):

(i) splits that come with the data are used as they are; (ii) of a set with one split beside the training data, that is
the test, and 10 % of the training data is withheld for validation; (iii) a set without splits is cut into 90 % and a
10 % test, and then 10 % of the 90 % is withheld.

Which records those are is drawn once, with a seed of its own, and kept as indices in a file of the workdir with the
fingerprints of the data, so that no later run can be tested on what an earlier one was trained on.

A split that is there but has hidden labels (-1 in TFDS) does not count: GLUE's validation sets become the tests, as in
the paper. The paper calls the larger of two splits the training data; here one that is named ``train`` is.
"""

import dataclasses
import json
import pathlib

import numpy as np

from lwt import errors, files
from lwt.data import sources

TRAIN = ("train", "training")
VALIDATION = ("validation", "valid", "val", "dev", "development")
FILE = "splits.json"  # of a workdir
RULES = {
    "i": "the splits that came with the data",
    "ii": "10 % of the training data withheld for validation",
    "iii": "10 % withheld for the test, then 10 % for validation",
}
# What the texts of a record are called; the first entry whose fields are all there is taken. A '+' joins fields.
FIELDS = (
    ("text", "text_pair"),
    ("text",),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("sentence",),
    ("title+description",),
)


@dataclasses.dataclass(frozen=True)
class Splits:
    """The parts of a set.

    Attributes:
        train, validation: `sources.Source`.
        tests: name -> `sources.Source`; several where there are several test splits (MNLI).
        fields: the text fields of a record, one or two (see `texts_of`); of an image, its own.
        rule: "i", "ii" or "iii", see above.
        counts: records of each part, and those that are there twice (see `overlaps`):
            ``{"train": 900, "test": 100, "test in train": 2, ...}``.
    """

    train: sources.Source
    validation: sources.Source
    tests: dict
    fields: tuple
    rule: str
    counts: dict

    def __str__(self):
        counts = ", ".join(f"{name} {count}" for name, count in self.counts.items())
        return f"{self.train.name}: {RULES[self.rule]}; records: {counts}"


def make(
    train,
    path,
    *,
    validation="",
    tests=(),
    fields=(),
    label="label",
    seed=0,
    leak_free=False,
    max_malformed=0.01,
    load=None,
    key=None,
):
    """The splits of the set `train`; drawn and written to `path`, or read from there.

    Args:
        train: ``KIND:NAME``, whose splits are looked up; or with ``@SPLIT``.
        path: the JSON file of indices.
        validation, tests: names of sources, if they are not what the rule would find.
        fields: one or two names of text fields; default: the first of `FIELDS` that is there.
        label: the field of the label.
        seed: of the records that are withheld.
        leak_free: leave out of the training data what validation or a test holds too, and out of validation what a
            test holds.
        load: opens a source; default: `sources.load`.
        key: ``(record, fields)`` -> what records share that are the same to a model; default: `text_key`.

    Raises:
        lwt.errors.DataError: a source or field that is not there; or `path` was made with other data, fields or seed.
    """
    load, key = load or sources.load, key or text_key
    found = _find(train, validation, tuple(tests), label)
    default = {"train": "train", "validation": "validation"}

    def opened(part, asked):
        return load(found[part], split=default.get(part, "test"), fields=asked, max_malformed=max_malformed)

    fields = tuple(fields) or choose_fields(train, opened("train", (label,)).fields)
    loaded = {part: opened(part, needed(fields, label)) for part, name in found.items() if name}
    for source in loaded.values():
        sources.need_fields(source.name, names_in(fields), there=source.fields)
    rule = "iii" if len(loaded) == 1 else "i" if "validation" in loaded else "ii"
    asked = {
        "rule": rule,
        "seed": seed,
        "leak_free": leak_free,
        "fields": list(fields),
        **{f"{part}.name": source.name for part, source in loaded.items()},
        **{f"{part}.fingerprint": source.fingerprint for part, source in loaded.items()},
    }
    path = pathlib.Path(path)
    if path.exists():
        kept = _read(path, asked)
        parts = _parts(loaded, kept["indices"])
    else:
        indices = _draw(loaded, seed)
        if leak_free:
            indices = _without_leaks(loaded, indices, fields, key)
        parts = _parts(loaded, indices)
        counts = {part: len(source) for part, source in parts.items()} | overlaps(parts, fields, key)
        kept = {"asked": asked, "counts": counts, "indices": indices}
        files.write_text(path, json.dumps(kept))
    train, validation = parts.pop("train"), parts.pop("validation")
    return Splits(train, validation, parts, fields, rule, kept["counts"])


def choose_fields(name, there):
    """The text fields of records with the fields `there`.

    Raises:
        lwt.errors.DataError: none that is known; says which there are.
    """
    for fields in FIELDS:
        if all(field in there for field in names_in(fields)):
            return fields
    raise errors.DataError(f"{name}: data.fields should name one or two text fields; there is: {', '.join(there)}")


def names_in(fields):
    """``("title+description", "text")`` -> ``["title", "description", "text"]``."""
    return [name for field in fields for name in field.split("+")]


def texts_in(fields):
    """The fields that every record must have, and not empty. (Of a joined text, a part may be.)"""
    return tuple(field for field in fields if "+" not in field)


def needed(fields, label):
    """What every record must have: texts, and the label."""
    return (*texts_in(fields), label)


def texts_of(record, fields):
    """The texts of a record: one for each of `fields`, in which ``a+b`` joins two fields.

    Raises:
        lwt.errors.DataError: a field holds something else than text.
    """
    for name in names_in(fields):
        if not isinstance(record[name], str):
            raise errors.DataError(f"field {name!r} of a record is no text: {record[name]!r:.60}")
    return tuple(" ".join(record[name] for name in field.split("+")).strip() for field in fields)


def text_key(record, fields):
    """The texts of a record, cases and white space aside."""
    return tuple(" ".join(text.lower().split()) for text in texts_of(record, fields))


def overlaps(parts, fields, key=text_key):
    """How many records are the same as an earlier one, by their `key`.

    Args:
        parts: name -> `sources.Source`.

    Returns:
        ``{"repeated in train": 2, "repeated in test": 0, "test in train": 1, ...}``: inside of each part, and for each
        pair of parts the records of the later one that the earlier one holds.
    """
    keys = {name: _keys(source, fields, key) for name, source in parts.items()}
    sets = {name: set(found) for name, found in keys.items()}
    counts = {f"repeated in {name}": len(found) - len(sets[name]) for name, found in keys.items()}
    names = list(parts)
    for i, later in enumerate(names):
        for earlier in names[:i]:
            counts[f"{later} in {earlier}"] = sum(key in sets[earlier] for key in keys[later])
    return counts


def _keys(source, fields, key):
    return [key(record, fields) for record in source.read(0, len(source))]


def _find(train, validation, tests, label):
    """part -> name of a source, or "" for a part to withhold; "train" and "validation" first."""
    if validation or tests or not sources.splits(train):
        found = {"train": train, "validation": validation}
        for name in tests:
            split = name.rpartition("@")[2] if "@" in name and len(tests) > 1 else "test"
            found[name if split in found else split] = name
        return found
    there = [split for split in sources.splits(train) if not _hidden(sources.at(train, split), label)]
    first = next((split for split in TRAIN if split in there), None)
    second = next((split for split in VALIDATION if split in there), None)
    others = [split for split in there if split.startswith("test")]
    if not others:  # what there would be to tune on is the test
        others, second = [split for split in there if split.startswith(VALIDATION)], None
    if first is None and 1 <= len(there) <= 2:
        first, *others = sorted(there, key=lambda split: -len(sources.load(train, split=split)))
        second = None
    if first is None:
        raise errors.DataError(
            f"{train} has the splits {', '.join(there) or 'nothing'}, none of them called train; say which are which: "
            "data.train=KIND:NAME@SPLIT, data.validation, data.test"
        )
    found = {"train": sources.at(train, first), "validation": sources.at(train, second) if second else ""}
    return found | {"test" if len(others) == 1 else split: sources.at(train, split) for split in others}


def _hidden(name, label):
    """Whether a split's labels are not told."""
    if not name.startswith("tfds:"):
        return False
    return all(record.get(label) == -1 for record in sources.load(name).read(0, 100))


def _draw(loaded, seed):
    """part -> {"of": part of `loaded`, "records": indices, or None for all}; "train" and "validation" first."""
    train = loaded["train"]
    order = np.random.default_rng(seed).permutation(len(train))
    withheld = (["test"] if len(loaded) == 1 else []) + (["validation"] if "validation" not in loaded else [])
    indices = {part: {"of": part, "records": None} for part in ("train", "validation", *sorted(loaded), *withheld)}
    for part in withheld:
        size = len(order) // 10
        if not size:
            raise errors.DataError(f"{train.name}: 10 % of {len(order)} records is none; name data.{part}")
        indices[part] = {"of": "train", "records": sorted(order[:size].tolist())}
        order = order[size:]
    if withheld:
        indices["train"]["records"] = sorted(order.tolist())
    return indices


def _without_leaks(loaded, indices, fields, key):
    """`indices` without the records of validation that a test has too, and of train that any other part has."""
    indices, seen = dict(indices), set()
    for part in reversed(indices):  # the tests, validation, train
        source = _part(loaded, indices, part)
        keys = _keys(source, fields, key)
        if part in ("train", "validation"):
            before = indices[part]["records"]
            before = range(len(source)) if before is None else before
            left = [i for i, found in zip(before, keys, strict=True) if found not in seen]
            if not left:
                raise errors.DataError(f"{source.name}: data.leak_free leaves no record for {part}")
            indices[part] = indices[part] | {"records": left}
        seen.update(keys)
    return indices


def _parts(loaded, indices):
    return {part: _part(loaded, indices, part) for part in indices}


def _part(loaded, indices, part):
    source, records = loaded[indices[part]["of"]], indices[part]["records"]
    if records is None:
        return source
    return dataclasses.replace(source.pick(np.asarray(records, np.int64)), name=f"{source.name}[{part}]")


def _read(path, asked):
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        before, _ = kept["asked"], kept["counts"]["train"]
        if not all({"of", "records"} <= set(kept["indices"][part]) for part in ("train", "validation")):
            raise ValueError("no indices")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.DataError(
            f"{path} is damaged ({error!r:.80}); remove it, and the splits are drawn anew"
        ) from error
    for key in sorted({*asked, *before}):
        if asked.get(key) != before.get(key):
            raise errors.DataError(
                f"{path} was made with {key} {before.get(key)!r}, not {asked.get(key)!r}; the splits of a run stay: "
                "use another --workdir, or remove the file if nothing was trained on it"
            )
    return kept
