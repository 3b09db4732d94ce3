import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import trees
from lwt.attention import efficient, softmax
from lwt.attention.parts import masks


@pytest.mark.parametrize("heads", [1, 4])
def test_equals_pytorchs_scaled_dot_product_on_the_context_itself(heads):
    torch = pytest.importorskip("torch")
    module = efficient.Attention(width=16, heads=heads)
    x, context = (jax.random.normal(jax.random.key(i), (2, n, 16)) for i, n in ((0, 5), (1, 7)))
    variables = module.init(jax.random.key(2), x)
    allowed = np.array(jax.random.bernoulli(jax.random.key(3), 0.7, (2, 7)))
    allowed[:, 0] = True
    ours = module.apply(variables, x, context, masks.Mask(jnp.asarray(allowed, int)))

    w = {name: torch.tensor(np.array(leaf)) for name, leaf in trees.flatten(variables["params"]).items()}

    def split(a):
        return a.reshape(2, -1, heads, 16 // heads).transpose(1, 2)

    x, context = (torch.tensor(np.array(a)) for a in (x, context))
    q, kv = split(x @ w["query/kernel"] + w["query/bias"]), split(context)
    mixed = torch.nn.functional.scaled_dot_product_attention(q, kv, kv, attn_mask=torch.tensor(allowed[:, None, None]))
    expected = mixed.transpose(1, 2).reshape(2, 5, 16) @ w["out/kernel"] + w["out/bias"]
    np.testing.assert_allclose(ours, expected.numpy(), atol=1e-5)


def test_is_softmax_attention_whose_keys_and_values_are_the_identity():
    module, full = efficient.Attention(width=16), softmax.Attention(width=16, heads=1)
    x = jax.random.normal(jax.random.key(0), (2, 6, 16))
    params = module.init(jax.random.key(1), x)["params"]
    identity = {"kernel": jnp.eye(16), "bias": jnp.zeros(16)}
    expected = full.apply({"params": {**params, "key": identity, "value": identity}}, x)
    np.testing.assert_allclose(module.apply({"params": params}, x), expected, atol=1e-5)


def test_half_the_weights_and_half_the_cache():
    module = efficient.Attention(width=16)
    x = jnp.ones((1, 2, 16))
    counts = [
        trees.count(efficient.Attention(width=16, use_bias=bias).init(jax.random.key(0), x)) for bias in (True, False)
    ]
    assert counts == [2 * (16 * 16 + 16), 2 * 16 * 16]
    whole = softmax.Attention(width=16, heads=1).empty_cache(3, 5)
    assert 2 * trees.nbytes(module.empty_cache(3, 5)) == trees.nbytes(whole)
