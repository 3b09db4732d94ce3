"""Marian's translators: `lwt/models/seq2seq.py` with norms behind the sublayers and one table for everything."""

from lwt.huggingface import names


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
        tables={"embed/embedding": "model.shared.weight"},
        body="model.",
        halves=True,
    ),
    required={"pre_norm": False},
    fixed={
        **{"share_encoder_decoder_embeddings": True, "tie_word_embeddings": True, "activation_dropout": 0.0},
        **{"pad_token_id": 0, "decoder_start_token_id": 2, "eos_token_id": 3},  # of lwt's tokenizer
    },
)
ARCHITECTURES = (MARIAN,)
