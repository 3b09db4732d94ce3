"""Vision Transformers: `lwt/models/vit.py` with learned positions and a class token."""

from lwt.huggingface import names

VIT = names.Architecture(
    kind="vit",
    model="vit",
    classes=("ViTForImageClassification",),
    keys={
        "image_size": "image_size",
        "channels": "num_channels",
        "patch": "patch_size",
        "width": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "hidden": "intermediate_size",
        "norm_epsilon": "layer_norm_eps",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    },
    activation="hidden_act",
    layout=names.Layout(
        modules={
            "embed/patch": "vit.embeddings.patch_embeddings.projection",
            **names.below(
                ("block_{}", "vit.layers.{}"),
                {
                    "attention_norm": "layernorm_before",
                    **names.below(
                        ("attention", "attention"),
                        {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "o_proj"},
                    ),
                    "mlp_norm": "layernorm_after",
                    "mlp/fc1": "mlp.fc1",
                    "mlp/fc2": "mlp.fc2",
                },
            ),
            "norm": "vit.layernorm",
            "head": "classifier",
        },
        tables={
            "embed/class_token": "vit.embeddings.cls_token",
            "embed/position": "vit.embeddings.position_embeddings",
        },
        body="vit.",
        files={  # names from before transformers 5, which still writes them
            f"vit.layers.{{}}.{new}": f"vit.encoder.layer.{{}}.{old}"
            for new, old in {
                **{f"attention.{name[0]}_proj": f"attention.attention.{name}" for name in names.PROJECTIONS},
                "attention.o_proj": "attention.output.dense",
                "mlp.fc1": "intermediate.dense",
                "mlp.fc2": "output.dense",
                "layernorm_before": "layernorm_before",
                "layernorm_after": "layernorm_after",
            }.items()
        },
    ),
    required={"stem": "patches", "positions": "learned", "pool": "token"},
    fixed={"qkv_bias": True},
)
ARCHITECTURES = (VIT,)
