"""A batch of many adapters has the answers of each adapter alone, and more adapters compile nothing."""

import jax
import numpy as np
import pytest

from lwt import errors
from lwt.reparam import compose
from lwt.runs import experiment
from lwt.runs.serving import adapter_stack
from lwt.training import new_run
from tests.runs import test_adapter_folder

pytestmark = pytest.mark.usefixtures("compiled_once")
TEXTS = ["the warm year 3", "a bold and old one", "cold", "the old year was bold and warm and old", "warm 7"] * 2
QUERY = ".*(query|value)/kernel"
SECTIONS = {
    "lora": {"name": "lora", "rank": 2, "targets": QUERY},
    "wide": {"name": "lora", "rank": 3, "alpha": 5.0, "targets": ".*(query|fc1)/kernel"},
    "pissa": {"name": "lora", "rank": 1, "start": "pissa", "targets": QUERY},
    "vera": {"name": "vera", "rank": 4, "targets": QUERY},
    "unilora": {"name": "unilora", "length": 20, "rank": 2, "bound": 0.3, "targets": QUERY},
}
CLASSES = {"lora": ("no", "yes"), "wide": ("l", "m", "s"), "pissa": ("a", "b", "c", "d", "e")}


@pytest.fixture(scope="module")
def base(untrained, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    return untrained(test_adapter_folder.config_of(home, "base"), home / "base")


@pytest.fixture(scope="module")
def made(base, tmp_path_factory):
    """``made(name, section=None, classes=()) -> folder`` of a run with random leaves and a random head."""
    home, folders = tmp_path_factory.mktemp("adapters"), {}

    def made(name, section=None, classes=()):
        if name not in folders:
            section, classes = section or SECTIONS[name], classes or CLASSES.get(name, ("no", "yes"))
            key = jax.random.key(sum(map(ord, name)))
            leaves = compose.build(section).init(key, base.weights)
            moved = {
                leaf: w if leaf.endswith("0") else w + 0.3 * jax.random.normal(jax.random.fold_in(key, i), w.shape)
                for i, (leaf, w) in enumerate(leaves.items())
            }
            shapes = {"kernel": (16, len(classes)), "bias": (len(classes),)}
            head = {f"head/classifier/{x}": jax.random.normal(key, shape) for x, shape in shapes.items()}
            run = new_run.adapt(base, home / name, reparam=section, adapter=moved, trained=head, classes=classes)
            folders[name] = test_adapter_folder.written(run, base)
        return folders[name]

    return made


def alone(base, folder, texts):
    return experiment.load(folder, base=base).outputs(texts)[0]


@pytest.mark.parametrize("names", [["lora", "wide", "pissa", "vera", "unilora"], ["ia3", "ia3 again"]], ids=str)
def test_answers_are_those_of_each_adapter_alone(base, made, names):
    ia3 = {"name": "ia3", "targets": ".*(query|fc2)/kernel"}
    folders = {name: made(name, ia3 if "ia3" in name else None) for name in names}
    stack = adapter_stack.AdapterStack(base, folders)
    chosen = [names[i % len(names)] for i in range(len(TEXTS))]
    found, answers = stack.outputs(TEXTS, adapters=chosen), stack.predict(TEXTS, adapters=chosen)
    for name in names:
        places = [i for i, own in enumerate(chosen) if own == name]
        wanted = alone(base, folders[name], [TEXTS[i] for i in places])
        np.testing.assert_allclose(found[places, : wanted.shape[1]], wanted, rtol=0, atol=1e-6)
        assert (found[places, wanted.shape[1] :] < -1e8).all()
        run = experiment.load(folders[name], base=base)
        assert [answers[i] for i in places] == run.predict([TEXTS[i] for i in places])
    rows = stack.predict_proba(TEXTS, adapters=chosen)
    assert [{*row} for row in rows] == [{*stack.labels[name]} for name in chosen]


def test_more_adapters_compile_nothing(base, made):
    stack = adapter_stack.AdapterStack(base, {"lora": made("lora"), "wide": made("wide")}, capacity=3)
    stack.outputs(TEXTS, adapters=["lora", "wide"] * 5)
    programs = stack._logits._cache_size()
    stack.add("vera", made("vera two", SECTIONS["vera"] | {"rank": 3}))
    found = stack.outputs(TEXTS, adapters=["vera"] * 10)
    assert stack._logits._cache_size() == programs
    np.testing.assert_allclose(found[:, :2], alone(base, made("vera two"), TEXTS), rtol=0, atol=1e-6)
    with pytest.raises(errors.ConfigError, match="room for 3; give a larger capacity"):
        stack.add("unilora", made("unilora"))


def test_what_does_not_fit(base, made):
    with pytest.raises(errors.ConfigError, match="at least one adapter"):
        adapter_stack.AdapterStack(base, {})
    hira = made("hira", {"name": "hira", "rank": 2, "targets": QUERY})
    with pytest.raises(errors.ConfigError, match="'hira' changes .* by more than low rank"):
        adapter_stack.AdapterStack(base, {"hira": hira, "lora": made("lora")})
    stack = adapter_stack.AdapterStack(base, {"lora": made("lora")}, capacity=2)
    with pytest.raises(errors.ConfigError, match="another section reparam"):
        stack.add("wide", made("wide"))
    with pytest.raises(errors.ConfigError, match="2 texts and 1 names"):
        stack.predict(TEXTS[:2], adapters=["lora"])
    with pytest.raises(errors.ConfigError, match="adapter 'lroa': did you mean 'lora'"):
        stack.predict(TEXTS[:1], adapters=["lroa"])
