import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.attention import efficient, softmax
from lwt.attention.parts import base, blockwise, masks


def test_equals_pytorchs_multi_head_attention():
    torch = pytest.importorskip("torch")
    module = softmax.Attention(width=16, heads=4)
    x, context = (jax.random.normal(jax.random.key(i), (2, n, 16)) for i, n in ((0, 5), (1, 7)))
    variables = module.init(jax.random.key(2), x)
    allowed = np.array(jax.random.bernoulli(jax.random.key(3), 0.7, (2, 7)))
    allowed[:, 0] = True
    ours = module.apply(variables, x, context, masks.Mask(jnp.asarray(allowed, int)))

    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    weights = {n: {k: torch.tensor(np.array(w)) for k, w in p.items()} for n, p in variables["params"].items()}
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([weights[n]["kernel"].T for n in ("query", "key", "value")]))
        theirs.in_proj_bias.copy_(torch.cat([weights[n]["bias"] for n in ("query", "key", "value")]))
        theirs.out_proj.weight.copy_(weights["out"]["kernel"].T)
        theirs.out_proj.bias.copy_(weights["out"]["bias"])
        inputs = (torch.tensor(np.array(a)) for a in (x, context, context))
        expected, _ = theirs(*inputs, key_padding_mask=torch.tensor(~allowed))
    np.testing.assert_allclose(ours, expected.numpy(), atol=1e-6)


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


def test_dropout_in_parts():
    """The backward pass drops what the forward pass dropped, and heads do not drop the same."""
    q, k, v, d_y = jax.random.normal(jax.random.key(0), (4, 2, 1, 12, 3))
    q, k, v, d_y = (jnp.repeat(x, 2, axis=1) for x in (q, k, v, d_y))

    def run(v):
        return blockwise.attention(q, k, v=v, block=5, apart=True, key=jax.random.key(1), rate=0.5)

    y, back = jax.vjp(run, v)
    np.testing.assert_allclose((y * d_y).sum(), (back(d_y)[0] * v).sum(), rtol=1e-5)  # it is linear in the values
    assert jnp.abs(y[:, 0] - y[:, 1]).max() > 0.1
