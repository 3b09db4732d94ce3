"""AdamW with moments of a byte, beside that with moments of four."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lwt import trees
from lwt.machine import devices
from lwt.runs import checkpoint
from lwt.training import adam8, optim, train

SHAPES = {"table": (512, 16), "kernel": (16, 300), "out": (300, 16), "bias": (300,)}
SETTINGS = dict(learning_rate=3e-3, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01)


def weights(seed):
    generator = np.random.default_rng(seed)
    return {n: jnp.asarray(generator.normal(size=s) * s[0] ** -0.25, jnp.float32) for n, s in SHAPES.items()}


def outputs(params, ids):
    x = jnp.take(params["table"], ids, axis=0).mean(1)
    return jnp.tanh(x @ params["kernel"] + params["bias"][None]) @ params["out"]


def trained(optimizer, *, steps=300):
    """The weights after some steps towards another network's outputs; rows of the table are met by Zipf's law."""
    generator, target = np.random.default_rng(0), weights(1)
    share = 1 / np.arange(1, 513)
    batches = generator.choice(512, size=(steps, 32, 6), p=share / share.sum())

    def loss(params, ids):
        return jnp.square(outputs(params, ids) - outputs(target, ids)).sum(1).mean()

    def step(carry, ids):
        params, state = carry
        value, gradients = jax.value_and_grad(loss)(params, ids)
        updates, state = optimizer.update(gradients, state, params)
        return (optax.apply_updates(params, updates), state), value

    (params, state), losses = jax.jit(lambda carry: jax.lax.scan(step, carry, batches))(
        (weights(0), optimizer.init(weights(0)))
    )
    return params, state, losses


def test_it_goes_the_way_of_adamw():
    """How far beside, as a share of the way that was gone: 1 to 6 % measured in each weight (Adam turns small errors of
    small gradients into steps as large as any). Over all weights it is less than what another free choice, a b2 of
    0.99, makes of float32 moments."""
    params, state, losses = trained(adam8.adamw_8bit(**SETTINGS))
    expected, _, wanted = trained(optax.adamw(**SETTINGS))
    other, *_ = trained(optax.adamw(**{**SETTINGS, "b2": 0.99}))

    def distance(one, two):
        return {name: float(jnp.linalg.norm(one[name] - two[name])) for name in SHAPES}

    beside, way = distance(params, expected), distance(weights(0), expected)
    assert all(beside[name] < 0.08 * way[name] for name in SHAPES), (beside, way)
    assert np.linalg.norm([*beside.values()]) < 0.6 * np.linalg.norm([*distance(other, expected).values()])
    np.testing.assert_allclose(losses[-50:].mean(), wanted[-50:].mean(), rtol=0.01)
    assert wanted[-50:].mean() < wanted[:10].mean() / 2 and int(state[0].count) == 300


def test_what_the_state_takes():
    params = weights(0)
    state, plain = (maker(1e-3).init(params)[0] for maker in (adam8.adamw_8bit, optax.adamw))
    large = sum(leaf.size for leaf in params.values() if leaf.ndim == 2)
    blocks = 8192 // 256 + 2 * 19
    assert trees.nbytes(state) == 2 * large + 2 * 4 * blocks + 2 * 4 * 300 + 2 * 4 + 4
    kernels = [{n: part[n] for n in params if n != "bias"} for part in state[1:]]
    assert trees.nbytes(kernels) < 0.26 * trees.nbytes([{n: m[n] for n in params if n != "bias"} for m in plain[1:]])


def test_small_weights_have_float32_moments():
    params = {"small": weights(0)["kernel"][:, :255], "bias": weights(0)["bias"]}
    found, expected = adam8.adamw_8bit(**SETTINGS), optax.adamw(**SETTINGS)
    state, state_ = found.init(params), expected.init(params)
    for _ in range(3):
        gradients = {name: jnp.sin(9 * leaf) for name, leaf in params.items()}
        (moves, state), (moves_, state_) = (
            found.update(gradients, state, params),
            expected.update(gradients, state_, params),
        )
        for name in params:
            np.testing.assert_allclose(moves[name], moves_[name], rtol=1e-5, atol=1e-9)
        params = optax.apply_updates(params, moves)


def test_moments_decay_without_gradients():
    """Rounded to the nearest, a root that shrinks by 0.05 % a step would stay; rows never met stay exactly 0."""
    table = jnp.abs(weights(0)["table"]).at[100:200].set(0.0) + 0.0
    optimizer = adam8.scale_by_adam_8bit()
    state = jax.jit(lambda: optimizer.update({"table": table}, optimizer.init({"table": table}))[1])()
    before = adam8._unsigned(state.nu["table"], state.nu_scales["table"])
    decay = jax.jit(
        lambda state: jax.lax.fori_loop(0, 400, lambda _, s: optimizer.update({"table": 0 * table}, s)[1], state)
    )
    after = adam8._unsigned(*(part["table"] for part in decay(state)[3:]))
    assert float(after.sum() / before.sum()) == pytest.approx(0.999**200, rel=0.01)
    assert not after[100:200].any() and (after[:100] > 0).all()


@pytest.mark.parametrize("size", [4096, 5000])
def test_codes(size):
    x = np.random.default_rng(0).standard_t(3, size).astype(np.float32)
    scale = np.repeat(np.abs(np.pad(x, (0, -size % 256))).reshape(-1, 256).max(1), 256)[:size]
    back = np.asarray(jax.jit(lambda x: adam8._signed(*adam8._to_signed(x)))(x))
    exact = np.sqrt(np.abs(x) / scale)  # half a step of the root, and so 2·root/254 of the value
    assert np.all(np.abs(back - x) <= scale * (exact / 127 + 127**-2 / 4 + 1e-6))
    assert np.array_equal(np.sign(back)[exact > 0.5 / 127], np.sign(x)[exact > 0.5 / 127])
    draw = jax.jit(jax.vmap(lambda key: adam8._unsigned(*adam8._to_unsigned(jnp.abs(x), key))))
    many = np.asarray(draw(jax.random.split(jax.random.key(0), 400)))
    assert np.all(np.abs(many - np.abs(x)) <= scale / 255 * 1.001) and np.all(many.min(0) > 0)
    shown = np.abs(x) > scale / 255
    assert np.abs((many.mean(0) - np.abs(x)) * 255 / scale)[shown].max() < 5 * 0.5 / 20  # by chance, right on average


def test_a_run_with_rules_resumes_exactly(tiny, tmp_path):
    """In two groups of weight decay, clipped; the table of 128 x 32 is the one large weight."""
    changes = {"optimizer.name": "adamw_8bit", "optimizer.weight_decay": 0.1, "optimizer.clip_norm": 1.0}
    changes |= {"data.tokenizer.vocabulary": 192, "eval_every": 9, "save_every": 9}
    for workdir, lengths in (("whole", (4,)), ("parts", (2, 4))):
        for steps in lengths:
            train.run(tiny({**changes, "steps": steps}), tmp_path / workdir)
    whole, parts = (checkpoint.Checkpoints(tmp_path / w / "checkpoints").restore()[0] for w in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)
    assert {str(leaf.dtype) for name, leaf in whole.items() if name.startswith("opt_state")} >= {"int8", "uint8"}


def test_moments_lie_where_their_weight_lies(tiny):
    section = tiny({"optimizer.name": "adamw_8bit"}).optimizer
    params = {"base/table": weights(0)["table"], "base/bias": weights(0)["bias"]}
    state = jax.eval_shape(optim.build(section, params, steps=1)[0].init, params)
    mesh = devices.make_mesh({"data": -1})
    places = devices.shardings(mesh, state, rules=((".*table", ("data",)), (".*", ())))
    large = places[0].inner_states["rate×1 decay×1"].inner_state[0]
    assert {tuple(place["base/table"].spec) for place in large[1:]} == {("data",)}
