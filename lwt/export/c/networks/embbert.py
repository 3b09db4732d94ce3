"""Writes EmbBERT in C: its constants, shape and cost."""

import numpy as np

from lwt import trees
from lwt.export.c import literals, parts
from lwt.models import embbert


def network(model, source):
    """The `parts.Network` of an `embbert.Embbert`.

    Raises:
        lwt.errors.ConfigError: its attention is not the efficient one.
    """
    parts.require_attention(model, "efficient")
    factors = _factors(model, source)
    blocks = [_block(source, f"block_{i}", factors[f"block_{i}"]) for i in range(model.layers)]
    body = parts.embedder(source) + f"const lwt_block lwt_blocks[LWT_LAYERS] = {{\n{''.join(blocks)}}};\n"
    width, inner = model.width, model.width * model.expansion
    shape = {
        "layers": model.layers,
        "heads": model.heads,
        "rows": parts.LENGTH,
        "taps": model.kernel_size,
        "expansion": model.expansion,
        "inner": max(inner, width, model.reduced),
        "epsilon": 1e-6,
    }

    def macs(tokens):
        """Multiplications of weights and activations for a text of `tokens` tokens."""
        last = 1 if model.pool == "first" else tokens
        row = 2 * width**2 + 2 * tokens * width + inner * (model.kernel_size + width)
        head = model.features * model.outputs
        return parts.embed_macs(model, tokens) + row * ((model.layers - 1) * tokens + last) + head

    return parts.Network("embbert", body, shape, macs)


def _block(source, name, factors):
    fields = [
        source.norm(f"{name}/norm"),
        *(source.linear(f"{name}/attention/{part}") for part in ("query", "out")),
        source.conv(f"{name}/conv"),
        source.linear(f"{name}/contract"),
        *map(literals.number, factors),
    ]
    return parts.struct(fields)


def _factors(model, source):
    """``{block: (λ of attention, λ of convolution)}``."""
    ends = [f"{path}{end}" for path in embbert.PATHS for end in ([""] if model.collapsed else ["_query", "_key"])]
    names = [f"block_{i}/difference/{end}" for i in range(model.layers) for end in ends]
    factors = {name: source.value(name) for name in names}
    if not model.collapsed:
        factors = trees.flatten(embbert.collapse(trees.unflatten(factors)))
    return {
        f"block_{i}": [np.float32(factors[f"block_{i}/difference/{path}"]) for path in embbert.PATHS]
        for i in range(model.layers)
    }
