import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.attention import softmax
from lwt.attention.parts import masks


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
