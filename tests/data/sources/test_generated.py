"""The generated arithmetic: right answers, balanced tasks, nothing of the test in the training."""

import collections

import numpy as np
import pytest

from lwt import errors
from lwt.data import sources
from lwt.data.sources import generated


def test_the_paper_s_example_and_every_task():
    assert generated.solve("add_2", [8, 13, 2, 5]) == [10, 15, 4, 7]
    assert generated.solve("sort_ascending", [8, 13, 2, 5]) == [2, 5, 8, 13]
    assert generated.solve("sort_descending", [8, 13, 2, 5]) == [13, 8, 5, 2]
    assert generated.solve("reverse", [8, 13, 2, 5]) == [5, 2, 13, 8]
    assert generated.solve("copy", [8, 13, 2, 5]) == [8, 13, 2, 5]


def test_records_read_as_in_the_paper():
    for record in sources.load("generated:arithmetic,tasks=add_2|sort_descending,size=50"):
        prompt, numbers = record["source"].split(": ")
        numbers, answer = ([int(n) for n in text.split()] for text in (numbers, record["target"]))
        assert prompt == record["task"].replace("_", " ")
        assert len(numbers) == 4 and all(1 <= n <= 100 for n in numbers)
        expected = [n + 2 for n in numbers] if record["task"] == "add_2" else sorted(numbers)[::-1]
        assert answer == expected


def test_no_sequence_is_in_two_splits_in_any_order():
    found = {}
    for split, size in generated.SIZES.items():
        for seed in (0, 1):
            records = generated.arithmetic(split, size=min(size, 20_000), seed=seed)
            found.setdefault(split, set()).update(map(tuple, np.sort(records.numbers, axis=1).tolist()))
    assert not found["train"] & found["test"]
    assert not found["train"] & found["validation"]
    assert not found["validation"] & found["test"]


def test_sizes_balance_and_determinism():
    test = sources.load("generated:arithmetic", split="test")
    assert len(test) == 2000
    assert set(collections.Counter(record["task"] for record in test).values()) == {500}
    assert len(sources.load("generated:arithmetic")) == 100_000
    again, other = (sources.load(f"generated:arithmetic,seed={seed}@test") for seed in (0, 1))
    assert list(again) == list(test) and again.fingerprint == test.fingerprint
    assert list(other) != list(test) and other.fingerprint != test.fingerprint


@pytest.mark.parametrize(
    "options, words",
    [
        ("tasks=add1", "did you mean 'add_1'"),
        ("sise=3", "did you mean 'size'"),
        ("size=many", "whole number"),
        ("size=0", "whole number"),
        ("size=99999999999", "whole number .size: 1 to 10000000."),
        ("seed=-1", "whole number"),
        ("size=3,size=4", "size is given twice"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(errors.DataError, match=words):
        sources.load(f"generated:arithmetic,{options}")
