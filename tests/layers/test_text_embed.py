import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import linear, text_embed

SIZES = dict(vocabulary=11, max_length=6, width=8)
IDS, SEGMENTS = jnp.array([[2, 7, 4, 9, 4, 0]]), jnp.array([[1, 1, 1, 2, 2, 0]])


@pytest.mark.parametrize("reduced, count", [(0, 8 * (11 + 6 + 3)), (2, 2 * (11 + 6 + 2 * 8) + 3 * 8)])
def test_a_position_is_token_plus_position_plus_segment(reduced, count):
    module = text_embed.TextEmbed(**SIZES, reduced=reduced)
    params = module.init(jax.random.key(0), IDS, SEGMENTS)["params"]
    assert trees.count(params) == count
    flat = {name: np.array(leaf) for name, leaf in trees.flatten(params).items()}

    def expand(name):
        return flat.get(f"{name}_expander/kernel", np.eye(8))

    tokens, positions = flat["token"] @ expand("token"), flat["position"] @ expand("position")
    expected = tokens[IDS[0]] + positions + flat["segment"][SEGMENTS[0]]
    np.testing.assert_allclose(module.apply({"params": params}, IDS, SEGMENTS)[0], expected, atol=1e-6)


def test_two_segment_rows_are_the_first_and_the_second_text():
    module = text_embed.TextEmbed(**SIZES, segments=2)
    params = module.init(jax.random.key(0), IDS, SEGMENTS)["params"]
    params = {**params, "token": 0 * params["token"], "position": 0 * params["position"]}
    rows = module.apply({"params": params}, IDS, SEGMENTS)[0]
    np.testing.assert_allclose(rows[:5], params["segment"][np.array([0, 0, 0, 1, 1])], atol=1e-6)


def test_segment_gradients_count_their_positions():
    module = text_embed.TextEmbed(**SIZES, reduced=2)
    variables = module.init(jax.random.key(0), IDS, SEGMENTS)
    gradient = jax.grad(lambda variables: module.apply(variables, IDS, SEGMENTS).sum())(variables)
    np.testing.assert_allclose(gradient["params"]["segment"][:, 0], [1, 3, 2])


def test_wrong_input_is_named():
    for fields, length, message in (({}, 7, "7 tokens.*model.max_length=6"), ({"segments": 4}, 6, "model.segments=4")):
        ones = jnp.ones((1, length), int)
        with pytest.raises(errors.ConfigError, match=message):
            text_embed.TextEmbed(**SIZES, **fields).init(jax.random.key(0), ones, ones)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_are_products_with_the_transposed_table(dtype):
    shapes = (2, 3, 8), (40, 8), (40,)
    arguments = [jax.random.normal(jax.random.key(seed), shape) for seed, shape in enumerate(shapes)]

    def loss(product, *arguments):
        return jnp.square(product(*arguments)).sum()

    def by_linear(x, table, bias):
        return linear.linear(x, table.T, bias=bias)

    def by_table(x, table, bias):
        return text_embed.logits(x, table, bias=bias, dtype=dtype)

    tolerance = 1e-5 if dtype == "float32" else 0.02
    found, expected = (jax.jit(product)(*arguments) for product in (by_table, by_linear))
    assert found.shape == (2, 3, 40) and found.dtype == jnp.float32
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())
    for found, expected in zip(
        *(
            jax.jit(jax.grad(functools.partial(loss, product), argnums=(0, 1, 2)))(*arguments)
            for product in (by_table, by_linear)
        ),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_tables_of_positions_and_segments_may_be_factors():
    model = text_embed.TextEmbed(vocabulary=9, max_length=6, width=4)
    ids, segments = jnp.array([[2, 5, 6]]), jnp.array([[1, 1, 2]])
    params = model.init(jax.random.key(0), ids, segments)["params"]
    factors = {}
    for name in ("position", "segment"):
        a, b = jnp.linalg.qr(params[name])
        factors[name] = linear.Factors(a, b)
    found = model.apply({"params": {**params, **factors}}, ids, segments)
    np.testing.assert_allclose(found, model.apply({"params": params}, ids, segments), atol=1e-5)
