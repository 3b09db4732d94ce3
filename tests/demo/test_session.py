"""The answers are those of the run, with an adapter those of its arithmetic, and the next one compiles nothing."""

import jax
import jax.numpy as jnp
import pytest

from lwt import errors, trees
from lwt.data import tokenizer
from lwt.data.sources import generated
from lwt.demo import __main__ as program
from lwt.demo import session
from lwt.export import bundle
from lwt.layers import linear
from lwt.reparam import adapters
from lwt.runs import experiment

TEXT = ("the cold year was bolder",)
# Of 17 to 31 tokens, for which eval.py has rows of 32 as the page has.
PROMPTS = ["copy: zqxjkvwyzqxjkvwyp", "add 2: xqzjkvwyxqzjkvwyxj"]


@pytest.fixture(scope="module")
def classes(classifier, adapted):
    return session.Session(classifier.workdir, given=adapted)


@pytest.fixture(scope="module")
def translations(translator):
    return session.Session(translator.workdir)


@pytest.fixture
def compilations():
    """A list that grows with every program that XLA compiles or takes from its cache."""
    found = []

    def listen(event, seconds, **_):
        found.extend([seconds] if event == "/jax/core/compile/backend_compile_duration" else [])

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


def probabilities(opened, text):
    """``{class: probability}`` as a function of the weights, by the model alone, on a row without padding."""
    ids = jnp.array([[tokenizer.CLS, *opened.tokenizer.encode([text])[0], tokenizer.SEP]])
    batch = {"ids": ids, "segments": jnp.ones_like(ids)}
    logits = jax.jit(lambda weights: opened.model.apply({"params": trees.unflatten(weights)}, batch)[0])
    return lambda weights: dict(zip(opened.labels, jax.nn.softmax(logits(weights)).tolist()))


def test_probabilities_of_the_run_and_its_adapters(classes, classifier, adapted):
    base, wanted, seen = linear.merge(classifier.weights), probabilities(classifier, TEXT[0]), []
    assert classes.names == ("base", "lora", "dora") and classes.kind == "class"
    for name in classes.names:
        weights = base
        if name != "base":
            weights = linear.merge(adapters.load(f"{adapted[name]}/adapter").expand(base))
        found = classes.answer(TEXT, adapter=name)
        assert found == pytest.approx(wanted(weights), abs=1e-5)
        seen.append(round(found["odd"], 3))
    assert len(set(seen)) == 3, "an adapter changes nothing"


@pytest.mark.parametrize("beams", [1, 4])
def test_translations_are_those_of_eval(translations, translator, beams):
    wanted = experiment.load(translator.workdir, decoding={"beams": beams}).predict(PROMPTS)
    assert [translations.answer((prompt,), beams=beams) for prompt in PROMPTS] == wanted
    assert [len(ids) // 16 for ids in translator.tokenizer.encode(PROMPTS)] == [1, 1] and any(wanted)


def test_another_text_and_another_adapter_compile_nothing(classes, compilations):
    classes.answer(TEXT), classes.look(TEXT)
    assert compilations
    compilations.clear()
    for text in ("old", "a long dark and slow year"):
        for name in classes.names:
            classes.answer((text,), adapter=name), classes.look((text,), adapter=name)
    assert not compilations


def test_a_bundle_is_as_good_as_a_run(classifier, classes, adapted, tmp_path):
    bundle.write(classifier, tmp_path / "bundle")
    found = session.Session(tmp_path / "bundle", given={"lora": adapted["lora"]})
    for name in ("base", "lora"):
        assert found.answer(TEXT, adapter=name) == classes.answer(TEXT, adapter=name)


def test_what_is_no_input_is_refused(classes, translations):
    for text in ("", "  ", "<br>"):
        for opened in (classes, translations):
            with pytest.raises(errors.DataError, match="no text yet"):
                opened.answer((text,))
    count = len(classes.opened.tokenizer.encode(["cold " * 60])[0])
    with pytest.raises(errors.DataError, match=f"has {count} tokens, and this model reads up to 46"):
        classes.answer(("cold " * 60,))
    with pytest.raises(errors.DataError, match="reads up to 64"):
        translations.answer(("7 " * 80,))


def test_what_is_no_run_or_adapter_is_refused(classifier, translator, adapted, tmp_path):
    with pytest.raises(errors.CheckpointError, match="nowhere is not the workdir of a run"):
        session.Session(str(tmp_path / "nowhere"))
    with pytest.raises(errors.CheckpointError, match="lora.* was trained on another base"):
        session.Session(translator.workdir, given={"lora": adapted["lora"]})
    with pytest.raises(errors.CheckpointError, match="no adapter in"):
        session.Session(classifier.workdir, given={"x": classifier.workdir})
    with pytest.raises(errors.ConfigError, match="another name than 'base'"):
        session.Session(classifier.workdir, given={"base": adapted["lora"]})


def test_adapters_of_flags():
    assert program.adapters_of(["a=x", "b=y=z"]) == {"a": "x", "b": "y=z"}
    for given, why in ((["x"], "NAME=FOLDER"), (["=x"], "NAME=FOLDER"), (["a=x", "a=y"], "'a' is x already")):
        with pytest.raises(errors.ConfigError, match=why):
            program.adapters_of(given)


def test_examples_are_of_the_validation_set(classes, translations):
    sources = {record["source"] for record in generated.arithmetic("validation", size=8)}
    found = translations.inputs.examples(3)
    assert len(found) == 3 and {source for (source,) in found} <= sources
    assert all(text.startswith("the ") for (text,) in classes.inputs.examples(3))
