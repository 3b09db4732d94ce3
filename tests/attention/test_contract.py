"""Every attention in lwt/attention/ keeps the one signature: found by its file, tested here."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, registry
from lwt.attention.parts import masks

CLASSES = {name: registry.ATTENTIONS.find(name, key="attention") for name in registry.ATTENTIONS.names()}
KINDS = {  # other settings of the same files
    "softmax, head_width": ("softmax", {"head_width": 2}),
    "softmax, kv_heads": ("softmax", {"kv_heads": 2}),
    "softmax, block": ("softmax", {"block": 2}),
    "softmax, kv_heads and block": ("softmax", {"kv_heads": 1, "block": 4}),
    "softmax_one, kv_heads and block": ("softmax_one", {"kv_heads": 2, "block": 3}),
    "kv_projection, folded": ("kv_projection", {"rank": 1, "folded": True}),
    "kv_projection, heads of their own": ("kv_projection", {"rank": 3, "shared": False, "mixing": True}),
    "linformer, E and F": ("linformer", {"shared": False, "rank": 5, "max_length": 12}),
    "nystrom, landmarks": ("nystrom", {"landmarks": 3}),
    "nystrom, kernel_size": ("nystrom", {"landmarks": 2, "kernel_size": 3}),
    "linear, random": ("linear", {"features": "random", "count": 6}),
    "linear, block": ("linear", {"block": 2}),
    "local, window": ("local", {"window": 3}),
    "sparse, strided": ("sparse", {"stride": 2}),
    "sparse, fixed": ("sparse", {"pattern": "fixed", "stride": 3, "summary": 1}),
    "folded, places": ("folded", {"places": 2, "kv_heads": 2}),
    "folded, block": ("folded", {"places": 3, "block": 2}),
    "approximate, centre": ("approximate", {"norm": "centre", "degree": 1}),
    "approximate, features": ("approximate", {"exact_forward": False, "block": 4}),
    "approximate, clip": ("approximate", {"degree": 3, "norm": "clip", "kv_heads": 2, "exact_forward": False}),
}
CASES = {**{name: (name, {}) for name in CLASSES}, **KINDS}


@functools.cache
def made(case, **more):
    name, arguments = CASES[case]
    module = CLASSES[name](width=16, heads=4, **arguments, **more)
    return module, jax.jit(module.init)(jax.random.key(0), jnp.ones((1, 3, 16)))


def those(**can):
    """The cases whose class says that it can."""
    kept = [case for case, (name, _) in CASES.items() if all(getattr(CLASSES[name], c) is v for c, v in can.items())]
    return pytest.mark.parametrize("case", kept)


def rows(seed, length):
    return jax.random.normal(jax.random.key(seed), (2, length, 16))


def touched(output, x):
    """Which positions of the first row of x the output (a function of x) depends on."""
    return (np.abs(jax.jit(jax.grad(lambda x: output(x).sum()))(x)[0]).sum(-1) > 0).tolist()


def test_there_are_attentions():
    assert {"softmax", "efficient"} <= CLASSES.keys()


@those()
def test_output_has_the_shape_of_x(case):
    module, variables = made(case)
    assert jax.eval_shape(module.apply, variables, rows(0, 5)).shape == (2, 5, 16)


@those()
def test_padding_has_no_gradient(case):
    module, variables = made(case)
    mask = masks.Mask(jnp.array([[1, 1, 1, 1, 0, 0, 0]] * 2))

    def output(x):
        return module.apply(variables, x, None, mask)[0, :4]

    assert touched(output, rows(0, 7)) == [True] * 4 + [False] * 3


@those()
def test_padding_does_not_change_the_rest(case):
    module, variables = made(case)

    @jax.jit
    def both(x, more):
        longer, mask = jnp.concatenate([x, more], axis=1), masks.Mask(jnp.array([[1, 1, 1, 1, 0, 0, 0]] * 2))
        alone = module.apply(variables, x, None, masks.Mask(jnp.ones((2, 4), int)))
        return module.apply(variables, longer, None, mask)[:, :4], alone

    np.testing.assert_allclose(*both(rows(0, 4), rows(1, 3)), atol=2e-6)


@those(crosses=True)
def test_a_padded_context_has_no_gradient(case):
    module, variables = made(case)
    mask = masks.Mask(jnp.array([[1, 1, 0, 1, 0]] * 2))
    x = rows(0, 4)

    def output(context):
        return module.apply(variables, x, context, mask)[0]

    assert touched(output, rows(1, 5)) == [True, True, False, True, False]


@those(crosses=False)
def test_another_sequence_is_refused(case):
    module, variables = made(case)
    with pytest.raises(errors.ConfigError, match="cross_attention"):
        module.apply(variables, rows(0, 4), rows(1, 4))


@those(has_causal=True)
def test_causal_by_gradient(case):
    module, variables = made(case)

    @jax.jit
    def changes(x):  # [t s]: how position t of the output depends on position s of the input
        def output(x):
            return module.apply(variables, x[None], None, masks.Mask(causal=True))[0].sum(-1)

        return jnp.abs(jax.jacrev(output)(x)).sum(-1)

    seen = np.asarray(changes(rows(0, 6)[0])) > 0
    assert seen.diagonal().all() and not np.triu(seen, 1).any()


@those(has_causal=False)
def test_a_causal_mask_is_refused(case):
    module, variables = made(case)
    with pytest.raises(errors.ConfigError, match="no causal form"):
        module.apply(variables, rows(0, 4), None, masks.Mask(causal=True))


@those(has_causal=True)
def test_a_step_at_a_time_equals_the_whole(case):
    module, variables = made(case)

    @jax.jit
    def both(x):
        def step(cache, item):
            index, x = item
            y, cache = module.apply(variables, x[:, None], cache=cache, index=index)
            return cache, y[:, 0]

        cache = module.empty_cache(2, 9)
        assert all(leaf.shape[0] == 2 for leaf in jax.tree.leaves(cache))
        steps = jax.lax.scan(step, cache, (jnp.arange(9), x.swapaxes(0, 1)))[1]
        return steps.swapaxes(0, 1), module.apply(variables, x, None, masks.Mask(causal=True))

    np.testing.assert_allclose(*both(rows(0, 9)), atol=2e-6)


@those(keeps_texts_apart=True)
@pytest.mark.parametrize("causal", [False, True])
def test_texts_in_a_row_do_not_see_each_other(case, causal):
    module, variables = made(case)
    causal = causal and module.has_causal

    @jax.jit
    def both(x):
        segments = jnp.array([[1, 1, 1, 2, 2, 2, 2, 0]] * 2)
        packed = module.apply(variables, x, None, masks.Mask(segments, segments, causal=causal))
        alone = [module.apply(variables, x[:, a:b], None, masks.Mask(causal=causal)) for a, b in ((0, 3), (3, 7))]
        return packed[:, :7], jnp.concatenate(alone, axis=1)

    np.testing.assert_allclose(*both(rows(0, 8)), atol=2e-6)


@those(keeps_texts_apart=False)
def test_several_texts_in_a_row_are_refused(case):
    module, variables = made(case)
    segments = jnp.array([[1, 1, 2, 2]] * 2)
    with pytest.raises(errors.ConfigError, match="data.packed"):
        module.apply(variables, rows(0, 4), None, masks.Mask(segments, segments))


@those(crosses=True)
def test_a_projected_context_equals_the_context(case):
    module, variables = made(case)

    @jax.jit
    def both(x, context):
        mask = masks.Mask(jnp.array([[1, 1, 1, 0, 0], [1] * 5]))
        cache = module.apply(variables, context, method="project")
        return module.apply(variables, x, None, mask, cache=cache), module.apply(variables, x, context, mask)

    np.testing.assert_allclose(*both(rows(0, 3), rows(1, 5)), atol=2e-6)


@those()
def test_operands_of_half_precision_give_about_the_same(case):
    module, variables = made(case)
    whole, half = (
        jax.jit(jax.value_and_grad(lambda x, m=m: (m.apply(variables, x) ** 2).sum()))(rows(0, 12))
        for m in (module, module.clone(dtype="bfloat16"))
    )
    assert abs(half[0] - whole[0]) < 0.02 * abs(whole[0])
    assert np.linalg.norm(half[1] - whole[1]) < 0.05 * np.linalg.norm(whole[1])


@those()
def test_dropout_acts_in_training_only(case):
    module, variables = made(case, dropout=0.5)

    def train(seed):
        return module.apply(variables, rows(0, 4), train=True, rngs={"dropout": jax.random.key(seed)})

    def plain(_):
        return module.apply(variables, rows(0, 4))

    train, plain = jax.jit(train), jax.jit(plain)
    assert not np.allclose(train(0), train(1)) and not np.allclose(train(0), plain(0))
    np.testing.assert_array_equal(train(0), train(0))
    np.testing.assert_array_equal(plain(0), plain(1))


@those()
def test_heads_that_do_not_divide_the_width_are_refused(case):
    name, arguments = CASES[case]
    if "head_width" not in arguments:
        with pytest.raises(errors.ConfigError, match="heads=3"):
            CLASSES[name](width=16, heads=3, **arguments).init(jax.random.key(0), jnp.ones((1, 3, 16)))
