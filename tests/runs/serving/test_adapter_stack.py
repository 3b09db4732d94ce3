"""A batch of many adapters has the answers of each adapter alone, and more adapters compile nothing."""

import jax
import numpy as np
import pytest

import lwt
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
    "ia3": {"name": "ia3", "targets": ".*(query|fc2)/kernel", "feedforward": ".*fc2/kernel"},
    "hira": {"name": "hira", "rank": 2, "targets": QUERY},
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


KINDS = ["lora", "wide", "pissa", "vera", "unilora", "ia3", "hira"]


@pytest.mark.parametrize("names", [KINDS, ["ia3", "ia3 again"]], ids=["many methods", "one"])
def test_answers_are_those_of_each_adapter_alone(base, made, names):
    folders = {name: made(name, SECTIONS["ia3"] if "ia3" in name else None) for name in names}
    opened = lwt.load(base.workdir, adapters=folders)
    texts = TEXTS + TEXTS[:4]
    chosen = [names[i % len(names)] for i in range(len(texts))]
    found, answers = opened.adapters.outputs(texts, adapters=chosen), opened.predict(texts, adapters=chosen)
    rows = opened.predict_proba(texts, adapters=chosen)
    for name in names:
        run, places = experiment.load(folders[name], base=base), [i for i, own in enumerate(chosen) if own == name]
        own = [texts[i] for i in places]
        wanted = run.outputs(own)[0]
        np.testing.assert_allclose(found[places, : wanted.shape[1]], wanted, rtol=0, atol=1e-6)
        assert (found[places, wanted.shape[1] :] < -1e8).all()
        assert [answers[i] for i in places] == run.predict(own)
        assert [{*rows[i]} for i in places] == [{*run.labels}] * len(places)
        probabilities = [[*rows[i].values()] for i in places]
        np.testing.assert_allclose(probabilities, run.predict_proba(own), rtol=0, atol=1e-6)
    assert opened.predict(TEXTS) == base.predict(TEXTS)  # without an adapter
    assert opened.predict([], adapters=[]) == []


def test_more_adapters_compile_nothing(base, made):
    opened = lwt.load(base.workdir, adapters={"lora": made("lora"), "wide": made("wide")}, capacity=3)
    stack = opened.adapters
    opened.predict(TEXTS, adapters=["lora", "wide"] * 5)
    programs = stack._evaluator._predict._cache_size()
    section = {"name": "lora", "rank": 3, "targets": QUERY}
    stack.add("narrow", made("narrow", section))
    found = stack.outputs(TEXTS, adapters=["narrow"] * 10)
    assert stack._evaluator._predict._cache_size() == programs
    np.testing.assert_allclose(found[:, :2], alone(base, made("narrow"), TEXTS), rtol=0, atol=1e-6)
    with pytest.raises(errors.ConfigError, match="room for 3; give a larger capacity"):
        stack.add("pissa", made("pissa"))


@pytest.mark.parametrize("beams", [1, 3])
def test_translators_answer_with_their_own_adapters(translators, beams):
    base, folders = translators
    texts = ["1 2", "3", "2 1", "4 4", "add"] * 2  # of one length, since the longest answer depends on it
    opened = experiment.load(base.workdir, adapters=folders, decoding={"beams": beams})
    names = [*folders]
    chosen = [names[i % 3] for i in range(len(texts))]
    answers = opened.predict(texts, adapters=chosen)
    for name in names:
        run = experiment.load(folders[name], base=base, decoding={"beams": beams})
        places = [i for i, own in enumerate(chosen) if own == name]
        assert [answers[i] for i in places] == run.predict([texts[i] for i in places])
    assert len({opened.predict(texts[:1], adapters=[name])[0] for name in names}) > 1
    with pytest.raises(errors.ConfigError, match="task.name='translate' gives no probabilities"):
        opened.predict_proba(texts, adapters=chosen)


@pytest.fixture(scope="module")
def translators(untrained, tiny, tmp_path_factory):
    home = tmp_path_factory.mktemp("translators")
    base, folders = untrained(tiny(), home / "base"), {}
    for i, name in enumerate(["lora", "narrow", "ia3"]):
        section = {"name": "ia3"} if name == "ia3" else {"name": "lora", "rank": i + 1, "targets": QUERY}
        leaves = compose.build(section).init(jax.random.key(i), base.weights)
        moved = {leaf: w + 0.5 * jax.random.normal(jax.random.key(i), w.shape) for leaf, w in leaves.items()}
        folders[name] = test_adapter_folder.written(
            new_run.adapt(base, home / name, reparam=section, adapter=moved), base
        )
    return base, folders


def test_what_does_not_fit(base, made):
    with pytest.raises(errors.ConfigError, match="at least one"):
        adapter_stack.AdapterStack(base, {})
    with pytest.raises(errors.ConfigError, match="give adapters as well"):
        lwt.load(base.workdir, capacity=3)
    with pytest.raises(errors.ConfigError, match="was opened without adapters"):
        base.predict(TEXTS, adapters=["lora"] * 10)
    dora = made("dora", {"name": "dora", "rank": 2, "targets": QUERY})
    with pytest.raises(errors.ConfigError, match='"dora".* does not stack with others'):
        adapter_stack.AdapterStack(base, {"dora": dora, "lora": made("lora")})
    stack = adapter_stack.AdapterStack(base, {"lora": made("lora")}, capacity=2)
    with pytest.raises(errors.ConfigError, match="another section reparam"):
        stack.add("wide", made("wide"))
    with pytest.raises(errors.ConfigError, match="another adapter has this name"):
        stack.add("lora", made("lora"))
    with pytest.raises(errors.ConfigError, match="2 texts and 1 names"):
        stack.predict(TEXTS[:2], adapters=["lora"])
    with pytest.raises(errors.ConfigError, match="adapter 'lroa': did you mean 'lora'"):
        stack.predict(TEXTS[:1], adapters=["lroa"])
