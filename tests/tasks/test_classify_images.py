"""Classification of images: normalisation, filler rows, mixed labels, and no augmentation in evaluation."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lwt import errors, registry
from lwt.tasks import classify, classify_images

MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.1)
TASK = classify_images.ClassifyImages(mean=MEAN, std=STD)
TABLE = np.random.default_rng(1).normal(size=(4 * 4 * 3, 5)).astype("f4")


def batch_of(count=12, *, fillers=0, seed=0):
    rng = np.random.default_rng(seed)
    rows = count + fillers
    return {
        "image": rng.integers(0, 256, (rows, 4, 4, 3), np.uint8),
        "weight": (np.arange(rows) < count).astype("f4"),
        "label": rng.integers(0, 5, rows).astype("i4"),
    }


def on_device(batch):
    return jax.tree.map(jnp.asarray, batch)


def apply(batch, *, train=False, rngs=None):
    return batch["image"].reshape(len(batch["image"]), -1) @ TABLE


def normalised(image):
    return (image / 255 - np.array(MEAN)) / np.array(STD)


def test_the_model_reads_normalised_images():
    batch = batch_of()
    logits = TASK.predict(apply, batch)
    np.testing.assert_allclose(logits, normalised(batch["image"]).reshape(12, -1) @ TABLE, rtol=1e-4, atol=1e-4)
    maps = classify_images.ClassifyImages(mean=(2.0,), std=(4.0,))  # floats are not divided by 255
    float_batch = {**batch, "image": batch["image"].astype("f4")}
    wanted = ((batch["image"] - 2.0) / 4.0).reshape(12, -1) @ TABLE
    np.testing.assert_allclose(maps.predict(apply, float_batch), wanted, rtol=1e-4, atol=1e-3)


def test_fillers_add_nothing_and_evaluation_equals_classify():
    full, batch = batch_of(12, fillers=5), batch_of(12, fillers=5)
    real = {name: array[:12] for name, array in batch.items()}
    for part in (full, real):
        part["label"] = part["label"].copy()
        part["label"][0] = -1
    figures = [TASK.finish(TASK.evaluate(apply, part)) for part in (full, real)]
    assert figures[0] == pytest.approx(figures[1]) and figures[0]["unknown_labels"] == 1
    logits = np.asarray(TASK.predict(apply, real))
    assert figures[0] == pytest.approx(classify.Classify().score(logits, real["label"]), rel=1e-5)
    sums = TASK.loss(apply, full, train=True, rngs=None)[2]
    assert (float(sums["examples"]), float(sums["known"])) == (12, 11) and "tokens" not in sums


@pytest.mark.parametrize("mixing", [{"mixup": 0.8}, {"cutmix": 1.0}, {"mixup": 0.8, "cutmix": 1.0}])
def test_mixed_labels_equal_soft_labels_of_optax(mixing):
    """Captures the batch that the model reads to rebuild its soft labels."""
    seen = {}

    def capturing(batch, *, train=False, rngs=None):
        seen.update(batch)
        return apply(batch)

    batch = batch_of(64)
    batch["label"][5] = -1
    task = classify_images.ClassifyImages(mean=MEAN, std=STD, label_smoothing=0.1, **mixing)
    value, count, sums = task.loss(capturing, on_device(batch), train=True, rngs={"dropout": jax.random.key(0)})
    known = batch["label"] >= 0
    share, label, second = (np.asarray(seen[name]) for name in ("share", "label", "second"))
    assert (share >= 0.5).all() and (share[[5, 6]] == 1).all() and (share < 1).mean() > 0.6
    np.testing.assert_allclose(seen["image"][5:7], normalised(batch["image"][5:7]), rtol=1e-5, atol=1e-5)
    mixed = {*zip(label.tolist(), second.tolist(), strict=True)}
    pairs = np.stack([batch["label"], np.roll(batch["label"], 1)], axis=1)
    assert mixed <= {(int(a), int(b)) for pair in pairs for a, b in (pair, pair[::-1])}
    soft = share[:, None] * np.eye(5)[label] + (1 - share[:, None]) * np.eye(5)[second]
    soft = optax.smooth_labels(jnp.asarray(soft), 0.1)
    wanted = optax.softmax_cross_entropy(apply(seen), soft)[known].sum()
    assert float(value) == pytest.approx(float(wanted), rel=1e-5) and float(count) == known.sum() == 63
    right = np.asarray(apply(seen)).argmax(1) == label
    assert float(sums["correct"]) == right[known].sum()


def test_training_augments_by_key_and_evaluation_does_not():
    task = classify_images.ClassifyImages(mean=MEAN, std=STD, flip=True, crop=1, padding="reflect", cutmix=1.0)
    batch = batch_of(32)
    loss = jax.jit(lambda key: task.loss(apply, on_device(batch), train=True, rngs={"dropout": key})[0])
    first, second = jax.random.key(0), jax.random.key(1)
    assert float(loss(first)) == float(loss(first)) != float(loss(second))
    plain = TASK.loss(apply, batch, train=False)[0]
    assert float(task.loss(apply, batch, train=False)[0]) == pytest.approx(float(plain))
    assert task.finish(task.evaluate(apply, batch)) == TASK.finish(TASK.evaluate(apply, batch))


def test_gradients_flow_through_augmentation():
    task = classify_images.ClassifyImages(mean=MEAN, std=STD, flip=True, crop=1, mixup=0.5, cutmix=0.5)
    batch, rngs = on_device(batch_of(8)), {"dropout": jax.random.key(0)}

    def loss(table):
        return task.loss(lambda batch, **_: batch["image"].reshape(8, -1) @ table, batch, train=True, rngs=rngs)[0]

    gradient = jax.jit(jax.grad(loss))(TABLE)
    assert np.isfinite(gradient).all() and (np.abs(gradient).sum(1) > 0).all()


def test_wrong_settings():
    with pytest.raises(errors.ConfigError, match="task.padding='mirror': choose from reflect, zero"):
        classify_images.ClassifyImages(padding="mirror")
    with pytest.raises(errors.ConfigError, match=r"task.std=\(0.0,\) should be .* above 0"):
        classify_images.ClassifyImages(std=(0.0,))
    two = classify_images.ClassifyImages(mean=(0.5, 0.5))
    with pytest.raises(errors.ConfigError, match=r"task.mean=\(0.5, 0.5\) must have 1 number or 3, one per channel"):
        two.predict(apply, batch_of())


def test_found_by_name():
    section = {"name": "classify_images", "mean": [0.5], "std": [0.2], "flip": True}
    assert registry.TASKS.make(section, key="task", dtype="bfloat16").flip
