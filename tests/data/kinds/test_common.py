"""The names of splits, and the groups of records."""

import ml_collections
import pytest

from lwt.data import sources
from lwt.data.kinds import common


class Data(common.Data):
    """The least that a kind of data has."""

    identity = positions = None

    def training(self, *, share=None): ...

    def evaluation(self, name, *, limit=0): ...

    def from_texts(self, texts): ...

    def example(self): ...

    def _evaluation_lengths(self): ...


@pytest.mark.parametrize(
    "split, name",
    [("", "folder:a@test"), ("test", "folder:a@test"), ("validation", "folder:a@dev"), ("old", "folder:a@old")],
)
def test_a_split_is_named_after_the_test_set(tmp_path, split, name):
    section = ml_collections.ConfigDict({"test": "folder:a@test", "validation": "folder:a@dev"})
    assert Data(section, tmp_path).named(split) == name


def test_groups_are_the_tasks_of_the_records():
    records = [{"text": "x", "task": "add"}, {"text": "y", "task": "copy"}]
    assert common.groups_of(sources.Source("a", records, ("text", "task"), ""), records) == ["add", "copy"]
    assert common.groups_of(sources.Source("a", records, ("text",), ""), records) is None
