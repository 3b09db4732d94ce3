"""Weights in the names and layouts of transformers, and back; `test_encoders.py` compares with its models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.huggingface import configs, layouts, marian
from lwt.layers import position
from lwt.models import bert
from tests.huggingface import small


@pytest.mark.parametrize("kind", small.KINDS)
def test_weights_come_back(kind):
    model = bert.Bert(30, **small.KINDS[kind], head="classify", outputs=3)
    weights = trees.flatten(jax.jit(lambda: model.init(jax.random.key(0), model.example()))()["params"])
    found = configs.architecture("bert", model)
    assert found.kind == kind
    arrays = layouts.to_hf(weights, found.layout, model=model)
    back = layouts.from_hf(arrays, found.layout, where="file")
    assert back.keys() == weights.keys()
    for name, w in weights.items():
        np.testing.assert_array_equal(back[name], w, err_msg=name)
    if kind == "roberta":
        table = arrays["roberta.embeddings.position_embeddings.weight"]
        assert len(table) == 34 and not table[:2].any()


def test_copies_in_a_marian_file():
    table, layout = np.ones((40, 16), np.float32), marian.MARIAN.layout
    sines = layouts.reordered(np.asarray(position.sinusoidal(jnp.arange(512), 16)), (-1,), layout=layout)
    copies = {
        "lm_head.weight": table,
        "final_logits_bias": np.zeros((1, 40)),
        "model.encoder.embed_positions.weight": sines,
    }
    found = layouts.from_hf({"model.shared.weight": table, **copies}, layout, where="file")
    assert list(found) == ["embed/embedding"]
    other = {"lm_head.weight": "output/embedding", "final_logits_bias": "logits_bias"}
    for name, ours in other.items():
        found = layouts.from_hf({"model.shared.weight": table, **copies, name: copies[name] + 1}, layout, where="file")
        assert found.keys() == {"embed/embedding", ours}
        np.testing.assert_array_equal(found[ours], np.ravel(copies[name] + 1).reshape(found[ours].shape))
    moved = {"model.encoder.embed_positions.weight": sines + 1}
    with pytest.raises(errors.CheckpointError, match="file: model.encoder.embed_positions.weight is not sinusoidal"):
        layouts.from_hf({"model.shared.weight": table, **copies, **moved}, layout, where="file")
    with pytest.raises(errors.CheckpointError, match="file has no model.shared.weight"):
        layouts.from_hf({"model.encoder.layers.0.fc1.bias": table[0]}, layout, where="file")
