"""Layers that share their matrices: what is stored, the gradient, what is refused, and a whole run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import linear
from lwt.reparam import compose
from lwt.reparam.compression import share
from lwt.runs import assembly, checkpoint, experiment
from lwt.training import train

KERNELS = ("attention/query", "mlp/fc1")


@pytest.fixture
def base():
    """Four layers with two matrices and a norm each, and a head, random."""
    generator = np.random.default_rng(0)
    shapes = {f"block_{i}/{name}/kernel": (3, 3) for i in range(4) for name in KERNELS}
    shapes |= {f"block_{i}/norm/scale": (3,) for i in range(4)} | {"head/kernel": (3, 2)}
    return {name: jnp.asarray(generator.normal(size=shape), jnp.float32) for name, shape in shapes.items()}


def test_every_layer_has_the_matrices_of_its_chunks_first(base):
    reparam = share.Share(chunks=2)
    stored = reparam.stored(base)
    gone = {f"block_{i}/{name}/kernel" for i in (1, 3) for name in KERNELS}
    assert set(stored) == set(base) - gone
    weights = reparam.expand(stored, reparam.init(jax.random.key(0), base), 0)
    assert trees.differences(base, weights) == ""
    for name, w in weights.items():
        origin = name.replace("_1/", "_0/").replace("_3/", "_2/") if name in gone else name
        np.testing.assert_array_equal(w, base[origin])


def test_as_many_chunks_as_layers_share_nothing(base):
    assert set(share.Share(chunks=4).stored(base)) == set(base)


def test_the_gradient_is_the_sum_over_the_layers(base):
    reparam = share.Share()

    def loss(stored):
        weights = reparam.expand(stored, {}, 0)
        return sum((i + 1) * weights[f"block_{i}/mlp/fc1/kernel"].sum() for i in range(4))

    gradient = jax.grad(loss)(reparam.stored(base))
    np.testing.assert_array_equal(gradient["block_0/mlp/fc1/kernel"], np.full((3, 3), 1 + 2 + 3 + 4))


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"block_2/mlp/fc1/kernel": None}, {}, "same matrices to share them; block_2/mlp/fc1/kernel differs"),
        ({"block_0/mlp/fc1/kernel": None}, {}, "block_1/mlp/fc1/kernel differs"),
        ({"block_3/mlp/fc1/kernel": (3, 4)}, {}, "block_3/mlp/fc1/kernel differs"),
        ({}, {"chunks": 3}, "reparam.chunks=3 must divide the 4 layers block_0 to block_3"),
        ({}, {"targets": ".*kernel"}, "'head/kernel', which is not in a layer"),
        ({}, {"targets": "block.*"}, "leaves block_1 no weight of its own"),
    ],
)
def test_what_cannot_be_shared_is_refused(base, changes, options, message):
    for name, shape in changes.items():
        del base[name]
        if shape:
            base[name] = jnp.zeros(shape)
    with pytest.raises(errors.ConfigError, match=message):
        share.Share(**options).stored(base)


def test_a_run_stores_one_layers_matrices_and_resumes(tiny, tmp_path):
    changes = {"reparam": {"name": "share"}, "model.encoder_layers": 2, "model.decoder_layers": 2, "save_every": 1}
    train.run(tiny({**changes, "steps": 1}), tmp_path)
    train.run(tiny({**changes, "steps": 2}), tmp_path)
    opened = experiment.load(tmp_path)
    model = assembly.make_model(opened.config, opened.tokenizer.vocabulary)
    whole = jax.eval_shape(lambda: assembly.init_weights(model, jax.random.key(0)))
    assert opened.step == 2 and trees.differences(whole, opened.weights) == ""
    saved = checkpoint.of_run(tmp_path).restore(2)[0]
    assert not any("layer_1" in name and "kernel" in name for name in trees.flatten(saved))
    for name in (n for n in whole if "layer_1" in n and n.endswith("kernel")):
        np.testing.assert_array_equal(opened.weights[name], opened.weights[name.replace("layer_1", "layer_0")])


def test_lora_on_top(base):
    """An adapter gives each layer a low-rank change of the shared matrix."""
    parts = [{"name": "share"}, {"name": "lora", "rank": 2, "targets": r".*query/kernel"}]
    both = compose.build({"name": "compose", "parts": parts})
    adapter = both.init(jax.random.key(0), base)
    adapter["1_lora/block_1/attention/query/kernel/b"] += 1
    weights = linear.merge(both.expand(both.stored(base), adapter, 0))
    same = [
        i
        for i in range(4)
        if np.array_equal(weights[f"block_{i}/attention/query/kernel"], base["block_0/attention/query/kernel"])
    ]
    assert same == [0, 2, 3]
