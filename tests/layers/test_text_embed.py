import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import text_embed

SIZES = dict(vocabulary=11, max_length=6, width=8)
IDS, SEGMENTS = jnp.array([[2, 7, 4, 9, 4, 0]]), jnp.array([[1, 1, 1, 2, 2, 0]])


@pytest.mark.parametrize("kind, count", [("full", 8 * (11 + 6 + 3)), ("nano", 2 * (11 + 6 + 2 * 8) + 3 * 8)])
def test_a_position_is_token_plus_position_plus_segment(kind, count):
    module = text_embed.make(kind, **SIZES, reduced=2)
    params = module.init(jax.random.key(0), IDS, SEGMENTS)["params"]
    assert trees.count(params) == count
    flat = {name: np.array(leaf) for name, leaf in trees.flatten(params).items()}

    def expand(name):
        return flat.get(f"{name}_expander/kernel", np.eye(8))

    tokens, positions = flat["token"] @ expand("token"), flat["position"] @ expand("position")
    expected = tokens[IDS[0]] + positions + flat["segment"][SEGMENTS[0]]
    np.testing.assert_allclose(module.apply({"params": params}, IDS, SEGMENTS)[0], expected, atol=1e-6)


def test_two_segment_rows_are_the_first_and_the_second_text():
    module = text_embed.make("full", **SIZES, segments=2)
    params = module.init(jax.random.key(0), IDS, SEGMENTS)["params"]
    params = {**params, "token": 0 * params["token"], "position": 0 * params["position"]}
    rows = module.apply({"params": params}, IDS, SEGMENTS)[0]
    np.testing.assert_allclose(rows[:5], params["segment"][np.array([0, 0, 0, 1, 1])], atol=1e-6)


def test_segment_gradients_count_their_positions():
    module = text_embed.make("nano", **SIZES, reduced=2)
    variables = module.init(jax.random.key(0), IDS, SEGMENTS)
    gradient = jax.grad(lambda variables: module.apply(variables, IDS, SEGMENTS).sum())(variables)
    np.testing.assert_allclose(gradient["params"]["segment"][:, 0], [1, 3, 2])


def test_wrong_input_is_named():
    with pytest.raises(errors.ConfigError, match="7 tokens.*model.max_length=6"):
        text_embed.make("full", **SIZES).init(jax.random.key(0), jnp.ones((1, 7), int), jnp.ones((1, 7), int))
    with pytest.raises(errors.ConfigError, match="model.embedding='nana'.*'nano'"):
        text_embed.make("nana", **SIZES)
    with pytest.raises(errors.ConfigError, match="model.segments=4"):
        text_embed.make("nano", **SIZES, segments=4)
