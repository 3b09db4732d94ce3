import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.attention import base, efficient, masks, softmax


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


@pytest.mark.parametrize("part", [1, 2 * 2 * 12 * 5])  # blocks of one query, and of five
@pytest.mark.parametrize("kind", [softmax, efficient])
def test_what_would_be_too_large_is_made_in_blocks(kind, part, monkeypatch):
    module = kind.Attention(width=8, heads=2)
    x = jax.random.normal(jax.random.key(0), (2, 12, 8))
    variables = module.init(jax.random.key(1), x)

    def run(x):
        square = lambda x: jnp.square(module.apply(variables, x, None, masks.Mask(causal=True))).sum()  # noqa: E731
        return jax.value_and_grad(square)(x)

    def forms_all_weights():
        return "f32[2,2,12,12]" in str(jax.make_jaxpr(lambda x: run(x))(x))  # not the one that was traced before

    assert forms_all_weights()
    expected = run(x)
    monkeypatch.setattr(base, "WHOLE", 2 * 2 * 12 * 12 - 1)
    monkeypatch.setattr(base, "PART", part)
    assert not forms_all_weights()
    for found, wanted in zip(run(x), expected):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
