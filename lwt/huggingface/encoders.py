"""Text encoders of the BERT family: `lwt/models/bert.py` with norms after the sublayers and the embeddings.

What distinguishes them, and the field of lwt's model:

    BERT (also MiniLM, TinyBERT, BGE, E5)   a pooler with tanh, part of the body    pooler, pooler_activation="tanh"
    DistilBERT                              no segments; a pooler with relu         segments=0
    RoBERTa, XLM-RoBERTa, CamemBERT         one segment; two unused positions       segments=1
    ELECTRA (the discriminator)             narrow tables; a pooler with gelu       embedding_width
    ALBERT                                  narrow tables; one block for all        embedding_width, shared

The "pooler" of DistilBERT, RoBERTa and ELECTRA is the first layer of their classifiers.
"""

from lwt.huggingface import names

SIZES = {
    "vocabulary": "vocab_size",
    "max_length": "max_position_embeddings",
    **names.LAYERS,
}
DEFAULTS = {  # of files that omit them, as those of the first small BERTs do
    **{"layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
    **{"hidden_act": "gelu", "type_vocab_size": 2},
}
REQUIRED = {"embedding": "full", "embedding_norm": True, "norm": "layer", "norm_place": "post", "shared": False}
FIXED = {
    **{"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"},
    "pruned_heads": {},
}
UNUSED = r"(cls|lm_head|qa_outputs|{})\..*"  # heads of other tasks
OF_TOKENS = r"classifier(?=\.(weight|bias))"  # a head for tokens, where that for texts has two layers


def _blocks(body):
    """The names of the modules of a block, as BERT has them."""
    modules = {
        **{f"self_attention/{name}": f"attention.self.{name}" for name in names.PROJECTIONS},
        "self_attention/out": "attention.output.dense",
        "self_attention_norm": "attention.output.LayerNorm",
        "mlp/fc1": "intermediate.dense",
        "mlp/fc2": "output.dense",
        "mlp_norm": "output.LayerNorm",
    }
    return names.below(("block_{}", f"{body}.encoder.layer.{{}}"), modules)


def _layout(body, blocks, *, pooler, classifier, segments=True, more=None, unused="(?!)", offset=0):
    """The layout of an encoder called `body`; `blocks` and `more` name modules, `unused` other heads."""
    kinds = {"token": "word", "position": "position"} | ({"segment": "token_type"} if segments else {})
    return names.Layout(
        modules={
            "embed_norm": f"{body}.embeddings.LayerNorm",
            **blocks,
            "pooler": pooler,
            "head/classifier": classifier,
            **(more or {}),
        },
        tables={f"embed/{ours}": f"{body}.embeddings.{theirs}_embeddings.weight" for ours, theirs in kinds.items()},
        body=f"{body}.",
        unused=UNUSED.format(unused),
        offset=offset,
    )


def _encoder(kind, name, **own):
    """The architecture of a text encoder; `own` is what it does not share with most of them."""
    classes = f"{name}Model", f"{name}ForSequenceClassification"
    usual = {"activation": "hidden_act", "fixed": FIXED, "defaults": DEFAULTS, "head_dropout": "classifier_dropout"}
    return names.Architecture(kind=kind, model="bert", classes=classes, **{**usual, **own})


BERT = _encoder(
    "bert",
    "Bert",
    keys={**SIZES, "segments": "type_vocab_size"},
    layout=_layout("bert", _blocks("bert"), pooler="bert.pooler.dense", classifier="classifier"),
    required={**REQUIRED, "pooler_activation": "tanh", "embedding_width": 0},
)
DISTILBERT = _encoder(
    "distilbert",
    "DistilBert",
    keys={
        **{"vocabulary": "vocab_size", "max_length": "max_position_embeddings", "width": "dim", "layers": "n_layers"},
        **{"heads": "n_heads", "hidden": "hidden_dim", "dropout": "dropout", "attention_dropout": "attention_dropout"},
    },
    activation="activation",
    layout=_layout(
        "distilbert",
        names.below(
            ("block_{}", "distilbert.transformer.layer.{}"),
            {
                **{f"self_attention/{name}": f"attention.{name[0]}_lin" for name in names.PROJECTIONS},
                "self_attention/out": "attention.out_lin",
                "self_attention_norm": "sa_layer_norm",
                "mlp/fc1": "ffn.lin1",
                "mlp/fc2": "ffn.lin2",
                "mlp_norm": "output_layer_norm",
            },
        ),
        pooler="pre_classifier",
        classifier="classifier",
        segments=False,
        unused="vocab_transform|vocab_layer_norm|vocab_projector",
    ),
    required={
        **REQUIRED,
        **{"segments": 0, "pooler_activation": "relu", "norm_epsilon": 1e-12, "embedding_width": 0},
    },
    fixed={"pruned_heads": {}},
    defaults={},
    head_dropout="seq_classif_dropout",
)


def _roberta(kind, name):
    """One of the models that differ from RoBERTa in their tokenizers only."""
    return _encoder(
        kind,
        name,
        keys=SIZES,
        layout=_layout(
            "roberta",
            _blocks("roberta"),
            pooler="classifier.dense",
            classifier="classifier.out_proj",
            unused=rf"roberta\.pooler|{OF_TOKENS}",
            offset=2,
        ),
        required={**REQUIRED, "segments": 1, "pooler_activation": "tanh", "embedding_width": 0},
        fixed={**FIXED, "pad_token_id": 1},
    )


ELECTRA = _encoder(
    "electra",
    "Electra",
    keys={**SIZES, "segments": "type_vocab_size", "embedding_width": "embedding_size"},
    layout=_layout(
        "electra",
        _blocks("electra"),
        pooler="classifier.dense",
        classifier="classifier.out_proj",
        more={"embed_project": "electra.embeddings_project"},
        unused=rf"discriminator_predictions|generator_\w+|{OF_TOKENS}",
    ),
    required={**REQUIRED, "pooler_activation": "gelu"},
)
ALBERT = _encoder(
    "albert",
    "Albert",
    keys={**SIZES, "segments": "type_vocab_size", "embedding_width": "embedding_size"},
    layout=_layout(
        "albert",
        names.below(
            ("block_0", "albert.encoder.albert_layer_groups.0.albert_layers.0"),
            {
                **{f"self_attention/{name}": f"attention.{name}" for name in names.PROJECTIONS},
                "self_attention/out": "attention.dense",
                "self_attention_norm": "attention.LayerNorm",
                "mlp/fc1": "ffn",
                "mlp/fc2": "ffn_output",
                "mlp_norm": "full_layer_layer_norm",
            },
        ),
        pooler="albert.pooler",
        classifier="classifier",
        more={"embed_project": "albert.encoder.embedding_hidden_mapping_in"},
        unused="predictions|sop_classifier",
    ),
    required={**REQUIRED, "shared": True, "pooler_activation": "tanh"},
    fixed={**FIXED, "num_hidden_groups": 1, "inner_group_num": 1},
    head_dropout="classifier_dropout_prob",
)
ROBERTAS = (("roberta", "Roberta"), ("xlm-roberta", "XLMRoberta"), ("camembert", "Camembert"))
ARCHITECTURES = (BERT, DISTILBERT, *(_roberta(*names) for names in ROBERTAS), ELECTRA, ALBERT)
