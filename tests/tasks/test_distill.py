"""Distillation equals the formulas over whole arrays of logits and states."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import text_head
from lwt.layers.losses import soft_loss
from lwt.models import embedder, seq2seq
from lwt.tasks import classify, distill, masked_lm, regress, translate

pytestmark = pytest.mark.usefixtures("compiled_once")

SEGMENTS = ((1, 1, 1, 2, 2, 0, 0), (1, 1, 1, 1, 1, 1, 0), (0,) * 7)  # the last row is a filler


def translator(*, layers, width, seed):
    model = seq2seq.Seq2Seq(32, width=width, heads=2, hidden=16, encoder_layers=layers, decoder_layers=layers)
    params = jax.jit(model.init)(jax.random.key(seed), model.example())["params"]
    return model.apply, params


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(0)
    segments, positions = jnp.asarray(SEGMENTS), jnp.tile(jnp.arange(7), (3, 1))
    batch = {f"{side}_segments": segments for side in ("source", "target")}
    batch |= {f"{side}_positions": positions for side in ("source", "target")}
    return batch | {name: jnp.asarray(rng.integers(4, 32, (3, 7))) for name in ("source", "inputs", "targets")}


def bound(model):
    apply, params = model
    return functools.partial(apply, {"params": params})


def test_loss_of_a_translator_and_its_layers(pairs):
    """The whole objective equals a sum over parts of both models; 2 layers learn from 4 of another width."""
    student, teacher = translator(layers=2, width=8, seed=0), translator(layers=4, width=16, seed=1)
    task = translate.Translate(chunk=6)
    objective = distill.Distill(task, teacher="there", temperature=1.5, weight=0.25, hidden=2.0, attention=3.0)
    projections = objective.init(jax.random.key(2), bound(student), teacher=bound(teacher), batch=pairs)
    parts = ("", "/self_attention", "/cross_attention")
    wanted = {f"decoder/layer_{i}{part}/kernel" for i in (0, 1) for part in parts}
    wanted |= {f"encoder/layer_{i}{part}/kernel" for i in (0, 1) for part in parts[:2]}
    assert {name: leaf.shape for name, leaf in projections.items()} == dict.fromkeys(wanted, (8, 16))

    def call(x):
        total, *more = objective.loss(bound(student), pairs, train=False, teacher=bound(teacher), projections=x)
        return total, more

    (total, (count, sums)), gradients = jax.jit(jax.value_and_grad(call, has_aux=True))(projections)
    real = np.asarray(pairs["target_segments"]) > 0

    def answers(model):
        given, found = bound(model)(pairs, capture_intermediates=True, mutable=["intermediates"])
        return given, trees.flatten(found["intermediates"])

    (z, mine), (z_teacher, theirs) = (jax.jit(functools.partial(answers, model))() for model in (student, teacher))
    hard = classify.cross_entropy(z[real], pairs["targets"][real]).sum()
    soft, matched = soft_loss.divergence(z, z_teacher, temperature=1.5)[real].sum(), 0.0
    for weight, parts_of in ((2.0, parts[:1]), (3.0, parts[1:])):
        names = [name.removesuffix("/kernel") for name in sorted(wanted)]
        names = [name for name in names if any(name.endswith(f"_{i}{part}") for i in (0, 1) for part in parts_of)]
        for name in names:
            other = name.replace("_1", "_3").replace("_0", "_1")  # of 4 layers, the second and the fourth
            x = mine[f"{name}/__call__"][0] @ projections[f"{name}/kernel"]
            matched += weight / len(names) * ((x - theirs[f"{other}/__call__"][0]) ** 2)[real].mean()
    assert count == real.sum() == 11
    assert float(total) == pytest.approx(float(0.75 * hard + 0.25 * soft + 11 * matched), rel=1e-5)
    assert objective.finish(sums) == pytest.approx(
        task.finish(sums) | {"loss": float(hard) / 11, "soft_loss": float(soft) / 11, "layer_loss": float(matched)},
        rel=1e-5,
    )
    assert all(np.abs(leaf).max() > 0 for leaf in gradients.values())


def test_a_student_equal_to_its_teacher_has_no_gradient(pairs):
    model = translator(layers=2, width=8, seed=0)
    objective = distill.Distill(translate.Translate(), teacher="there", weight=1.0, hidden=1.0, attention=1.0)
    assert objective.init(jax.random.key(0), bound(model), teacher=bound(model), batch=pairs) == {}

    def total(params):
        student = functools.partial(model[0], {"params": params})
        return objective.loss(student, pairs, train=False, teacher=bound(model), projections={})[0]

    value, gradient = jax.jit(jax.value_and_grad(total))(model[1])
    assert float(value) == pytest.approx(0, abs=1e-5)
    assert all(np.abs(leaf).max() < 1e-5 for leaf in jax.tree.leaves(gradient))


def test_loss_of_classes_and_numbers():
    rng = np.random.default_rng(0)
    z, teacher = rng.normal(size=(2, 4, 3)).astype("f4")
    batch = {"weight": np.array([1, 1, 1, 0.0]), "label": np.array([0, 2, -1, 1])}  # one unknown class, one filler
    objective = distill.Distill(classify.Classify(), teacher="there", temperature=2.0, weight=0.25)
    asked = {"teacher": lambda batch, **_: teacher, "projections": {}}
    total, count, _ = objective.loss(lambda batch, **_: z, batch, **asked)
    hard = classify.cross_entropy(z[:2], np.array([0, 2])).sum()
    soft = soft_loss.divergence(z[:2], teacher[:2], temperature=2.0).sum()
    assert count == 2 and float(total) == pytest.approx(float(0.75 * hard + 0.25 * soft), rel=1e-6)
    sums = objective.evaluate(lambda batch, **_: jnp.asarray(z), batch)
    alone = classify.Classify().score(z[:3], batch["label"][:3])
    assert objective.finish(sums) == pytest.approx(alone, rel=1e-5)

    batch = {"segments": np.array([[1], [1], [0]]), "label": np.array([1.0, 2.0, 9.0])}
    objective = distill.Distill(regress.Regress(), teacher="there", weight=0.25)
    for given in (np.array([[3.0], [0.0], [7.0]]), np.array([3.0, 0.0, 7.0])):  # from a model; from a table
        asked = {"teacher": lambda batch, given=given, **_: given, "projections": {}}
        total, count, _ = objective.loss(lambda batch, **_: jnp.array([[2.0], [4.0], [5.0]]), batch, **asked)
        assert count == 2 and float(total) == pytest.approx(0.75 * (1 + 4) + 0.25 * (1 + 16))


def test_the_teacher_reads_the_words_left_by_word_dropout():
    model = embedder.Embedder(32, max_length=16, width=8, reduced=4, head="classify", outputs=3, word_dropout=0.5)
    ids = jnp.asarray(np.random.default_rng(0).integers(5, 32, (4, 16)))
    batch = {"ids": ids, "segments": jnp.ones_like(ids), "label": jnp.array([0, 1, 2, 0])}
    params, read = model.init(jax.random.key(0), batch), []

    def teacher(batch, **options):
        read.append(batch["ids"])
        return 3 * model.apply(params, batch, **options)

    objective = distill.Distill(classify.Classify(), teacher="there", weight=0.25)
    student = functools.partial(model.apply, params)
    total, *_ = objective.loss(student, batch, rngs={"dropout": jax.random.key(1)}, teacher=teacher, projections={})
    assert 0.3 < (read[0] == text_head.MASK).mean() < 0.7 and jnp.all((read[0] == ids) | (read[0] == text_head.MASK))
    z = student({**batch, "ids": read[0]})  # the student's outputs on the words it read
    hard, soft = classify.cross_entropy(z, batch["label"]).sum(), soft_loss.divergence(z, 3 * z, temperature=2.0).sum()
    assert float(total) == pytest.approx(float(0.75 * hard + 0.25 * soft), rel=1e-5)


def test_loss_of_masked_words():
    """Masked words have soft targets; the mean over them counts as much as that over records."""
    rng = np.random.default_rng(0)
    hidden = jnp.asarray(rng.normal(size=(2, 2, 5, 4)), jnp.float32)
    kernels = jnp.asarray(rng.normal(size=(2, 9, 4)), jnp.float32)

    def model(i):
        def apply(*args, method=None, **_):
            outputs = {
                "hidden_states": hidden[i],
                "output_layer": (kernels[i], jnp.zeros(9)),
                "next_sentence": hidden[i][:, 0, :2],
            }
            return outputs[method]

        return apply

    batch = {
        **{"ids": np.ones((2, 5), int), "segments": np.ones((2, 5), int), "next_sentence": np.array([0, 1])},
        "masked_positions": np.array([[1, 3], [4, 0]]),
        "masked_targets": np.array([[2, 3], [4, 0]]),
        "masked_weights": np.array([[1.0, 1.0], [1.0, 0.0]]),
    }
    task = masked_lm.MaskedLm()
    objective = distill.Distill(task, teacher="there", temperature=2.0, weight=0.25)
    total, count, _ = objective.loss(model(0), batch, teacher=model(1), projections={})
    logits = [hidden[i] @ kernels[i].T for i in (0, 1)]
    soft = soft_loss.divergence(*(x[np.array([0, 0, 1]), np.array([1, 3, 4])] for x in logits), temperature=2.0).mean()
    hard = task.loss(model(0), batch)[0]
    assert count == 2 and float(total) == pytest.approx(float(0.75 * hard + 0.25 * 2 * soft), rel=1e-5)


def test_which_layer_learns_from_which():
    names = [f"block_{i}" for i in range(12)]
    assert [int(other[6:]) for _, other in distill.pairs(names[:4], names)] == [2, 5, 8, 11]
    assert [int(other[6:]) for _, other in distill.pairs(names[:4], names[:6])] == [0, 2, 3, 5]
    assert [int(other[6:]) for _, other in distill.pairs(names[:4], names[:2])] == [0, 0, 0, 1]
    assert distill.pairs(["block_0/self_attention"], ["block_0/attention"]) == [
        ("block_0/self_attention", "block_0/attention")
    ]


@pytest.mark.parametrize(
    "mine, theirs", [([], []), (["block_0"], ["encoder/layer_0"]), (["block_0/attention"], ["block_0"])]
)
def test_layers_without_a_counterpart(mine, theirs):
    with pytest.raises(errors.ConfigError, match="learn from the outputs alone"):
        distill.pairs(mine, theirs)


@pytest.mark.parametrize("wrong", [dict(teacher=""), dict(temperature=0.0), dict(weight=1.5), dict(hidden=-1.0)])
def test_settings_out_of_range(wrong):
    with pytest.raises(errors.ConfigError, match=f"task.{next(iter(wrong))}"):
        distill.Distill(translate.Translate(), **({"teacher": "there"} | wrong))
