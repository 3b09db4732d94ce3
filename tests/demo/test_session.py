"""Answers equal the run's and its adapters', and the next input compiles nothing."""

import csv

import jax
import jax.numpy as jnp
import PIL.Image
import pytest

from lwt import errors, trees
from lwt.data import tokenizer
from lwt.data.sources import generated
from lwt.demo import session
from lwt.export import bundle
from lwt.layers import linear
from lwt.reparam import adapters, compose
from lwt.runs import experiment
from lwt.training import new_run

TEXT = ("the cold year was bolder",)
# Of 17 to 31 tokens, so that eval.py pads to 32 as the page does.
PROMPTS = ["copy: zqxjkvwyzqxjkvwyp", "add 2: xqzjkvwyxqzjkvwyxj"]


@pytest.fixture(scope="module")
def classes(classifier, adapted):
    return session.Session(classifier.workdir, adapters=adapted)


@pytest.fixture(scope="module")
def translations(translator):
    return session.Session(translator.workdir)


@pytest.fixture
def compilations():
    """A list that gets an entry per program that XLA compiles or reads from its cache."""
    found = []

    def listen(event, seconds, **_):
        found.extend([seconds] if event == "/jax/core/compile/backend_compile_duration" else [])

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


def probabilities(experiment, text):
    """``{class: probability}`` as a function of the weights, from the model alone on a row without padding."""
    ids = jnp.array([[tokenizer.CLS, *experiment.tokenizer.encode([text])[0], tokenizer.SEP]])
    batch = {"ids": ids, "segments": jnp.ones_like(ids)}
    logits = jax.jit(lambda weights: experiment.model.apply({"params": trees.unflatten(weights)}, batch)[0])
    return lambda weights: dict(zip(experiment.labels, jax.nn.softmax(logits(weights)).tolist()))


def test_probabilities_equal_those_of_the_run_and_its_adapters(classes, classifier, adapted):
    base, wanted, seen = linear.merge(classifier.weights), probabilities(classifier, TEXT[0]), []
    assert classes.names == ("base", "lora", "dora") and classes.kind == "class"
    for name in classes.names:
        weights = base
        if name != "base":
            weights = linear.merge(adapters.load(f"{adapted[name]}/adapter").expand(base))
        found = classes.answer(TEXT, adapter=name)
        assert found == pytest.approx(wanted(weights), abs=1e-5)
        seen.append(round(found["odd"], 3))
    assert len(set(seen)) == 3, "every adapter changes the answer"


@pytest.mark.parametrize("beams", [1, 4])
def test_translations_equal_those_of_eval(translations, translator, beams):
    wanted = experiment.load(translator.workdir, decoding={"beams": beams}).predict(PROMPTS)
    assert [translations.answer((prompt,), beams=beams) for prompt in PROMPTS] == wanted
    assert [len(ids) // 16 for ids in translator.tokenizer.encode(PROMPTS)] == [1, 1] and any(wanted)


@pytest.mark.parametrize("name", ["classifier", "translator", "photographer"])
def test_what_is_prepared_compiles_nothing_when_it_is_first_used(name, compilations, request, tmp_path):
    run = request.getfixturevalue(name)
    served = session.Session(run.workdir)
    served.prepare()
    compilations.clear()
    given = ["copy: 1 2 3 4"] if name == "translator" else ["the cold year", "cold " * 40]
    if name == "photographer":
        PIL.Image.new("RGB", (9, 7)).save(tmp_path / "x.png")
        given = [str(tmp_path / "x.png")]
    for text in given:
        served.look((text,), answer=served.answer((text,)))
    assert not compilations


def test_a_table_keeps_its_records_and_gets_answers(classes, adapted, tmp_path):
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("id,text\n7,the cold year\n8,a warm day\n")
    classes.table(str(path), str(out), adapter="lora")
    (_, *rows) = csv.reader(out.read_text().splitlines())
    for (number, text, label, score), wanted in zip(rows, ("7", "8"), strict=True):
        best, share = max(classes.answer((text,), adapter="lora").items(), key=lambda pair: pair[1])
        assert (number, label) == (wanted, best) and abs(float(score) - share) < 1e-3
    path.write_text("id,title\n7,the cold year\n")
    with pytest.raises(errors.DataError, match="text"):
        classes.table(str(path), str(tmp_path / "other.csv"))


def test_another_text_and_another_adapter_compile_nothing(classes, compilations):
    classes.answer(TEXT), classes.look(TEXT)
    assert compilations
    compilations.clear()
    for text in ("old", "a long dark and slow year"):
        for name in classes.names:
            classes.answer((text,), adapter=name), classes.look((text,), adapter=name)
    assert not compilations


def test_a_bundle_answers_like_its_run(classifier, classes, adapted, tmp_path):
    bundle.write(classifier, tmp_path / "bundle")
    found = session.Session(tmp_path / "bundle", adapters={"lora": adapted["lora"]})
    for name in ("base", "lora"):
        assert found.answer(TEXT, adapter=name) == classes.answer(TEXT, adapter=name)


def test_an_adapter_with_classes_of_its_own(classifier, translator, adapted, tmp_path):
    section, head = {"name": "lora", "rank": 2}, "head/classifier"
    leaves = compose.build(section).init(jax.random.key(0), linear.merge(classifier.weights))
    width = classifier.weights[f"{head}/kernel"].shape[0]
    trained = {f"{head}/kernel": jax.random.normal(jax.random.key(1), (width, 3)), f"{head}/bias": jnp.arange(3.0)}
    options = {"reparam": section, "adapter": leaves, "trained": trained, "classes": ("l", "m", "s")}
    run = new_run.adapt(classifier, tmp_path / "run", **options)
    found = session.Session(classifier.workdir, adapters={"size": run.workdir, "lora": adapted["lora"]})
    assert found.answer(TEXT, adapter="size") == pytest.approx(probabilities(run, TEXT[0])(run.weights), abs=1e-5)
    assert [*found.answer(TEXT, adapter="size")] == ["l", "m", "s"] and found.look(TEXT, adapter="size").attentions
    assert [*found.answer(TEXT, adapter="lora")] == [*found.answer(TEXT)] == ["even", "odd"]
    assert run.predict(TEXT) == [max(found.answer(TEXT, adapter="size").items(), key=lambda item: item[1])[0]]


def test_empty_and_long_inputs_are_refused(classes, translations):
    for text in ("", "  ", "<br>"):
        for served in (classes, translations):
            with pytest.raises(errors.DataError, match="The text is empty"):
                served.answer((text,))
    count = len(classes.experiment.tokenizer.encode(["cold " * 60])[0])
    with pytest.raises(errors.DataError, match=f"has {count} tokens, but this model reads at most 46"):
        classes.answer(("cold " * 60,))
    with pytest.raises(errors.DataError, match="reads at most 64"):
        translations.answer(("7 " * 80,))


def test_an_output_that_is_not_finite_is_named(classes, monkeypatch):
    run = classes._run("base")
    broken = run.with_weights(jax.tree.map(lambda w: w * jnp.nan, run.weights), name="broken", step=0)
    monkeypatch.setattr(classes, "_run", lambda _: broken)
    with pytest.raises(errors.NotFinite, match="output is not finite"):
        classes.answer(TEXT)


def test_an_unknown_adapter_is_named(classes):
    for use in (classes.answer, classes.look):
        with pytest.raises(errors.ConfigError, match="adapter 'lroa': did you mean 'lora'"):
            use(TEXT, adapter="lroa")


@pytest.mark.parametrize("given", [(None,), (3,), ("a", "b"), (), ("\ud800",), ("a" * 100_001,)])
def test_what_is_no_text_of_the_run_is_refused(classes, translations, given):
    for served in (classes, translations):
        with pytest.raises(errors.DataError, match="not text|surrogate|100,001 characters"):
            served.answer(given)


def test_wrong_runs_and_adapters_are_refused(classifier, translator, adapted, tmp_path):
    with pytest.raises(errors.CheckpointError, match="nowhere is not the workdir of a run"):
        session.Session(str(tmp_path / "nowhere"))
    with pytest.raises(errors.CheckpointError, match="lora.* was trained on another base"):
        session.Session(translator.workdir, adapters={"lora": adapted["lora"]})
    with pytest.raises(errors.CheckpointError, match="no adapter in"):
        session.Session(classifier.workdir, adapters={"x": classifier.workdir})
    with pytest.raises(errors.ConfigError, match="the name 'base' is reserved"):
        session.Session(classifier.workdir, adapters={"base": adapted["lora"]})


def test_examples_come_from_the_validation_set(classes, translations):
    sources = {record["source"] for record in generated.arithmetic("validation", size=8)}
    found = translations.inputs.examples(3)
    assert len(found) == 3 and {source for (source,) in found} <= sources
    assert all(text.startswith("the ") for (text,) in classes.inputs.examples(3))
