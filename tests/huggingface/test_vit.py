"""The two heads of DeiT; `tests/export/torch/test_hf.py` compares the logits with transformers'."""

import numpy as np

from lwt.huggingface import configs, layouts, vit
from lwt.models import vit as model


def test_two_heads_are_one_on_both_tokens():
    generator = np.random.default_rng(0)
    tokens, other = generator.normal(size=(2, 5, 4)), np.ones(3)
    weights = {f"{head}.weight": generator.normal(size=(3, 4)) for head in vit.HEADS}
    weights |= {f"{head}.bias": generator.normal(size=3) for head in vit.HEADS}
    found, pool = vit.with_one_head(weights | {"norm/bias": other})
    each = [x @ weights[f"{head}.weight"].T + weights[f"{head}.bias"] for x, head in zip(tokens, vit.HEADS)]
    both = np.concatenate([*tokens], axis=-1) @ found["head/kernel"] + found["head/bias"]
    np.testing.assert_allclose(both, (each[0] + each[1]) / 2, atol=1e-12)
    assert pool == "tokens" and found.keys() == {"head/kernel", "head/bias", "norm/bias"}
    back = vit.with_two_heads({"classifier.weight": found["head/kernel"].T, "classifier.bias": found["head/bias"]})
    for head in vit.HEADS:
        np.testing.assert_allclose(back[f"{head}.weight"], weights[f"{head}.weight"], atol=1e-12)
    assert vit.with_one_head({"head/kernel": other}) == ({"head/kernel": other}, "token")


def test_the_architecture_follows_from_the_tokens():
    sizes = dict(outputs=3, image_size=8, patch=4, width=8, layers=1, heads=2, hidden=12)
    for fields, kind, name in (
        ({}, vit.VIT, "ViTForImageClassification"),
        (dict(distilled=True), vit.DEIT, "DeiTForImageClassification"),
        (dict(distilled=True, pool="tokens"), vit.DEIT, vit.TEACHER),
    ):
        made = model.ViT(**sizes, **fields)
        assert configs.architecture("vit", made) is kind
        assert configs.of_model("vit", made)["architectures"] == [name]


def test_names_of_before_transformers_5_are_read():
    layout = vit.DEIT.layout
    arrays = {
        "embeddings.distillation_token": np.ones((1, 1, 4)),
        "encoder.layer.1.attention.attention.query.weight": np.ones((4, 4)),
        "layers.0.mlp.fc1.bias": np.ones(4),
        "pooler.dense.weight": np.ones((4, 4)),
    }
    found = layouts.from_hf(arrays, layout, where="file")
    assert found.keys() == {"embed/distillation_token", "block_1/attention/query/kernel", "block_0/mlp/fc1/bias"}
    assert found["embed/distillation_token"].shape == (4,)
