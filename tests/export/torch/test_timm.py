"""Public checkpoints of both layouts, with random weights, give timm's logits."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import PIL.Image
import pytest
import safetensors.numpy
import scipy.ndimage

from lwt import errors, trees
from lwt.data import labels
from lwt.export.torch import timm as public
from lwt.export.torch import timm_layouts
from lwt.models import vit
from lwt.runs import config_file, experiment

torch_timm = pytest.importorskip("benchmarks.torch.timm", reason="timm is in the extra `test`", exc_type=ImportError)
torch = torch_timm.torch

SIZES = dict(patch=4, width=16, layers=2, heads=2, hidden=32)  # those of configs/vit.py in its smoke mode
MODEL = vit.ViT(image_size=8, outputs=3, **SIZES)
BLOCK = {
    **{f"LayerNorm_{i}/{kind}": (16,) for i in (0, 2) for kind in ("scale", "bias")},
    **{f"MultiHeadDotProductAttention_1/{n}/kernel": (16, 2, 8) for n in ("query", "key", "value")},
    **{f"MultiHeadDotProductAttention_1/{n}/bias": (2, 8) for n in ("query", "key", "value")},
    **{"MultiHeadDotProductAttention_1/out/kernel": (2, 8, 16), "MultiHeadDotProductAttention_1/out/bias": (16,)},
    **{"MlpBlock_3/Dense_0/kernel": (16, 32), "MlpBlock_3/Dense_0/bias": (32,)},
    **{"MlpBlock_3/Dense_1/kernel": (32, 16), "MlpBlock_3/Dense_1/bias": (16,)},
}
RELEASE = {  # the layout of the original release
    **{"embedding/kernel": (4, 4, 3, 16), "embedding/bias": (16,), "cls": (1, 1, 16)},
    "Transformer/posembed_input/pos_embedding": (1, 5, 16),
    **{f"Transformer/encoderblock_{i}/{name}": shape for i in range(2) for name, shape in BLOCK.items()},
    **{f"Transformer/encoder_norm/{kind}": (16,) for kind in ("scale", "bias")},
    **{"head/kernel": (16, 3), "head/bias": (3,)},
}


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(0, 0.5, shape).astype(np.float32)


def theirs(side=8, **options):
    """timm's model with random weights, also biases and scales."""
    model = torch_timm.vision_transformer.VisionTransformer(
        img_size=side, patch_size=4, embed_dim=16, depth=2, num_heads=2, mlp_ratio=2, num_classes=3, **options
    ).eval()
    state = {name: torch.from_numpy(normal(i, *w.shape)) for i, (name, w) in enumerate(model.state_dict().items())}
    model.load_state_dict(state)
    return model


def compare(weights, model, other):
    """Compares the logits of both models on images of the model's size."""
    images = normal(99, 2, model.image_size, model.image_size, 3)
    ours = jax.jit(lambda w: model.apply({"params": trees.unflatten(w)}, {"image": jnp.asarray(images)}))(weights)
    with torch.no_grad():
        wanted = other(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
    assert np.abs(wanted).max() > 0.5
    np.testing.assert_allclose(ours, wanted, atol=1e-4)


@pytest.fixture
def released(tmp_path):
    """``released(change)`` writes a file of the original release; `change` adds arrays, or drops a None."""

    def write(change=None):
        arrays = {name: normal(i, *shape) for i, (name, shape) in enumerate(RELEASE.items())} | (change or {})
        np.savez(tmp_path / "ViT.npz", **{name: array for name, array in arrays.items() if array is not None})
        return tmp_path / "ViT.npz"

    return write


@pytest.fixture
def small():
    return config_file.load("configs/vit.py:smoke=true")


@pytest.mark.parametrize(
    "model, options",
    [(MODEL, {}), (MODEL.clone(pool="mean"), dict(class_token=False, global_pool="avg", fc_norm=False))],
    ids=["token", "mean"],
)
def test_timm_s_safetensors(model, options, tmp_path):
    other, path = theirs(**options), tmp_path / "model.safetensors"
    state = {name: w.numpy() for name, w in other.state_dict().items()}
    safetensors.numpy.save_file(state, path)
    weights = public.load(path, model)
    compare(weights, model, other)
    back = timm_layouts.to_timm(weights, model)
    assert back.keys() == state.keys() and all(np.array_equal(back[name], state[name]) for name in state)


def test_the_original_release_as_timm_reads_it(released):
    other, path = theirs(), released()
    other.load_pretrained(str(path))
    compare(public.load(path, MODEL), MODEL, other)


def test_another_image_size_as_in_timm(tmp_path):
    path, larger = tmp_path / "model.safetensors", theirs(side=20)
    state = theirs().state_dict()
    safetensors.numpy.save_file({name: w.numpy() for name, w in state.items()}, path)
    larger.load_state_dict(torch_timm.vision_transformer.checkpoint_filter_fn(state, larger))
    model = MODEL.clone(image_size=20)
    compare(public.load(path, model), model, larger)


@pytest.mark.parametrize("old, new", [(2, 3), (3, 2), (7, 12), (14, 4)])
@pytest.mark.parametrize("token", [True, False])
def test_resizing(old, new, token):
    table = normal(0, old**2 + token, 6)
    found = public.resized(table, new, token=token)
    wanted = torch_timm.resample_abs_pos_embed(torch.from_numpy(table)[None], [new, new], num_prefix_tokens=int(token))
    np.testing.assert_allclose(found, wanted[0].numpy(), atol=1e-5)
    found = public.resized(table, new, token=token, method="bilinear")
    grid = scipy.ndimage.zoom(table[int(token) :].reshape(old, old, 6), (new / old, new / old, 1), order=1)
    np.testing.assert_allclose(found, np.concatenate([table[: int(token)], grid.reshape(-1, 6)]), atol=1e-5)
    assert public.resized(table, old, token=token) is table


def test_files_that_do_not_fit_are_refused(released, tmp_path):
    for change, model, message in (
        ({"Transformer/encoderblock_1/LayerNorm_2/bias": None}, MODEL, "missing: block_1/mlp_norm/bias$"),
        ({"pre_logits/kernel": normal(0, 16, 16)}, MODEL, "unexpected: pre_logits/kernel$"),
        ({"head/bias": None}, MODEL.clone(outputs=0), "missing: head/bias; other shapes: head/kernel"),
        ({}, MODEL.clone(heads=4), "has 2 heads; model.heads=4"),
        ({}, MODEL.clone(layers=3), "missing: block_2/"),
        ({}, MODEL.clone(outputs=5), r"head/kernel: \(16, 3\) instead of \(16, 5\)"),
        ({}, MODEL.clone(patch=2), r"embed/patch/kernel: \(48, 16\) instead of \(12, 16\)"),
        ({}, MODEL.clone(pool="mean"), "unexpected: embed/class_token; other shapes: embed/position"),
        ({"Transformer/posembed_input/pos_embedding": normal(0, 1, 4, 16)}, MODEL, "the 3 positions"),
        ({"cls": normal(0, 1, 2, 16)}, MODEL, r"embed/class_token: \(32,\) instead of \(16,\)"),
    ):
        with pytest.raises(errors.CheckpointError, match=message):
            public.load(released(change), model)
    (tmp_path / "torn.npz").write_bytes(released().read_bytes()[:300])
    (tmp_path / "torn.safetensors").write_bytes(b"no header")
    for name, message in (
        ("none.npz", "cannot be read"),
        ("torn.npz", "is damaged"),
        ("torn.safetensors", "is damaged"),
        ("model.pth", "must be a .npz"),
    ):
        with pytest.raises(errors.CheckpointError, match=f"{re.escape(name)}.*{message}"):
            public.load(tmp_path / name, MODEL)


def test_a_checkpoint_becomes_a_run(released, small, tmp_path):
    path, workdir = released(), str(tmp_path / "run")
    public.convert(small, path, workdir=workdir, names=("ant", "bee", "cat"))
    source = experiment.load(workdir)
    wanted = public.load(path, MODEL)
    assert source.step == 0 and source.weights.keys() == wanted.keys()
    assert all(np.array_equal(source.weights[name], w) for name, w in wanted.items())
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    PIL.Image.fromarray(pixels).save(tmp_path / "image.png")
    image = jnp.asarray(pixels[None] / 127.5 - 1, jnp.float32)
    logits = MODEL.apply({"params": trees.unflatten(wanted)}, {"image": image})
    assert source.predict([str(tmp_path / "image.png")]) == [("ant", "bee", "cat")[int(logits.argmax())]]
    assert public.write(source, tmp_path / "back.safetensors") == trees.count(wanted)
    again = public.load(tmp_path / "back.safetensors", MODEL)
    assert all(np.array_equal(again[name], w) for name, w in wanted.items())
    with pytest.raises(errors.ConfigError, match="already holds a run"):
        public.convert(small, path, workdir=workdir)


def test_a_new_head_and_classes_by_number(released, small, tmp_path):
    path = released({"pre_logits/kernel": normal(0, 16, 16), "pre_logits/bias": normal(1, 16)})
    weights = public.convert(small, path, workdir=str(tmp_path / "new"), names=("yes", "no"), new_head=True)
    assert weights["head/kernel"].shape == (16, 2) and not weights["head/kernel"].any()
    assert experiment.load(str(tmp_path / "new")).labels == ("yes", "no")
    public.convert(small, released(), workdir=str(tmp_path / "numbers"))
    assert experiment.load(str(tmp_path / "numbers")).labels == ("0", "1", "2")
    assert (tmp_path / "numbers" / labels.FILE).exists()
    with pytest.raises(errors.ConfigError, match="needs the names of its classes"):
        public.convert(small, path, workdir=str(tmp_path / "other"), new_head=True)


@pytest.mark.parametrize(
    "key, value", [("model.name", "lh_vit"), ("reparam.name", "lora"), ("init_from", "runs/x"), ("data.kind", "pairs")]
)
def test_configs_of_something_else(key, value, released, small, tmp_path):
    with small.unlocked():
        small.update_from_flattened_dict({key: value})
    with pytest.raises(errors.ConfigError, match=f"{key}='{value}'( must be|, not images)"):
        public.convert(small, released(), workdir=str(tmp_path / "run"))
