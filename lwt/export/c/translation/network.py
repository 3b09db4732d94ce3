"""Writes an encoder-decoder transformer in C: its constants, shape and cost."""

import re

import numpy as np

from lwt import errors
from lwt.attention import kv_projection, softmax
from lwt.export.c import literals, parts
from lwt.layers import listen

PART = 64  # logits at a time, if rows of the table have scales of their own
EPSILON = 1e-5  # of all norms, as in lwt/models/seq2seq.py
NO_ATTENTION = "{.heads = 0}"
ATTENTIONS = ("attention", "decoder_attention", "cross_attention")


def network(model, source):
    """The `parts.Network` of a `seq2seq.Seq2Seq`.

    Args:
        source: a `weights.Source`.

    Raises:
        lwt.errors.ConfigError: the engine does not support an attention of the model.
    """
    for key in ATTENTIONS:
        if getattr(model, key) is not None:
            require_softmax(key, getattr(model, key))
    if model.activation not in parts.ACTIVATIONS:
        raise errors.ConfigError(f"model.activation={model.activation!r} must be one of {parts.ACTIVATIONS}")
    if model.positions != "sinusoidal":
        raise errors.ConfigError(f"model.positions={model.positions!r} must be 'sinusoidal' for the engine in C")
    sizes = model.sublayers()
    stacks = {"encoder": model.encoder_layers, "decoder": model.decoder_layers}
    body = ""
    for stack, count in stacks.items():
        layers = "".join(_layer(source, sizes, f"{stack}/layer_{i}") for i in range(count))
        final = source.norm(f"{stack}/norm") if model.pre_norm else "{0}"
        body += f"const lwt_layer lwt_{stack}[LWT_{stack.upper()}_LAYERS] = {{\n{layers}}};\n"
        body += f"const lwt_norm lwt_{stack}_norm = {final};\n"
    target = source.table("embed/embedding")
    tables = {
        "source": source.table("source_embed/embedding") if model.source_vocabulary else target,
        "target": target,
        "output": target if model.tied_output else source.table("output/embedding"),
    }
    body += "".join(f"const lwt_table lwt_{name}_table = {table};\n" for name, table in tables.items())
    bias = source.vector("logits_bias") if model.logits_bias else "0"
    body += f"const lwt_half *const lwt_output_bias = {bias};\n"
    numbers = ", ".join(map(literals.number, frequencies(model.width)))
    body += f"const float lwt_frequencies[LWT_WIDTH / 2] = {{{numbers}}};\n"
    output = source.node("embed/embedding" if model.tied_output else "output/embedding")
    part = PART if output.axis else output.block
    widest = max((sublayer.size for name, sublayer in sizes.items() if name.endswith("mlp")), default=0)
    shape = {
        **{f"{stack}_layers": count for stack, count in stacks.items()},
        "rows": parts.LENGTH,
        "taps": 0,
        "inner": max(widest, model.width, part),
        "part": part,
        "epsilon": EPSILON,
        "pre_norm": model.pre_norm,
        "activation": parts.ACTIVATIONS.index(model.activation),
        "embedding_factor": float(model.width**0.5 if model.scale_embedding else 1),
    }

    kernels = {name: source.node(name).shape for name in source.used if name.endswith("kernel")}
    attentions = {name: made.size * _head_size(made) for name, made in sizes.items() if made.is_attention}

    def macs(tokens, answer):
        """Multiplications of weights and activations for a source of `tokens` ids and an answer of `answer` steps."""
        count = model.width * model.vocabulary * answer
        for name, (inputs, outputs) in kernels.items():
            count += inputs * outputs * (tokens if re.fullmatch(listen.OF_SOURCE, name) else answer)
        for name, width in attentions.items():
            queries, keys = (tokens, tokens) if name.startswith("encoder/") else (answer, tokens)
            keys = (answer + 1) / 2 if name.endswith("self_attention") and name.startswith("decoder/") else keys
            count += 2 * width * queries * keys
        return int(count)

    return parts.Network("seq2seq", body, shape, macs)


def frequencies(width):
    """The frequencies of `lwt.layers.position.sinusoidal`, `[width / 2]` float32."""
    return np.exp(-np.log(10000.0) * np.arange(0, width, 2) / width).astype(np.float32)


def require_softmax(key, made):
    """Refuses an attention that is not softmax over all keys with one head of keys for each of queries.

    Raises:
        lwt.errors.ConfigError: names the config key.
    """
    cls, options = getattr(made, "func", made), dict(getattr(made, "keywords", {}))
    name = cls.__module__.rpartition(".")[2]
    if cls is not softmax.Attention and not (cls is kv_projection.Attention and options.get("folded")):
        raise errors.ConfigError(f"model.{key} is {name!r}; the translator in C supports 'softmax' and 'kv_projection'")
    for option in ("kv_heads", "norm"):
        if options.get(option):
            raise errors.ConfigError(
                f"model.{key}: {option}={options[option]!r} must be empty or 0 for the engine in C"
            )


def _head_size(made):
    """The width of a head of a `sublayers.Sublayer`."""
    return made.make()(parent=None).head_size if made.size else 0


def _layer(source, sizes, name):
    attentions = [
        _attention(source, sizes[module], module) if (module := f"{name}/{part}_attention") in sizes else NO_ATTENTION
        for part in ("self", "cross")
    ]
    first, second = (_linear(source, f"{name}/mlp/{part}", sizes[f"{name}/mlp"].size > 0) for part in ("fc1", "fc2"))
    return parts.struct([*attentions, source.norm(f"{name}/mlp_norm"), first, second])


def _attention(source, made, name):
    width = made.size * _head_size(made)
    if width > made.width:
        raise errors.ConfigError(
            f"{name} has {made.size} heads of {_head_size(made)} channels; the engine in C takes "
            f"model.width={made.width} channels in all at most"
        )
    projections = [_linear(source, f"{name}/{part}", made.size > 0) for part in ("query", "key", "value", "out")]
    return "{" + ", ".join([source.norm(f"{name}_norm"), *projections, str(made.size)]) + "}"


def _linear(source, name, there):
    """``lwt_linear`` of a module; of one that is removed, the bias of its output."""
    if there:
        return source.linear(name)
    bias = source.vector(f"{name}/bias") if f"{name}/bias" in source else "0"
    outputs = len(source.value(f"{name}/bias")) if bias != "0" else 0
    return f"{{0, 0, {bias}, 0, {outputs}, 1, 8, 0{', 0' * bool(source.factors)}}}"
