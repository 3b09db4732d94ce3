import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import vit as sizes
from lwt import errors, trees
from lwt.attention import linformer
from lwt.layers import linear
from lwt.models import vit

COUNTS = {"cifar": 9_549_578, "ti16": 5_717_416, "s16": 22_050_664, "b16": 86_567_656,
          "cct2": 284_491, "cct7": 3_765_515}  # fmt: skip
SMALL = dict(outputs=3, image_size=8, channels=2, patch=4, width=8, layers=2, heads=2, hidden=12)
VARIANTS = {
    "token": vit.ViT(**SMALL),
    "mean": vit.ViT(**SMALL, pool="mean"),
    "sinusoidal": vit.ViT(**SMALL, positions="sinusoidal"),
    "hybrid": vit.ViT(**SMALL, stem="conv"),
    "compact": vit.ViT(**SMALL, stem="pooled", pool="sequence"),
    "distilled": vit.ViT(**SMALL, distilled=True, pool="tokens"),
}


def images(count=2, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(count, 8, 8, 2)), jnp.float32)


def shapes(model):
    return trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"])


@pytest.fixture(params=VARIANTS)
def small(request, weights_of):
    model = VARIANTS[request.param]
    return model, weights_of(model)


@pytest.mark.parametrize("size", COUNTS)
def test_published_counts(size):
    classes = 1000 if sizes.SIZES[size]["image_size"] == 224 else 10
    assert trees.count(shapes(vit.ViT(**sizes.SIZES[size], outputs=classes))) == COUNTS[size]


def test_the_defaults_are_the_cifar_size():
    default = vit.ViT()
    assert sizes.SIZES["cifar"].items() <= {f: getattr(default, f) for f in default.__dataclass_fields__}.items()


def test_names_and_shapes():
    block = {
        **{f"attention/{n}/{k}": s for n in ("query", "key", "value", "out") for k, s in LINEAR.items()},
        **{f"{n}/{k}": (8,) for n in ("attention_norm", "mlp_norm") for k in ("scale", "bias")},
        **{"mlp/fc1/kernel": (8, 12), "mlp/fc1/bias": (12,), "mlp/fc2/kernel": (12, 8), "mlp/fc2/bias": (8,)},
    }
    rest = {
        **{
            "embed/patch/kernel": (32, 8),
            "embed/patch/bias": (8,),
            "embed/class_token": (8,),
            "embed/position": (5, 8),
        },
        **{"norm/scale": (8,), "norm/bias": (8,), "head/kernel": (8, 3), "head/bias": (3,)},
    }
    found = {name: {key: leaf.shape for key, leaf in shapes(model).items()} for name, model in VARIANTS.items()}
    assert found["token"] == rest | {f"block_{i}/{name}": shape for i in range(2) for name, shape in block.items()}
    assert {key: shape for key, shape in found["token"].items() if found["mean"].get(key) != shape} == {
        "embed/class_token": (8,),
        "embed/position": (5, 8),
    }
    assert found["mean"]["embed/position"] == (4, 8)
    assert found["token"].keys() - found["sinusoidal"].keys() == {"embed/position"}
    stem = {key: shape for key, shape in found["hybrid"].items() if "embed/stem" in key}
    assert stem == {
        **{"embed/stem/conv_0/kernel": (18, 4), "embed/stem/conv_1/kernel": (36, 8)},
        **{f"embed/stem/norm_{i}/{key}": (4 << i,) for i in range(2) for key in ("scale", "bias")},
    }
    assert found["hybrid"]["embed/patch/kernel"] == (8, 8) and found["hybrid"]["embed/position"] == (5, 8)
    assert {key: shape for key, shape in found["compact"].items() if found["mean"].get(key) != shape} == {
        **{"embed/stem/conv_0/kernel": (18, 4), "embed/stem/conv_1/kernel": (36, 8)},
        **{"weigh/kernel": (8, 1), "weigh/bias": (1,)},
    }
    assert found["mean"].keys() - found["compact"].keys() == {"embed/patch/kernel", "embed/patch/bias"}
    assert {key: shape for key, shape in found["distilled"].items() if found["token"].get(key) != shape} == {
        **{"embed/distillation_token": (8,), "embed/position": (6, 8), "head/kernel": (16, 3)}
    }


LINEAR = {"kernel": (8, 8), "bias": (8,)}


def test_every_pixel_and_every_weight_counts(small):
    """By gradient; biases of logits are exceptions: they move all of a query's, or all of the pool's, by the same."""
    model, variables = small

    def loss(params, x):
        return jnp.square(model.apply({"params": params}, {"image": x})).sum()

    of_params, of_pixels = jax.jit(jax.grad(loss, argnums=(0, 1)))(variables["params"], images())
    counts = (np.abs(of_pixels) > 0).mean()
    assert counts > 0.9 if model.stem == "pooled" else counts == 1  # a pixel may be no maximum
    dead = {name for name, leaf in trees.flatten(of_params).items() if not (np.abs(leaf) > 1e-7).any()}
    assert all(name.endswith(("attention/key/bias", "weigh/bias")) for name in dead)


def test_only_positions_tell_where_a_patch_is(weights_of, run):
    """Patches in another order: the mean over them is the same without positions, and another with them."""
    model = VARIANTS["mean"]
    params = trees.flatten(weights_of(model)["params"])
    x = images()
    turned = jnp.concatenate([x[:, 4:], x[:, :4]], axis=1)  # the lower patches above the upper ones

    def logits(flat, image):
        return run(model, {"params": trees.unflatten(flat)}, {"image": image})

    blind = params | {"embed/position": jnp.zeros((4, 8))}
    np.testing.assert_allclose(logits(blind, turned), logits(blind, x), atol=1e-5)
    assert np.abs(logits(params, turned) - logits(params, x)).max() > 0.01
    moved = params | {"embed/position": jnp.roll(params["embed/position"], 2, axis=0)}
    np.testing.assert_allclose(logits(moved, turned), logits(params, x), atol=1e-5)


def test_features_are_what_the_head_reads(small, run):
    model, variables = small
    batch, head = {"image": images()}, variables["params"]["head"]
    features, states = (run(model, variables, batch, method=method) for method in ("features", "hidden_states"))
    np.testing.assert_allclose(run(model, variables, batch), features @ head["kernel"] + head["bias"][None], atol=1e-5)
    pooled = {"mean": states.mean(1), "token": states[:, 0], "tokens": states[:, :2].reshape(2, 16)}
    if model.pool == "sequence":
        shares = jax.nn.softmax(states @ variables["params"]["weigh"]["kernel"], axis=1)  # its bias changes nothing
        pooled["sequence"] = (shares * states).sum(1)
    assert states.shape == (2, {"mean": 4, "sequence": 4, "token": 5, "tokens": 6}[model.pool], 8)
    np.testing.assert_allclose(features, pooled[model.pool], atol=1e-6)


def test_the_last_block_works_for_the_class_token_alone(weights_of):
    model = VARIANTS["token"]
    variables, batch = weights_of(model), {"image": images()}

    def lowered(method):
        return jax.jit(lambda v: model.apply(v, batch, method=method)).lower(variables)

    def flops(method):
        return lowered(method).compile().cost_analysis()["flops"]

    assert flops("features") < 0.8 * flops("hidden_states")


def test_an_attention_that_cannot_cross_works_for_all_places(weights_of, run):
    model = vit.ViT(**SMALL, attention=linformer.Attention)
    variables, batch = weights_of(model), {"image": images()}
    features, states = (run(model, variables, batch, method=method) for method in ("features", "hidden_states"))
    np.testing.assert_allclose(features, states[:, 0], atol=1e-6)


def test_structured_weights_stand_for_arrays(small, run):
    """A low-rank node replaces every kernel, also those of the patches and the stem."""
    model, variables = small
    random = np.random.default_rng(1)

    def noise(*shape):
        return jnp.asarray(random.normal(0, 0.3, shape), jnp.float32)

    weights = {
        name: linear.LowRank(w, noise(w.shape[0], 2), noise(2, w.shape[1]), jnp.float32(0.5))
        if name.endswith("kernel")
        else w
        for name, w in trees.flatten(variables["params"]).items()
    }
    merged = linear.merge(weights)
    found, wanted = (run(model, {"params": trees.unflatten(w)}, {"image": images()}) for w in (weights, merged))
    np.testing.assert_allclose(found, wanted, atol=2e-4, rtol=1e-4)
    assert np.abs(wanted - run(model, variables, {"image": images()})).max() > 0.01


def test_bfloat16_is_near_float32(small, run):
    model, variables = small
    exact, rounded = (run(m, variables, {"image": images()}) for m in (model, model.clone(dtype="bfloat16")))
    assert rounded.dtype == jnp.float32 and not np.array_equal(rounded, exact)
    np.testing.assert_allclose(rounded, exact, atol=0.15, rtol=0.05)


@pytest.mark.parametrize("rates", [dict(dropout=0.5), dict(attention_dropout=0.5)])
def test_dropout_acts_in_training_only(rates, weights_of):
    model = vit.ViT(**SMALL, **rates)
    variables, batch = weights_of(model), {"image": images()}
    train = jax.jit(lambda seed: model.apply(variables, batch, train=True, rngs={"dropout": jax.random.key(seed)}))
    assert not np.allclose(train(0), train(1))
    np.testing.assert_array_equal(train(0), train(0))
    np.testing.assert_array_equal(model.apply(variables, batch), VARIANTS["token"].apply(variables, batch))


def test_wrong_fields_are_named():
    for change, message in (
        (dict(patch=3), "model.image_size=8 must be a multiple of model.patch=3"),
        (dict(heads=3), "model.width=8 must be a multiple of model.heads=3"),
        (dict(pool="tokn"), "model.pool='tokn'.*did you mean 'token'"),
        (dict(pool="tokens"), "model.pool='tokens' must be 'token' or, with model.distilled, 'tokens'"),
        (dict(pool="mean", distilled=True), "model.pool='mean' must be 'token'"),
        (dict(positions="fixed"), "model.positions='fixed'.*learned, sinusoidal"),
        (dict(stem="resnet"), "model.stem='resnet'.*conv, patches"),
        (dict(activation="tanh"), "model.activation='tanh'.*did you mean 'gelu_tanh'"),
        (dict(layers=0), "model.layers=0"),
        (dict(dropout=1.0), r"model.dropout=1.0 must be in \[0, 1\)"),
        (dict(positions="sinusoidal", width=6), "model.width=6 must be a multiple of 4"),
        (dict(stem="conv", patch=1), "model.patch=1 must be 2, 4, 8"),
        (dict(stem="conv", patch=8, width=6), "half of it must divide model.width=6"),
    ):
        model = VARIANTS["token"].clone(**change)
        with pytest.raises(errors.ConfigError, match=message):
            model.init(jax.random.key(0), model.example())
    with pytest.raises(errors.ConfigError, match=r"\(12, 8, 2\) do not fit model.image_size=8 and model.channels=2"):
        jax.eval_shape(lambda: VARIANTS["token"].init(jax.random.key(0), {"image": jnp.zeros((1, 12, 8, 2))}))
