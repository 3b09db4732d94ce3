"""Marian's translators: `lwt/models/seq2seq.py` with norms after the sublayers.

A file has one table for source, target and output, or up to three, and a bias of the logits (all zeros in a model
without one). Rows are in the order of the model's own ids, or of lwt's: see `lwt/data/marian_tokenizer.py`, whose id 0
stands for none of theirs; its row is 0, and its bias so low that it is never likely.
"""

import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.huggingface import names
from lwt.layers import position

LONGEST = 512  # rows of the computed table of positions: transformers reads at most as many tokens
SHARED, SOURCE, TARGET, OUTPUT = (
    f"{name}.weight" for name in ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
)
BIAS = "final_logits_bias"
POSITIONS = tuple(f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder"))
NEVER = -1e3  # logit of an id that no text has: its probability is 0 in float32
OURS = {"target": "embed/embedding", "source": "source_embed/embedding", "output": "output/embedding"}
OUR_BIAS = "logits_bias"


def _stack(name, attentions):
    """The names of the encoder or the decoder; `attentions` maps lwt's names to theirs."""
    modules = {"mlp/fc1": "fc1", "mlp/fc2": "fc2", "mlp_norm": "final_layer_norm"}
    for ours, theirs in attentions.items():
        projections = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}
        modules |= {f"{ours}_norm": f"{theirs}_layer_norm", **names.below((ours, theirs), projections)}
    return names.below((f"{name}/layer_{{}}", f"model.{name}.layers.{{}}"), modules)


MARIAN = names.Architecture(
    kind="marian",
    model="seq2seq",
    classes=("MarianMTModel",),
    keys={
        "vocabulary": "vocab_size",
        "width": "d_model",
        "heads": "encoder_attention_heads",
        "hidden": "encoder_ffn_dim",
        "encoder_layers": "encoder_layers",
        "decoder_layers": "decoder_layers",
        "scale_embedding": "scale_embedding",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    activation="activation_function",
    layout=names.Layout(
        modules={
            **_stack("encoder", {"self_attention": "self_attn"}),
            **_stack("decoder", {"self_attention": "self_attn", "cross_attention": "encoder_attn"}),
        },
        tables={
            OURS["target"]: SHARED,
            OURS["source"]: SOURCE,
            OURS["output"]: OUTPUT,
            OUR_BIAS: BIAS,
        },
        body="model.",
        halves=True,
    ),
    required={"pre_norm": False, "positions": "sinusoidal"},
    fixed={
        **{"activation_dropout": 0.0, "normalize_before": False, "normalize_embedding": False},
        "add_final_layer_norm": False,
    },
)
ARCHITECTURES = (MARIAN,)
OWN_IDS = {"pad_token_id": 0, "decoder_start_token_id": 2, "eos_token_id": 3}  # of lwt's tokenizers


def more(model):
    """The keys of config.json that only a `seq2seq.Seq2Seq` has; the ids are lwt's."""
    return {
        **{"decoder_attention_heads": model.heads, "decoder_ffn_dim": model.hidden},
        **{"vocab_size": model.source_vocabulary or model.vocabulary, "decoder_vocab_size": model.vocabulary},
        "share_encoder_decoder_embeddings": not model.source_vocabulary,
        "tie_word_embeddings": model.tied_output,
        "max_position_embeddings": LONGEST,
        **OWN_IDS,
        "forced_eos_token_id": None,
    }


def their_ids(tokenizer):
    """What config.json says about the ids of a `marian_tokenizer.Tokenizer`, in their numbering."""
    source, target = (side.order.tolist() for side in tokenizer.sides)
    begin, end = target[2], target[3]
    return {
        **{"vocab_size": len(source) - 1, "decoder_vocab_size": len(target) - 1},
        **{"pad_token_id": begin, "decoder_start_token_id": begin, "eos_token_id": end},
        **{"forced_eos_token_id": end, "bad_words_ids": [[begin]]},
    }


def check_ids(config, wanted, *, where):
    """Compares the ids that a config.json names with those of a tokenizer.

    Args:
        wanted: `OWN_IDS`, or `their_ids`.

    Raises:
        lwt.errors.CheckpointError: they differ; names the key.
    """
    for key in OWN_IDS:
        if config.get(key) != wanted[key]:
            raise errors.CheckpointError(
                f"{where}: {key}={config.get(key)!r} must be {wanted[key]}, as the tokenizer has it"
            )


def of_file(arrays, *, where):
    """The arrays of a file with each table once: `SHARED` for the target, and `SOURCE`, `OUTPUT` and `BIAS` if used.

    Raises:
        lwt.errors.CheckpointError: there is no table, or a table of positions is not sinusoidal.
    """
    arrays = dict(arrays)
    shared, source, target, output = (arrays.pop(name, None) for name in (SHARED, SOURCE, TARGET, OUTPUT))
    target = next((table for table in (target, shared, output) if table is not None), None)
    if target is None:
        raise errors.CheckpointError(f"{where} has no {SHARED}")
    source = next(table for table in (source, shared, target) if table is not None)
    arrays[SHARED] = target
    if not np.array_equal(source, target):
        arrays[SOURCE] = source
    if output is not None and not np.array_equal(output, target):
        arrays[OUTPUT] = output
    if not np.any(arrays.get(BIAS, 0)):
        arrays.pop(BIAS, None)
    for name in POSITIONS:
        found = arrays.pop(name, None)
        if found is None:
            continue
        if found.ndim != 2:
            raise errors.CheckpointError(f"{where}: {name} has {found.ndim} axes instead of 2")
        wanted = np.asarray(position.sinusoidal(jnp.arange(len(found)), found.shape[1]))
        if not np.allclose(found, np.concatenate([wanted[:, ::2], wanted[:, 1::2]], axis=1), atol=1e-4):
            raise errors.CheckpointError(f"{where}: {name} is not sinusoidal, as lwt's positions are")
    return arrays


def to_file(arrays, *, model):
    """Inverts `of_file`, with the names that transformers looks for."""
    arrays = dict(arrays)
    arrays.setdefault(BIAS, np.zeros((1, model.vocabulary), np.float32))
    if not model.tied_output:
        arrays[TARGET] = arrays[SHARED]
        arrays.setdefault(SOURCE, arrays[SHARED])
    elif model.source_vocabulary:
        arrays[TARGET] = arrays.pop(SHARED)
    return arrays


def section(weights):
    """The keys of ``config.model`` that say which tables there are."""
    source = weights.get(OURS["source"], ())
    tied = OURS["output"] not in weights
    return {"source_vocabulary": len(source), "tied_output": tied, "logits_bias": OUR_BIAS in weights}


def to_our_ids(weights, tokenizer, *, where):
    """The weights with the rows of their tables in the order of a `marian_tokenizer.Tokenizer`, and with a bias.

    Raises:
        lwt.errors.CheckpointError: a table has another number of rows than the tokenizer has pieces.
    """
    weights = dict(weights)
    weights.setdefault(OUR_BIAS, np.zeros(len(weights[OURS["target"]]), np.float32))
    if tokenizer.source_vocabulary:
        weights.setdefault(OURS["source"], weights[OURS["target"]])
    for name, order in _orders(weights, tokenizer):
        rows = weights[name]
        if len(rows) != len(order) - 1:
            raise errors.CheckpointError(
                f"{where}: {name} has {len(rows)} rows; the tokenizer has {len(order) - 1} pieces"
            )
        none = np.full((1, *rows.shape[1:]), NEVER if name == OUR_BIAS else 0, np.float32)
        weights[name] = np.concatenate([rows, none])[order]
    return weights


def to_their_ids(weights, tokenizer):
    """Inverts `to_our_ids`."""
    weights = dict(weights)
    for name, order in _orders(weights, tokenizer):
        rows = np.asarray(weights[name])
        weights[name] = np.empty_like(rows[1:])
        weights[name][order[1:]] = rows[1:]
    return weights


def _orders(weights, tokenizer):
    source, target = (side.order for side in tokenizer.sides)
    return [
        (name, source if name == OURS["source"] else target) for name in (*OURS.values(), OUR_BIAS) if name in weights
    ]
