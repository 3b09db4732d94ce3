"""The base class: queries in blocks give the same, and fields out of range are named with their config key."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.attention import efficient, linear, linformer, local, softmax
from lwt.attention.parts import base, masks
from lwt.models import seq2seq


@pytest.mark.parametrize("queries, block", [(1, 1), (5, 4), (12, 12)])  # three blocks of at most five: of four each
@pytest.mark.parametrize("way", ["too large", "too large, on a CPU", "narrow heads, on a CPU"])
@pytest.mark.parametrize("kind", [softmax, efficient])
def test_weights_are_made_in_parts(kind, way, queries, block, monkeypatch):
    module = kind.Attention(width=8, heads=2)
    x = jax.random.normal(jax.random.key(0), (2, 12, 8))
    variables = module.init(jax.random.key(1), x)

    def run(x):
        def square(x):
            return jnp.square(module.apply(variables, x, None, masks.Mask(causal=True))).sum()

        return jax.value_and_grad(square)(x)

    def forms(*shape):
        """Whether there is such an array."""
        text = str(jax.make_jaxpr(lambda x: run(x))(x))  # not the one that was traced before
        return f"f32[{','.join(map(str, shape))}]" in text

    assert forms(2, 2, 12, 12)
    expected = run(x)
    if "too large" in way:
        monkeypatch.setattr(base, "WHOLE", 2 * 2 * 12 * 12 - 1)
    else:
        monkeypatch.setattr(base, "LONG", 12)
    if "CPU" in way:
        monkeypatch.setattr(base, "CACHED", 2 * 12 * queries // 4)
    else:
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        monkeypatch.setattr(base, "PART", 2 * 2 * 12 * queries)
    assert forms(2, 1 if "CPU" in way else 2, block, 12)
    for found, wanted in zip(run(x), expected):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "kind, fields, message",
    [
        (softmax, {"heads": 0}, "model.attention='softmax': heads=0 must be at least 1"),
        (softmax, {"width": 0}, "width=0 must be at least 1"),
        (softmax, {"heads": 3}, "heads=3 must divide width=8"),
        (softmax, {"head_width": -4}, "head_width=-4 must be at least 0"),
        (softmax, {"kv_heads": -1}, "kv_heads=-1 must be at least 0"),
        (softmax, {"dropout": 1.5}, r"dropout=1.5 must be in \[0, 1\)"),
        (softmax, {"dropout": float("nan")}, "dropout=nan must be finite"),
        (softmax, {"bound": float("inf")}, "bound=inf must be finite"),
        (softmax, {"norm": "cilp"}, "norm='cilp': did you mean \"'clip'\""),
        (linear, {"block": 0}, "model.attention='linear': block=0 must be at least 1"),
        (linformer, {"max_length": 0}, "max_length=0 must be at least 1"),
        (local, {"window": -1}, "window=-1 must be at least 1"),
    ],
)
def test_fields_out_of_range_are_named_with_their_config_key(kind, fields, message):
    module = kind.Attention(**{"width": 8, "heads": 2, **fields})
    with pytest.raises(errors.ConfigError, match=message):
        jax.eval_shape(module.init, jax.random.key(0), jnp.ones((1, 3, 8)))


@pytest.mark.parametrize("key", ["attention", "decoder_attention", "cross_attention"])
def test_the_key_is_that_of_the_side(key):
    wrong = functools.partial(softmax.Attention, kv_heads=3)
    model = seq2seq.Seq2Seq(
        vocabulary=8, width=8, heads=2, hidden=4, encoder_layers=1, decoder_layers=1, **{key: wrong}
    )
    with pytest.raises(errors.ConfigError, match=f"model.{key}='softmax': kv_heads=3 must divide heads=2"):
        jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))
