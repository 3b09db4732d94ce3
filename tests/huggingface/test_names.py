"""Names of modules and weights, lwt's and those of PyTorch."""

import types

from lwt.huggingface import encoders, names, vit

LAYOUT = encoders.BERT.layout


def test_names_of_modules_both_ways():
    for ours, theirs in (
        ("block_3/mlp/fc1", "bert.encoder.layer.3.intermediate.dense"),
        ("head/classifier", "classifier"),
        ("pooler", "bert.pooler.dense"),
    ):
        assert names.module_of(f"{ours}/kernel", LAYOUT) == theirs and names.ours_of(theirs, LAYOUT) == ours
        assert names.weight_of(theirs, LAYOUT) == f"{ours}/kernel"
    assert names.module_of("embed/token", LAYOUT) == "bert.embeddings.word_embeddings"
    assert names.weight_of("bert.embeddings.word_embeddings", LAYOUT) == "embed/token"
    assert names.module_of("none/kernel", LAYOUT) is names.ours_of("none", LAYOUT) is None


def test_names_of_files_that_differ():
    old = "vit.encoder.layer.2.attention.output.dense"
    assert names.ours_of(old, vit.VIT.layout) == names.ours_of("vit.layers.2.attention.o_proj", vit.VIT.layout)


def test_a_model_without_a_head_has_shorter_names():
    body, whole = types.SimpleNamespace(head="none"), types.SimpleNamespace(head="classify")
    assert names.as_called("bert.pooler.dense", LAYOUT, model=body) == "pooler.dense"
    for name in ("pooler.dense", "bert.pooler.dense"):
        assert names.in_full(name, LAYOUT) == "bert.pooler.dense"
    assert names.in_full("classifier", LAYOUT) == "classifier"
    assert names.in_full("classifier.bias", LAYOUT) == "classifier.bias"
    assert names.as_called("bert.pooler.dense", LAYOUT, model=whole) == "bert.pooler.dense"
