"""Choices by file, arguments by name and type, for every kind of part."""

import collections.abc
import dataclasses
import functools
import json
import subprocess
import sys

import ml_collections
import pytest

from lwt import errors, registry
from lwt.data import sources

CHOICES = {
    "MODELS": "bert cnn embbert embedder lh_vit mamba seq2seq vit",
    "TASKS": "classify classify_images distill masked_lm multilabel ordinal regress similarity translate",
    "ATTENTIONS": "approximate efficient folded kv_projection linear linformer local nystrom softmax softmax_one "
    "sparse",
    "REPARAMS": "adalora c3a compose dora hira houlsby ia3 lokr lora miss none oft periodic_lora prune quantize share "
    "shira singlora svd unilora vera vertical",
    "DATA_KINDS": "compared images labelled masked pairs",
    "SOURCES": "folder generated tfds",
}


@pytest.mark.parametrize("which", CHOICES)
def test_choices_are_real_and_suggested(which):
    parts = getattr(registry, which)
    assert parts.names() == CHOICES[which].split()
    assert all(parts.find(name, key="key") is not None for name in parts.names())
    with pytest.raises(errors.ConfigError) as caught:
        parts.find("qqqqq", key="key")
    assert str(caught.value) == f"key='qqqqq': choose from {', '.join(parts.names())}"


@pytest.mark.parametrize("name", ["base", "masks", "parts", "supervised", "decoding", "targets", "adapters", "../lora"])
def test_helper_modules_are_no_choices(name):
    for which in CHOICES:
        with pytest.raises(errors.ConfigError, match="key="):
            getattr(registry, which).find(name, key="key")


def test_an_unknown_attention_is_answered_with_attentions():
    with pytest.raises(errors.ConfigError, match="^model.attention='flash': choose from approximate, efficient, f"):
        registry.ATTENTIONS.partial("flash", key="model.attention", taken=())


def test_unknown_kinds_of_sources():
    with pytest.raises(errors.DataError, match="no kind 'fodler'; did you mean 'folder'"):
        sources.load("fodler:x")


@dataclasses.dataclass(frozen=True)
class Part:
    flag: bool = False
    count: int = 1
    rate: float = 0.5
    word: str = "x"
    maybe: bool | None = None
    values: tuple = ()
    patterns: str | tuple[str, ...] = ".*"
    table: collections.abc.Mapping | None = None
    make: collections.abc.Callable = dict
    anything: object = None


FITS = [
    *[("flag", True), ("count", 3), ("rate", 3), ("rate", 0.1), ("word", ""), ("maybe", None), ("maybe", True)],
    *[("values", (1, "a")), ("values", [1, 2]), ("patterns", "a"), ("patterns", ["a", "b"]), ("patterns", ("a",))],
    *[("table", None), ("table", {"a": 1}), ("table", ml_collections.ConfigDict()), ("make", list), ("anything", 3)],
]
OTHERS = [
    *[("flag", "yes"), ("flag", 1), ("flag", None), ("count", True), ("count", 1.0), ("count", "1"), ("rate", True)],
    *[("rate", "0.1"), ("rate", None), ("word", 3), ("maybe", 0), ("values", "abc"), ("values", 3), ("patterns", 3)],
    *[("patterns", ["a", 3]), ("table", 3), ("make", 3)],
]


@pytest.mark.parametrize(("name", "value"), FITS)
def test_values_that_fit(name, value):
    expected = tuple(value) if isinstance(value, list) else value
    expected = value.to_dict() if hasattr(value, "to_dict") else expected
    assert registry.arguments(Part, {name: value}, key="part") == {name: expected}


@pytest.mark.parametrize(("name", "value"), OTHERS)
def test_values_of_another_type(name, value):
    with pytest.raises(errors.ConfigError, match=f"part.{name}=.* should be of type "):
        registry.arguments(Part, {name: value}, key="part")


def test_messages_say_the_type_and_the_default():
    for name, value, message in [
        ("flag", "yes", "part.flag='yes' should be of type bool, like its default False"),
        ("maybe", 3, "part.maybe=3 should be of type bool or None, like its default None"),
        ("patterns", 3, "part.patterns=3 should be of type str or tuple, like its default '.*'"),
    ]:
        with pytest.raises(errors.ConfigError) as caught:
            registry.arguments(Part, {name: value}, key="part")
        assert str(caught.value) == message


def test_unknown_and_taken_arguments():
    with pytest.raises(errors.ConfigError, match="part.cuont: Part has no such argument; did you mean 'count'"):
        registry.arguments(Part, {"cuont": 3}, key="part")
    with pytest.raises(errors.ConfigError, match="part.count: Part has no such argument; choose from flag"):
        registry.arguments(Part, {"count": 3}, key="part", taken=("count", "anything", "make", "maybe"))


def test_a_string_gives_arguments_too():
    cls, given = registry.ATTENTIONS.resolve("kv_projection:rank=16,folded=true,dropout=0.5", key="model.attention")
    assert cls.__name__ == "Attention" and given == {"rank": 16, "folded": True, "dropout": 0.5}
    for text, message in [
        ("softmax:block", "'block' should be ARGUMENT=VALUE"),
        ("softmax:block=wide", "block='wide' should be of type int"),
        ("softmax:blocks=3", "blocks: Attention has no such argument; did you mean 'block'"),
    ]:
        with pytest.raises(errors.ConfigError, match=message):
            registry.ATTENTIONS.resolve(text, key="model.attention")


def test_a_section_restored_from_json_is_equal():
    section = {"name": "cnn", "widths": (8, 16), "outputs": 3}
    restored = json.loads(json.dumps(section))
    assert registry.MODELS.make(restored, key="model") == registry.MODELS.make(section, key="model")


def test_bound_arguments_are_equal_if_the_class_and_they_are():
    bind = functools.partial(registry.ATTENTIONS.partial, key="key", taken=())
    one = bind("local:window=4")
    assert one == bind({"name": "local", "window": 4}) and hash(one) == hash(bind("local:window=4"))
    assert one != bind("local:window=5") and one != bind("softmax") and one != functools.partial(one.func, window=4)


def test_a_section_without_a_name():
    with pytest.raises(errors.ConfigError, match="model has no name; choose from bert, cnn"):
        registry.MODELS.make({"width": 3}, key="model")


def test_kinds_and_sources_are_listed_without_jax():
    code = "import sys; from lwt import registry as r; r.DATA_KINDS.names(), r.SOURCES.names()"
    code += "; print('jax' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_an_argument_given_twice_is_refused():
    with pytest.raises(errors.ConfigError, match="model.attention: window is given twice"):
        registry.ATTENTIONS.resolve("local:window=8,window=9", key="model.attention")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused(value):
    with pytest.raises(errors.ConfigError, match="task.label_smoothing=.* should be a finite number"):
        registry.TASKS.make({"name": "translate", "label_smoothing": value}, key="task")
