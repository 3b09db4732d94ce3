"""Writes BERT-shaped encoders in C: BERT(2MB), BERT+NE, BERT+EA, BERT+NE+EA, BERT-Tiny, and DistilBERT's kind."""

from lwt import errors
from lwt.export.c import parts


def network(model, source):
    """The `parts.Network` of a `bert.Bert`.

    Raises:
        lwt.errors.ConfigError: the engine does not support its attention, or its layers have different sizes.
    """
    efficient = parts.require_attention(model, "softmax", "efficient") == "efficient"
    for key in ("sizes", "shared", "embedding_width"):
        if getattr(model, key):
            raise errors.ConfigError(f"model.{key}={getattr(model, key)} must be empty or 0 for the engine in C")
    norm = source.norm("embed_norm") if model.embedding_norm else "{0}"
    pooled = model.pooler and model.pool == "first"
    pooler = source.linear("pooler") if pooled else "{0}"
    if model.pooler and not pooled:
        source.leave_out("pooler/kernel", "pooler/bias")  # which this head does not read
    blocks = [_block(source, f"block_{i}", efficient) for i in range(model.layers)]
    body = (
        parts.embedder(source)
        + f"const lwt_norm lwt_embed_norm = {norm};\n"
        + f"const lwt_block lwt_blocks[LWT_LAYERS] = {{\n{''.join(blocks)}}};\n"
        + f"const lwt_linear lwt_pooler = {pooler};\n"
    )
    width, hidden = model.width, model.hidden
    shape = {
        "layers": model.layers,
        "heads": model.heads,
        "rows": parts.LENGTH,
        "taps": 0,
        "inner": max(hidden, width, model.reduced),
        "epsilon": model.norm_epsilon,
        "efficient": efficient,
        "inline": model.norm_place == "inline",
        "activation": parts.ACTIVATIONS.index(model.activation),
        "pooler_activation": parts.ACTIVATIONS.index(model.pooler_activation),
    }

    def macs(tokens):
        """Multiplications of weights and activations for a text of `tokens` tokens."""
        last = 1 if model.pool == "first" else tokens
        keys = 0 if efficient else 2 * width**2 * tokens * model.layers
        row = 2 * width**2 + 2 * tokens * width + 2 * width * hidden
        heads = model.features * model.outputs + width**2 * pooled
        return parts.embed_macs(model, tokens) + keys + row * ((model.layers - 1) * tokens + last) + heads

    return parts.Network("bert", body, shape, macs)


def _block(source, name, efficient):
    projections = [
        "{0}" if efficient and part in ("key", "value") else source.linear(f"{name}/self_attention/{part}")
        for part in ("query", "key", "value", "out")
    ]
    fields = [
        *(source.norm(f"{name}/{part}_norm") for part in ("self_attention", "mlp")),
        *projections,
        *(source.linear(f"{name}/mlp/{part}") for part in ("fc1", "fc2")),
    ]
    return parts.struct(fields)
