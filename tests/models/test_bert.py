import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.attention import efficient
from lwt.models import bert

SMALL = dict(vocabulary=24, max_length=12, width=8, hidden=10)
BATCH = {
    "ids": jnp.array([[2, 5, 6, 4, 7, 4], [2, 9, 4, 0, 0, 0]]),
    "segments": jnp.array([[1, 1, 1, 1, 2, 2], [1, 1, 1, 0, 0, 0]]),
}
REAL = np.array(BATCH["segments"]) > 0


def as_torch(torch, params):
    return {name: torch.tensor(np.array(leaf)) for name, leaf in trees.flatten(params).items()}


def embed(torch, w):
    ids, segments = (torch.tensor(np.array(BATCH[key])).long() for key in ("ids", "segments"))
    return w["embed/token"][ids] + w["embed/position"][:6] + w["embed/segment"][segments], segments == 0


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_equals_pytorchs_encoder_layers(activation, weights_of, run):
    torch = pytest.importorskip("torch")
    model = bert.Bert(**SMALL, heads=2, layers=2, activation=activation)
    params = weights_of(model)["params"]
    w = as_torch(torch, params)
    ours = run(model, {"params": params}, BATCH)
    x, hide = embed(torch, w)
    for i in range(2):
        layer = torch.nn.TransformerEncoderLayer(8, 2, 10, 0.0, activation, batch_first=True)
        block = trees.subtree(w, f"block_{i}")
        qkv = [trees.subtree(block, f"self_attention/{name}") for name in ("query", "key", "value")]
        state = {
            "self_attn.in_proj_weight": torch.cat([part["kernel"].T for part in qkv]),
            "self_attn.in_proj_bias": torch.cat([part["bias"] for part in qkv]),
        }
        for theirs, name in (
            ("self_attn.out_proj", "self_attention/out"),
            ("linear1", "mlp/fc1"),
            ("linear2", "mlp/fc2"),
        ):
            state |= {f"{theirs}.weight": block[f"{name}/kernel"].T, f"{theirs}.bias": block[f"{name}/bias"]}
        for theirs, name in (("norm1", "self_attention_norm"), ("norm2", "mlp_norm")):
            state |= {f"{theirs}.weight": block[f"{name}/scale"], f"{theirs}.bias": block[f"{name}/bias"]}
        layer.load_state_dict(state)
        x = layer(x, src_key_padding_mask=hide)
    np.testing.assert_allclose(np.array(ours)[REAL], x.detach().numpy()[REAL], atol=2e-5)


def test_inline_norms_start_the_residual_from_the_normalised_input(weights_of, run):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    model = bert.Bert(
        **SMALL, heads=1, layers=1, attention=efficient.Attention, activation="silu", norm="rms", norm_place="inline"
    )
    params = weights_of(model)["params"]
    w = as_torch(torch, params)
    ours = run(model, {"params": params}, BATCH)
    x, hide = embed(torch, w)
    block = trees.subtree(w, "block_0")

    def linear(x, name):
        return x @ block[f"{name}/kernel"] + block[f"{name}/bias"]

    x = functional.rms_norm(x, (8,), block["self_attention_norm/scale"], eps=1e-5)
    scores = linear(x, "self_attention/query") @ x.transpose(1, 2) / 8**0.5
    scores = scores.masked_fill(hide[:, None, :], float("-inf"))
    x = x + linear(scores.softmax(-1) @ x, "self_attention/out")
    x = functional.rms_norm(x, (8,), block["mlp_norm/scale"], eps=1e-5)
    x = x + linear(functional.silu(linear(x, "mlp/fc1")), "mlp/fc2")
    np.testing.assert_allclose(np.array(ours)[REAL], x.numpy()[REAL], atol=2e-5)


def test_the_pooler_stands_before_the_heads(weights_of, run):
    model = bert.Bert(**SMALL, pooler=True, head="classify")
    params = weights_of(model)["params"]
    hidden = run(model, {"params": params}, BATCH, method="hidden_states")
    pooled = np.tanh(hidden[:, 0] @ params["pooler"]["kernel"] + params["pooler"]["bias"][None])
    expected = pooled @ params["head"]["classifier"]["kernel"] + params["head"]["classifier"]["bias"][None]
    np.testing.assert_allclose(run(model, {"params": params}, BATCH), expected, atol=1e-5)


def test_dropout_acts_in_training_only(weights_of):
    model = bert.Bert(**SMALL, dropout=0.5, attention_dropout=0.0)
    variables = weights_of(model, seed=1)
    train = jax.jit(lambda seed: model.apply(variables, BATCH, train=True, rngs={"dropout": jax.random.key(seed)}))
    assert not np.allclose(train(0), train(1))
    np.testing.assert_array_equal(train(0), train(0))


def test_wrong_fields_are_named():
    for change, message in (
        (dict(heads=3), "model.width=8.*model.heads=3"),
        (dict(activation="selu"), "model.activation='selu'.*did you mean 'silu'"),
        (dict(norm_place="pre"), "model.norm_place='pre'.*inline, post"),
        (dict(norm="batch"), "model.norm='batch'"),
        (dict(embedding="nana"), "model.embedding='nana'.*'nano'"),
        (dict(pooler=True, pooler_activation="sin"), "model.pooler_activation='sin'"),
        (dict(embedding_width=-1), "model.embedding_width=-1 must be 0"),
        (dict(dropout=-0.1), "model.dropout=-0.1"),
    ):
        model = bert.Bert(**SMALL).clone(**change)
        with pytest.raises(errors.ConfigError, match=message):
            model.init(jax.random.key(0), model.example())
