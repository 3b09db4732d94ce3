"""Classification of records, with a model that looks up its logits."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import sklearn.metrics
import sklearn.utils.class_weight

from lwt import errors
from lwt.tasks import classify


def batch_of(labels, ids, *, fillers=0):
    """One record per row, of which the model reads the first id; then filler rows with arbitrary content."""
    rows = len(labels)
    return {
        "ids": np.concatenate([np.tile(ids[:, None], (1, 3)), np.full((fillers, 3), 5)]),
        "segments": np.concatenate([np.tile([1, 1, 0], (rows, 1)), np.zeros((fillers, 3), int)]),
        "label": np.concatenate([labels, np.full(fillers, labels[0])]),
    }


def model(table):
    return lambda batch, *, train=False, rngs=None: jnp.asarray(table)[batch["ids"][:, 0]]


def jitted(task, apply):
    """The task's `evaluate`, compiled as in a run."""
    return jax.jit(lambda batch: task.evaluate(apply, batch))


def problem(classes=4, rows=40):
    rng = np.random.default_rng(classes)
    table = rng.normal(size=(rows, classes)).astype("f4")
    labels = np.where(rng.random(rows) < 0.5, table.argmax(1), rng.integers(0, classes, rows))
    return table, labels, np.arange(rows)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_loss_equals_optax_and_fillers_add_nothing(smoothing):
    table, labels, ids = problem()
    task = classify.Classify(label_smoothing=smoothing)
    targets = optax.smooth_labels(jax.nn.one_hot(labels, 4), smoothing)

    def loss(table, fillers):
        return task.loss(model(table), batch_of(labels, ids, fillers=fillers))

    def reference(table):
        return optax.softmax_cross_entropy(table, targets).sum()

    for fillers in (0, 7):
        value, count, sums = loss(table, fillers)
        assert (float(count), float(sums["examples"]), float(sums["tokens"])) == (40, 40, 80)
        assert float(value) == pytest.approx(float(reference(table)), rel=1e-6)
        gradient, _ = jax.jit(jax.grad(lambda *given: loss(*given)[:2], has_aux=True), static_argnums=1)(table, fillers)
        np.testing.assert_allclose(gradient, jax.jit(jax.grad(reference))(table), atol=1e-6)
        assert task.finish(sums)["accuracy"] == pytest.approx((table.argmax(1) == labels).mean())


def test_figures_of_sums_and_of_predictions_equal_scikit_learn():
    table, labels, ids = problem()
    task, apply = classify.Classify(label_smoothing=0.5), model(table)
    parts = [batch_of(labels[i : i + 20], ids[i : i + 20], fillers=3) for i in (0, 20)]
    by_sums = task.finish(jax.tree.map(operator.add, *map(jitted(task, apply), parts)))
    predictions = np.concatenate([np.asarray(task.predict(apply, part))[:20] for part in parts])
    by_predictions = task.score(predictions, labels)
    assert by_sums == pytest.approx(by_predictions, rel=1e-5)
    p = np.exp(table.astype("f8"))
    assert by_sums["loss"] == pytest.approx(sklearn.metrics.log_loss(labels, p / p.sum(1, keepdims=True)), rel=1e-5)
    assert by_sums["mcc"] == pytest.approx(sklearn.metrics.matthews_corrcoef(labels, table.argmax(1)))
    weighted = sklearn.metrics.f1_score(labels, table.argmax(1), average="weighted")
    assert by_sums["f1_weighted"] == pytest.approx(weighted)
    ids_only = task.score(predictions.argmax(1), labels, groups=["a"] * 40)
    assert {**ids_only, "loss": by_sums["loss"]} == pytest.approx({**by_predictions, "accuracy/a": by_sums["accuracy"]})


def test_an_unknown_label_counts_as_wrong_but_not_in_the_loss():
    table, labels, ids = problem()
    task, apply = classify.Classify(), model(table)
    strange = np.where(ids < 6, -1, labels)
    known = task.finish(jitted(task, apply)(batch_of(labels[6:], ids[6:])))
    figures = task.finish(jitted(task, apply)(batch_of(strange, ids)))
    assert figures["loss"] == pytest.approx(known["loss"])
    assert figures["accuracy"] == pytest.approx(known["accuracy"] * 34 / 40)
    assert figures["unknown_labels"] == 6 and "unknown_labels" not in known
    assert task.score(table, strange) == pytest.approx(figures, rel=1e-5)
    assert float(task.loss(apply, batch_of(strange, ids))[1]) == 34


def test_empty_split():
    task = classify.Classify()
    empty = task.evaluate(model(np.zeros((6, 1))), batch_of(np.zeros(1, int), np.arange(1)))
    with pytest.raises(errors.DataError, match="the split is empty"):
        task.finish(jax.tree.map(jnp.zeros_like, empty))


def test_class_weights_are_factors_in_training_alone():
    """Of both labels of a mixed record; "balanced" as in scikit-learn, with a mean factor of 1."""
    table, labels, ids = problem()
    counts = np.bincount(labels, minlength=4)
    balanced = classify.Classify(class_weights="balanced", label_smoothing=0.1).for_labels("abcd", counts, records=40)
    wanted = sklearn.utils.class_weight.compute_class_weight("balanced", classes=np.arange(4), y=labels)
    np.testing.assert_allclose(balanced.class_weights, wanted)
    assert np.mean(wanted[labels]) == pytest.approx(1)
    batch, plain = batch_of(labels, ids, fillers=3), classify.Classify()
    nats = classify.cross_entropy(jnp.asarray(table), labels, smoothing=0.1)
    value, count, _ = balanced.loss(model(table), batch)
    assert float(value) == pytest.approx(float((nats * wanted[labels]).sum()), rel=1e-5) and float(count) == 40
    assert float(balanced.loss(model(table), batch, train=False)[0]) == pytest.approx(
        float(plain.loss(model(table), batch)[0])
    )
    assert balanced.evaluate(model(table), batch)["loss"] == plain.evaluate(model(table), batch)["loss"]
    by_name = classify.Classify(class_weights={"b": 3.0, "a": 0}).for_labels("abcd", counts, records=40)
    assert by_name.class_weights == (0.0, 3.0, 1.0, 1.0)
    mixed = batch_of(labels, ids) | {"second": labels[::-1].copy(), "share": np.full(40, 0.75, np.float32)}
    sides = [
        classify.cross_entropy(jnp.asarray(table), y) * np.array([0, 3, 1, 1.0])[y] for y in (labels, labels[::-1])
    ]
    wanted = 0.75 * sides[0].sum() + 0.25 * sides[1].sum()
    assert float(by_name.loss(model(table), mixed)[0]) == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.parametrize(
    "weights, message",
    [
        ("even", "class_weights='even' should be 'balanced' or {label: weight}"),
        ({"a": -1.0}, "class_weights.a=-1.0 should be positive or 0"),
        ({"spam": 2.0}, "class_weights names 'spam', which is not a label; did you mean 'Spam'?"),
        ({"Spam": 0.0, "ham": 0.0}, "class_weights is 0 for all labels"),
    ],
)
def test_wrong_class_weights_are_named(weights, message):
    with pytest.raises(errors.ConfigError, match=message):
        classify.Classify(class_weights=weights).for_labels(("Spam", "ham"), [3, 4], records=7)
