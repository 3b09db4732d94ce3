"""Data made here, record by record, from a seed.

``generated:arithmetic`` is the data of the rank study in "Implementing Transformers" (Section 4.2): four numbers of
1-100 after a hard prompt that names the task, ``"add 2: 8 13 2 5" -> "10 15 4 7"``. Options follow the name::

    generated:arithmetic,tasks=add_1|sort_ascending,size=20000,seed=0
    generated:radar_har,difficulty=hard,size=1600,seed=0

``generated:radar_har`` are micro-Doppler maps of people in motion: see `lwt/data/radar/maps.py`.
"""

import collections.abc
import dataclasses
import re

import numpy as np

from lwt import errors
from lwt.data import sources
from lwt.data.radar import maps

SIZES = {"train": 100_000, "validation": 1_000, "test": 2_000}
SHARES = {"train": range(0, 94), "validation": range(94, 96), "test": range(96, 100)}  # of the hash, in percent
LARGEST = 10_000_000  # records
PAPER_TASKS = ("sort_ascending", "sort_descending", "add_1", "add_2")
TASKS = {
    "sort_ascending": sorted,
    "sort_descending": lambda numbers: sorted(numbers, reverse=True),
    "copy": list,
    "reverse": lambda numbers: numbers[::-1],
}  # and add_K


def read(name, split, *, fields, max_malformed, max_megabytes):
    """Makes one split of a generated set; see `lwt.data.sources.load`."""
    del max_malformed, max_megabytes  # generated records are never malformed
    make, values = _parse(name, split)
    name, *options = name.split(",")
    records = make(split, **values)
    sources.need_fields(f"generated:{name}", fields, there=records[0])
    return sources.Source(
        name=f"generated:{','.join([name, *options])}@{split}",
        records=records,
        fields=tuple(records[0]),
        fingerprint=sources.digest(f"generated {getattr(records, 'version', 1)}", name, split, *values.values()),
        classes=getattr(records, "classes", ()),
    )


def splits(name):
    """The splits of a generated set."""
    _parse(name, "train")
    return list(SIZES)


def describe(name, split):
    """No files; see `lwt.data.sources.describe`."""
    _parse(name, split)
    return ""


def _parse(name, split):
    """``(function that makes the records, its options)`` of ``"radar_har,size=5"``."""
    name, *options = name.split(",")
    sets = {
        "arithmetic": (arithmetic, SIZES, {"tasks": PAPER_TASKS}),
        "radar_har": (maps.radar_har, maps.SIZES, {"difficulty": "hard"}),
    }
    if name not in sets:
        raise errors.DataError(f"no generated data set {name!r}; {errors.suggest(name, sets)}")
    make, sizes, own = sets[name]
    if split not in sizes:
        raise errors.DataError(f"generated:{name} has no split {split!r}; {errors.suggest(split, sizes)}")
    return make, _values(name, options, {**own, "size": sizes[split], "seed": 0})


def _values(name, options, defaults):
    """Overrides `defaults` by options such as ``"size=5"``; parses them as their types, tuples as ``a|b``."""
    values = dict(defaults)
    for option in options:
        key, equals, text = option.partition("=")
        if key not in defaults or not equals:
            raise errors.DataError(f"generated:{name}: option {option!r}; {errors.suggest(key, defaults)}")
        if sum(other.startswith(f"{key}=") for other in options) > 1:
            raise errors.DataError(f"generated:{name}: {key} is given twice")
        if isinstance(defaults[key], tuple):
            values[key] = tuple(text.split("|"))
        elif isinstance(defaults[key], str):
            values[key] = text
        elif text.isdecimal() and len(text) < 12 and (key == "seed" or 0 < int(text) <= LARGEST):
            values[key] = int(text)
        else:
            raise errors.DataError(
                f"generated:{name}: {key} must be a whole number (size: 1 to {LARGEST}), not {text!r}"
            )
    return values


@dataclasses.dataclass(frozen=True)
class Arithmetic(collections.abc.Sequence):
    """Record i holds the numbers ``[i]`` under task ``i % len(tasks)``, so that every stretch is balanced."""

    numbers: np.ndarray  # [records, 4]
    tasks: tuple

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        numbers, task = self.numbers[index].tolist(), self.tasks[index % len(self.tasks)]
        return {
            "source": f"{task.replace('_', ' ')}: {' '.join(map(str, numbers))}",
            "target": " ".join(map(str, solve(task, numbers))),
            "task": task,
        }


def arithmetic(split, *, tasks=PAPER_TASKS, size=2_000, seed=0, low=1, high=100, length=4):
    """Draws `size` sequences evenly. No sequence is in two splits, in any order of its numbers, under any seed.

    A hash of the sorted sequence decides on the split: a permutation of a training sequence in the test would be a
    leak, since the sorting tasks give both the same answer.

    Raises:
        lwt.errors.DataError: an unknown task.
    """
    for task in tasks:
        if task not in TASKS and not re.fullmatch(r"add_\d{1,2}", task):
            known = [*TASKS, "add_1", "add_2", "add_3"]
            raise errors.DataError(f"generated:arithmetic has no task {task!r}; {errors.suggest(task, known)}")
    rng = np.random.default_rng([seed, list(SIZES).index(split)])
    share, drawn, found = SHARES[split], [], 0
    while found < size:
        batch = rng.integers(low, high + 1, size=(1 << 16, length))
        bucket = _hash(np.sort(batch, axis=1)) % np.uint64(100)
        drawn.append(batch[(bucket >= share.start) & (bucket < share.stop)])
        found += len(drawn[-1])
    return Arithmetic(np.concatenate(drawn)[:size].astype(np.int32), tuple(tasks))


def solve(task, numbers):
    """``solve("add_2", [8, 13]) == [10, 15]``"""
    if task.startswith("add_"):
        return [number + int(task[len("add_") :]) for number in numbers]
    return TASKS[task](numbers)


def _hash(rows):
    """[n, length] small integers -> [n] well-mixed uint64, by the finaliser of splitmix64 for each column."""
    mixed = np.full(len(rows), 0x9E3779B97F4A7C15, np.uint64)
    for column in rows.T.astype(np.uint64):
        mixed = mixed + column + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed
