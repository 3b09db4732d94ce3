"""Every model, quantized in every format, gives the same logits from a file as from memory, and has the right size."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import registry, trees
from lwt.layers import linear, listen
from lwt.reparam.compression import quantize
from lwt.runs import integer_file

TEXT = dict(vocabulary=70, max_length=8, width=16, head="classify", outputs=3)
IMAGE = dict(outputs=3, image_size=32, channels=1)
SIZES = {  # every file of lwt/models must be here
    "bert": TEXT | dict(heads=2, hidden=24, layers=1, pooler=True),
    "cnn": IMAGE | dict(widths=(8, 16)),
    "embbert": TEXT | dict(reduced=4, layers=1, kernel_size=3),
    "embedder": TEXT | dict(reduced=4, kernel_size=3),
    "lh_vit": IMAGE | dict(stem=8, widths=(8, 16, 16), width=16, heads=2, hidden=16, layers=1, reduction=2, summary=16),
    "mamba": TEXT | dict(layers=1),
    "seq2seq": dict(vocabulary=70, width=16, heads=2, hidden=24, encoder_layers=1, decoder_layers=1),
    "vit": IMAGE | dict(patch=8, width=16, layers=1, heads=2, hidden=24, stem="conv"),
}
WAYS = {
    "int8": {},
    "int4": {"format": "int4", "block": 32},
    "fp8": {"format": "fp8"},
    "dynamic": {"block": 0, "activations": "dynamic"},
    "static": {"block": 0, "activations": "static"},
}
FLOATS = r".*/(a_log|depthwise|position_(row|column))"  # matrices that stay floats
BITS = {"int8": 8, "int4": 4, "fp8": 8}


def batch_of(model, *, rows=3):
    """Random inputs in the form of the model's example."""
    generator, found = np.random.default_rng(1), {}
    for key, value in model.example().items():
        shape = (rows, *value.shape[1:]) if "image" in key else (rows, 6)
        found[key] = generator.normal(size=shape).astype(np.float32)
        if "image" not in key:
            segments = np.repeat([[1, 1, 1, 1, 1, 0]], rows, axis=0)
            ids, positions = generator.integers(4, 70, shape), np.repeat([np.arange(6)], rows, axis=0)
            found[key] = segments if "segments" in key else positions if "positions" in key else ids
    return {key: jnp.asarray(value) for key, value in found.items()}


@functools.cache
def made(name):
    """A model, random weights, a batch, and the compiled function ``weights -> logits`` of that batch."""
    model, generator = registry.MODELS.make({"name": name, **SIZES[name]}, key="model"), np.random.default_rng(0)
    batch = batch_of(model)
    apply = jax.jit(lambda weights: model.apply({"params": trees.unflatten(weights)}, batch))
    shapes = trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"])
    base = {
        key: jnp.ones(w.shape) if key.endswith("scale") else jnp.asarray(generator.normal(0, 0.3, w.shape), jnp.float32)
        for key, w in shapes.items()
    }
    return model, base, batch, apply


@pytest.mark.parametrize(
    ("name", "way"),
    [(name, way) for name in registry.MODELS.names() for way in ("int8", "static")]
    + [(name, way) for name in ("seq2seq", "vit") for way in ("int4", "fp8", "dynamic")],
)
def test_the_file_equals_the_memory(name, way, tmp_path):
    (model, base, batch, apply), limits = made(name), {}
    if way == "static":
        seen = jax.jit(lambda base: listen.inputs(model, base, batch=batch, names=list(base)))(base)
        limits = {f"{kernel}/limit": jnp.abs(x).max() for kernel, x in seen.items()}
    weights = quantize.Quantize(**WAYS[way]).expand(base, limits, 0)
    nodes = {key: w for key, w in weights.items() if linear.is_node(w)}
    assert {key for key in {*weights} - {*nodes} if weights[key].ndim > 1 and not re.fullmatch(FLOATS, key)} == set()
    written = integer_file.write(tmp_path / "file", weights, info={"way": way})
    loaded, expected = integer_file.load(tmp_path / "file"), apply(weights)
    np.testing.assert_array_equal(apply(loaded), expected)
    assert jax.tree.structure(loaded) == jax.tree.structure(weights)
    assert np.abs(expected - apply(base)).max() > 1e-6  # weights are rounded
    if way in BITS:  # inputs are floats, and weights the arrays that the integers stand for
        np.testing.assert_allclose(expected, apply(linear.merge(weights)), rtol=1e-4, atol=1e-4)
    else:
        integers = [key for key, w in nodes.items() if w.integer_inputs]
        assert any(key.endswith("kernel") for key in integers) and (way == "dynamic") == all(
            nodes[key].limit is None for key in integers
        )
        close = apply({key: w.replace(integer_inputs=False) if key in nodes else w for key, w in weights.items()})
        assert 0 < np.abs(expected - close).max() < 0.2 * np.abs(close).max()
    parts, bits = integer_file.parts(tmp_path / "file"), BITS.get(way, 8)
    assert written == sum(parts.values()) == (tmp_path / "file").stat().st_size
    rest = [w for key, w in weights.items() if key not in nodes and not key.startswith("head/")]
    body = [w for key, w in nodes.items() if not key.startswith("head/")]
    assert parts["rest"] == 4 * sum(w.size for w in rest)
    assert parts["integers"] == sum(-(-int(np.prod(w.shape)) * bits // 8) for w in body)
    assert parts["scales"] == sum(2 * w.scales.size + (4 if w.limit is not None else 0) for w in body)
