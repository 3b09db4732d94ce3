"""Vision Transformers: `lwt/models/vit.py` with learned positions and a class token, and DeiT, which has one more.

DeiT's classifier of two heads, ``DeiTForImageClassificationWithTeacher``, gives the mean of what they say about the two
tokens. That is one head on both tokens side by side (``pool="tokens"``).
"""

import numpy as np

from lwt.huggingface import names

KEYS = {
    "image_size": "image_size",
    "channels": "num_channels",
    "patch": "patch_size",
    **names.LAYERS,
}
BLOCK = {
    "attention_norm": "layernorm_before",
    **names.below(("attention", "attention"), {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "o_proj"}),
    "mlp_norm": "layernorm_after",
    "mlp/fc1": "mlp.fc1",
    "mlp/fc2": "mlp.fc2",
}
OLD = {  # names from before transformers 5, which still writes them
    **{f"attention.{name[0]}_proj": f"attention.attention.{name}" for name in names.PROJECTIONS},
    "attention.o_proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
    "layernorm_before": "layernorm_before",
    "layernorm_after": "layernorm_after",
}
HEADS = ("cls_classifier", "distillation_classifier")


def _layout(body, *tokens):
    """The layout of a model called `body`; `tokens` are lwt's and their names of the tokens."""
    return names.Layout(
        modules={
            "embed/patch": f"{body}.embeddings.patch_embeddings.projection",
            **names.below(("block_{}", f"{body}.layers.{{}}"), BLOCK),
            "norm": f"{body}.layernorm",
            "head": "classifier",
        },
        tables={
            **{f"embed/{ours}_token": f"{body}.embeddings.{theirs}_token" for ours, theirs in tokens},
            "embed/position": f"{body}.embeddings.position_embeddings",
        },
        body=f"{body}.",
        files={f"{body}.layers.{{}}.{new}": f"{body}.encoder.layer.{{}}.{old}" for new, old in OLD.items()},
        unused=r"pooler\..*|embeddings\.mask_token|decoder\..*",
    )


VIT = names.Architecture(
    kind="vit",
    model="vit",
    classes=("ViTForImageClassification",),
    keys=KEYS,
    activation="hidden_act",
    layout=_layout("vit", ("class", "cls")),
    required={"stem": "patches", "positions": "learned", "pool": "token", "distilled": False},
    fixed={"qkv_bias": True},
)
DEIT = names.Architecture(
    kind="deit",
    model="vit",
    classes=("DeiTForImageClassification",),
    keys=KEYS,
    activation="hidden_act",
    layout=_layout("deit", ("class", "cls"), ("distillation", "distillation")),
    required={"stem": "patches", "positions": "learned", "distilled": True},
    fixed={"qkv_bias": True},
)
ARCHITECTURES = (VIT, DEIT)
TEACHER = "DeiTForImageClassificationWithTeacher"


def with_one_head(weights):
    """The weights of a model of two heads with a head on both tokens, and the ``pool`` of the model."""
    if not all(f"{head}.weight" in weights for head in HEADS):
        return weights, "token"
    weights = dict(weights)
    kernels, biases = ([weights.pop(f"{head}.{kind}") for head in HEADS] for kind in ("weight", "bias"))
    head = {"head/kernel": np.concatenate(kernels, axis=1).T / 2, "head/bias": sum(biases) / 2}
    return weights | head, "tokens"


def with_two_heads(arrays):
    """Inverts `with_one_head` for arrays of PyTorch; both heads get the same bias."""
    arrays = dict(arrays)
    kernel, bias = arrays.pop("classifier.weight"), arrays.pop("classifier.bias")
    for head, part in zip(HEADS, np.split(2 * kernel, 2, axis=1), strict=True):
        arrays |= {f"{head}.weight": part, f"{head}.bias": bias}
    return arrays
