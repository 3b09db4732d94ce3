import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.models import embbert

SMALL = dict(vocabulary=24, max_length=12, width=8, reduced=4, layers=2, kernel_size=3, expansion=2)
BATCH = {
    "ids": jnp.array([[2, 5, 6, 4, 7, 4], [2, 9, 4, 0, 0, 0]]),
    "segments": jnp.array([[1, 1, 1, 1, 2, 2], [1, 1, 1, 0, 0, 0]]),
}


def test_the_papers_reading_has_the_papers_formulas():
    paper = embbert.Embbert(8192, use_bias=False, norm="layer", segments=2)
    tree = trees.flatten(jax.eval_shape(lambda: paper.init(jax.random.key(0), paper.example()))["params"])

    def count(prefix):
        return trees.count(trees.subtree(tree, prefix))

    assert count("embed") == 16 * (8192 + 256 + 2 * 128) + 2 * 128 == 139_520
    assert count("block_0") - count("block_0/difference") == 53_504
    assert count("block_0/difference") == 4 * 128
    assert trees.count({name: leaf for name, leaf in tree.items() if "/difference/" not in name}) == 353_536


@pytest.mark.parametrize("reading", [{}, dict(use_bias=False, norm="layer", segments=2)], ids=["code", "paper"])
def test_equals_pytorch(reading, weights_of, run):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    model = embbert.Embbert(**SMALL, **reading)
    params = weights_of(model)["params"]
    ours = run(model, {"params": params}, BATCH)

    w = {name: torch.tensor(np.array(leaf)) for name, leaf in trees.flatten(params).items()}

    def linear(x, name):
        return functional.linear(x, w[f"{name}/kernel"].T, w.get(f"{name}/bias"))

    ids, segments = (torch.tensor(np.array(BATCH[key])).long() for key in ("ids", "segments"))
    x = linear(w["embed/token"][ids], "embed/token_expander")
    x = x + linear(w["embed/position"][:6], "embed/position_expander")
    x = x + w["embed/segment"][(segments - 1).clamp(min=0) if reading else segments]
    for block in ("block_0", "block_1"):
        if reading:
            x = functional.layer_norm(x, (8,), w[f"{block}/norm/scale"], w[f"{block}/norm/bias"], eps=1e-6)
        else:
            x = functional.rms_norm(x, (8,), w[f"{block}/norm/scale"], eps=1e-6)
        scores = linear(x, f"{block}/attention/query") @ x.transpose(1, 2) / 8**0.5
        scores = scores.masked_fill((segments == 0)[:, None, :], float("-inf"))
        attended = linear(scores.softmax(-1) @ x, f"{block}/attention/out")
        convolved = functional.conv1d(
            functional.pad(x.transpose(1, 2), (2, 0)),
            w[f"{block}/conv/kernel"].T[:, None],
            w.get(f"{block}/conv/bias"),
            groups=8,
        )
        contracted = linear(functional.silu(convolved.transpose(1, 2)), f"{block}/contract")
        vectors = {name: w[f"{block}/difference/{name}"] for name in trees.subtree(w, f"{block}/difference")}
        first = (vectors["attention_query"] @ vectors["attention_key"]).exp()
        second = (vectors["conv_query"] @ vectors["conv_key"]).exp()
        x = first * attended - second * contracted
    real = np.array(BATCH["segments"]) > 0
    np.testing.assert_allclose(np.array(ours)[real], x.numpy()[real], atol=2e-5)


def test_collapsed_weights_give_the_same_output(weights_of, run):
    model = embbert.Embbert(**SMALL, head="classify")
    params = weights_of(model, seed=1)["params"]
    before = dict(trees.flatten(params))
    collapsed = embbert.collapse(params)
    assert dict(trees.flatten(params)).keys() == before.keys()
    assert trees.count(params) - trees.count(collapsed) == SMALL["layers"] * (4 * 8 - 2)
    light = model.clone(collapsed=True)
    wanted = jax.eval_shape(lambda: light.init(jax.random.key(0), light.example()))["params"]
    assert trees.differences(trees.flatten(wanted), trees.flatten(collapsed)) == ""
    np.testing.assert_allclose(
        run(light, {"params": collapsed}, BATCH), run(model, {"params": params}, BATCH), atol=1e-6
    )
    with pytest.raises(errors.ConfigError, match="no weights.*to collapse"):
        embbert.collapse(collapsed)


def test_the_difference_is_learned(weights_of):
    model = embbert.Embbert(**SMALL, head="classify")
    params = weights_of(model, seed=1)["params"]
    gradient = jax.jit(jax.grad(lambda params: jnp.square(model.apply({"params": params}, BATCH)).sum()))(params)
    for name, leaf in trees.flatten(gradient).items():
        if "/difference/" in name:
            assert np.abs(leaf).max() > 0, name


def test_dropout_acts_in_training_only(weights_of, run):
    model = embbert.Embbert(**SMALL, attention_dropout=0.5)
    variables = weights_of(model, seed=1)
    train = jax.jit(lambda seed: model.apply(variables, BATCH, train=True, rngs={"dropout": jax.random.key(seed)}))
    assert not np.allclose(train(0), train(1))
    np.testing.assert_array_equal(train(0), train(0))
    np.testing.assert_array_equal(run(model, variables, BATCH), run(model, variables, BATCH))
