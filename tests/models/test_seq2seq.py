"""The encoder-decoder: counts, causality and masks by gradient, packing, the decode cache, equality with PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import position as positions
from lwt.models import seq2seq

SMALL = dict(vocabulary=96, width=32, heads=4, hidden=64, encoder_layers=2, decoder_layers=2, dropout=0.0,
             attention_dropout=0.0)  # fmt: skip


def make_batch(pairs, length=16):
    """`pairs`: a list of rows, each a list of (source ids, target ids)."""
    keys = ("source", "source_segments", "source_positions", "inputs", "targets", "target_segments", "target_positions")
    batch = {key: np.zeros((len(pairs), length), np.int32) for key in keys}
    for row, items in enumerate(pairs):
        at_source = at_target = 0
        for number, (source, target) in enumerate(items, 1):
            s, t = slice(at_source, at_source + len(source)), slice(at_target, at_target + len(target))
            batch["source"][row, s], batch["inputs"][row, t] = source, [2, *target[:-1]]
            batch["targets"][row, t] = target
            batch["source_segments"][row, s], batch["target_segments"][row, t] = number, number
            batch["source_positions"][row, s], batch["target_positions"][row, t] = (
                range(len(source)),
                range(len(target)),
            )
            at_source, at_target = s.stop, t.stop
    return {key: jnp.asarray(value) for key, value in batch.items()}


FIRST, SECOND = ([5, 6, 7, 3], [8, 9, 3]), ([15, 16, 3], [18, 19, 20, 21, 3])


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def small(request):
    model = seq2seq.Seq2Seq(**SMALL, pre_norm=request.param)
    return model, model.init(jax.random.key(0), model.example())


def test_the_papers_size_has_the_papers_count():
    model = seq2seq.Seq2Seq(vocabulary=50_048)
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"]
    assert trees.count(params) == 8_257_536


def test_tables_of_their_own_and_a_bias():
    """The same rows in separate tables give the same logits, and the bias is added to them."""
    model = seq2seq.Seq2Seq(**SMALL)
    weights = trees.flatten(model.init(jax.random.key(0), model.example())["params"])
    table, batch = weights["embed/embedding"], make_batch([[FIRST, SECOND]])
    other = model.clone(source_vocabulary=64, tied_output=False, logits_bias=True)
    bias = jax.random.normal(jax.random.key(1), (96,))
    more = {"source_embed/embedding": table[:64], "output/embedding": table, "logits_bias": bias}
    shapes = jax.eval_shape(lambda: other.init(jax.random.key(0), other.example()))["params"]
    assert not trees.differences(trees.flatten(shapes), weights | more)
    wanted = model.apply({"params": trees.unflatten(weights)}, batch) + bias
    found = other.apply({"params": trees.unflatten(weights | more)}, batch)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    swapped = weights | more | {"embed/embedding": table[::-1]}
    assert np.abs(other.apply({"params": trees.unflatten(swapped)}, batch) - wanted).max() > 0.1
    with pytest.raises(errors.ConfigError, match="model.source_vocabulary=-1 must be at least 0"):
        model.clone(source_vocabulary=-1).init(jax.random.key(0), model.example())


def test_packed_pairs_do_not_see_each_other(small):
    model, variables = small
    packed = model.apply(variables, make_batch([[FIRST, SECOND]]))
    alone = [model.apply(variables, make_batch([[pair]])) for pair in (FIRST, SECOND)]
    np.testing.assert_allclose(packed[0, :3], alone[0][0, :3], atol=1e-5)
    np.testing.assert_allclose(packed[0, 3:8], alone[1][0, :5], atol=1e-5)


def test_causality_and_padding_by_gradient(small):
    """A target position is influenced by no later one, and nothing by padding."""
    model, variables = small
    batch = make_batch([[FIRST, SECOND]])
    table = variables["params"]["embed"]["embedding"]

    def state(offset, position):
        shifted = {**variables["params"], "embed": {"embedding": table + offset}}
        return model.apply({"params": shifted}, batch, method="hidden_states")[0, position, 0]

    def touched(position):
        """Ids whose embedding influences the decoder's state at `position`."""
        gradient = jax.grad(state)(jnp.zeros((96, 32)), position)
        return set(np.flatnonzero(np.abs(gradient).sum(-1)).tolist())

    assert touched(1) == {5, 6, 7, 3} | {2, 8}  # first pair's source, and its inputs up to position 1
    assert touched(5) == {15, 16, 3} | {2, 18, 19}  # second pair, whose third input is at position 5


def test_the_decode_cache_gives_the_logits_of_the_whole_pass(small):
    model, variables = small
    batch = make_batch([[FIRST], [SECOND]])
    whole = model.apply(variables, batch)
    segments = batch["source_segments"]
    memory = model.apply(variables, batch["source"], segments, positions=batch["source_positions"], method="encode")
    cache = model.apply(variables, memory, segments, length=6, method="start")
    for position in range(5):
        logits, cache = model.apply(variables, batch["inputs"][:, position], cache, method="step")
        rows = [row for row in (0, 1) if batch["target_segments"][row, position]]
        np.testing.assert_allclose(logits[np.array(rows)], whole[np.array(rows), position], atol=1e-5)


def test_learned_positions():
    """Tables of sinusoids give the logits of sinusoids, in a whole pass and step by step; a short one is refused."""
    model, batch = seq2seq.Seq2Seq(**SMALL), make_batch([[FIRST, SECOND]], length=8)
    weights = trees.flatten(model.init(jax.random.key(0), model.example())["params"])
    learned = model.clone(positions="learned", max_length=8)
    tables = dict.fromkeys(("position_source", "position_target"), positions.sinusoidal(jnp.arange(8), 32))
    shapes = jax.eval_shape(lambda: learned.init(jax.random.key(0), model.example()))["params"]
    assert not trees.differences(trees.flatten(shapes), weights | tables)
    variables = {"params": trees.unflatten(weights | tables)}
    whole = model.apply({"params": trees.unflatten(weights)}, batch)
    np.testing.assert_allclose(learned.apply(variables, batch), whole, atol=1e-5)

    first = make_batch([[FIRST]], length=8)
    source = (first["source"], first["source_segments"])
    memory = learned.apply(variables, *source, positions=first["source_positions"], method="encode")
    cache = learned.apply(variables, memory, source[1], length=8, method="start")
    for at in range(3):
        logits, cache = learned.apply(variables, first["inputs"][:, at], cache, method="step")
        np.testing.assert_allclose(logits[0], whole[0, at], atol=1e-5)

    with pytest.raises(errors.ConfigError, match="model.max_length=8 must be at least 16, the length of a row"):
        learned.apply(variables, make_batch([[FIRST]]))
    with pytest.raises(errors.ConfigError, match="model.max_length=8 must be at least 9, the length of a row"):
        learned.apply(variables, memory, source[1], length=9, method="start")
    for wrong, words in ((dict(positions="learned"), "at least 1"), (dict(max_length=8), "0 with model.positions=")):
        with pytest.raises(errors.ConfigError, match=f"model.max_length=[08] must be {words}"):
            model.clone(**wrong).init(jax.random.key(0), model.example())


def test_heads_have_to_divide_the_width():
    model = seq2seq.Seq2Seq(**{**SMALL, "heads": 5})
    with pytest.raises(errors.ConfigError, match="model.width=32.*model.heads=5"):
        model.init(jax.random.key(0), model.example())


def test_equals_pytorch():
    """The same weights in torch.nn.TransformerEncoderLayer and TransformerDecoderLayer give the same hidden states."""
    torch = pytest.importorskip("torch")
    model = seq2seq.Seq2Seq(**SMALL)
    variables = model.init(jax.random.key(1), model.example())
    batch = make_batch([[FIRST], [SECOND]], length=5)
    ours = model.apply(variables, batch, method="hidden_states")

    params = {k: torch.tensor(np.array(v)) for k, v in trees.flatten(variables["params"]).items()}
    arguments = dict(d_model=32, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True)
    encoder = [torch.nn.TransformerEncoderLayer(**arguments).eval() for _ in range(2)]
    decoder = [torch.nn.TransformerDecoderLayer(**arguments).eval() for _ in range(2)]
    for side, layers in (("encoder", encoder), ("decoder", decoder)):
        for i, layer in enumerate(layers):
            copy_layer(torch, trees.subtree(params, f"{side}/layer_{i}"), layer)

    def embed(ids, positions):
        angle = positions[..., None] / 10000 ** (torch.arange(0, 32, 2) / 32)
        waves = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)
        return params["embed/embedding"][ids] * 32**0.5 + waves

    as_torch = {key: torch.tensor(np.array(value)).long() for key, value in batch.items()}
    hide = as_torch["source_segments"] == 0
    memory = embed(as_torch["source"], as_torch["source_positions"])
    for layer in encoder:
        memory = layer(memory, src_key_padding_mask=hide)
    x, future = embed(as_torch["inputs"], as_torch["target_positions"]), torch.ones(5, 5).triu(1).bool()
    for layer in decoder:
        x = layer(x, memory, tgt_mask=future, memory_key_padding_mask=hide)
    real = np.array(batch["target_segments"]) > 0
    np.testing.assert_allclose(np.array(ours)[real], x.detach().numpy()[real], atol=2e-5)


def copy_layer(torch, ours, layer):
    """Weights of one of our layers into PyTorch's."""
    attentions = {"self_attention": layer.self_attn, "cross_attention": getattr(layer, "multihead_attn", None)}
    norms = {"self_attention": layer.norm1, "cross_attention": layer.norm2, "mlp": getattr(layer, "norm3", layer.norm2)}
    with torch.no_grad():
        for name, theirs in attentions.items():
            if theirs is None:
                continue
            qkv = [trees.subtree(ours, f"{name}/{part}") for part in ("query", "key", "value")]
            theirs.in_proj_weight.copy_(torch.cat([p["kernel"].T for p in qkv]))
            theirs.in_proj_bias.copy_(torch.cat([p["bias"] for p in qkv]))
            theirs.out_proj.weight.copy_(ours[f"{name}/out/kernel"].T)
            theirs.out_proj.bias.copy_(ours[f"{name}/out/bias"])
        for name, theirs in norms.items():
            if f"{name}_norm/scale" in ours:
                theirs.weight.copy_(ours[f"{name}_norm/scale"])
                theirs.bias.copy_(ours[f"{name}_norm/bias"])
        for name, theirs in (("fc1", layer.linear1), ("fc2", layer.linear2)):
            theirs.weight.copy_(ours[f"mlp/{name}/kernel"].T)
            theirs.bias.copy_(ours[f"mlp/{name}/bias"])
