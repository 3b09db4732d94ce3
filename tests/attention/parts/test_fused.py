"""Attention as one kernel: JAX's own implementation of the same call on this machine, and the program for a GPU."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo as cudnn

from lwt.attention import efficient, softmax
from lwt.attention.parts import core, fused, masks

SEGMENTS = jnp.array([[1, 1, 2, 2, 2, 3, 3, 0], [1, 1, 1, 1, 0, 0, 0, 0]])
MASKS = {
    "none": None,
    "causal": masks.Mask(causal=True),
    "padding": masks.Mask(SEGMENTS),
    "texts": masks.Mask(SEGMENTS, SEGMENTS),
    "texts, causal": masks.Mask(SEGMENTS, SEGMENTS, causal=True),
}


@pytest.fixture
def a_gpu(monkeypatch):
    """A default device that has the kernel; it is computed by XLA."""
    monkeypatch.setattr(fused, "has_kernel", lambda: True)
    monkeypatch.setattr(fused, "KERNEL", "xla")


def problem(*, heads=4, key_heads=4, t=8, s=8, k=16):
    sizes = ((heads, t), (key_heads, s), (key_heads, s))
    return [jax.random.normal(jax.random.key(i), (2, *size, k)) for i, size in enumerate(sizes)]


@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize("mask", MASKS)
def test_it_is_the_same_function(a_gpu, mask, key_heads):
    arrays, mask = problem(key_heads=key_heads), MASKS[mask]
    allowed = None if mask is None else mask.array(8, 8)
    assert fused.fits(*arrays[:2], v=arrays[2], mask=mask, key=None, dtype="bfloat16")

    def ours(q, k, v):
        return fused.attend(q, k, v=v, mask=mask)

    def expected(q, k, v):
        k, v = (jnp.repeat(x, 4 // key_heads, axis=1) for x in (k, v))
        return core.attend(q, k, v=v, mask=allowed, dtype="bfloat16")

    output = ours(*arrays)
    assert output.dtype == jnp.float32
    np.testing.assert_allclose(output, expected(*arrays), atol=0.03)
    read = 1 if mask is None or mask.query_segments is None else SEGMENTS[:, None, :, None] > 0  # padding reads nothing

    def gradients(attention):
        return jax.grad(lambda *a: (read * attention(*a) ** 2).sum(), (0, 1, 2))(*arrays)

    for found, right in zip(gradients(ours), gradients(expected)):
        assert np.linalg.norm(found - right) < 0.02 * np.linalg.norm(right)


def test_what_the_kernel_cannot_do(a_gpu):
    def fits(*, mask=None, key=None, dtype="bfloat16", **sizes):
        q, k, v = problem(**sizes)
        return fused.fits(q, k, v=v, mask=mask, key=key, dtype=dtype)

    assert fits() and fits(k=128) and fits(t=7, s=5) and fits(t=7, s=7, mask=MASKS["causal"])
    assert not fits(dtype="float32") and not fits(key=jax.random.key(0))
    assert not fits(k=12) and not fits(k=136)
    assert not fits(t=7, mask=MASKS["padding"]) and not fits(t=7, mask=MASKS["causal"])


def test_a_large_mask_is_computed_in_blocks(a_gpu, monkeypatch):
    q, k, v = problem()
    for largest, fits in ((2 * 8 * 8, True), (2 * 8 * 8 - 1, False)):
        monkeypatch.setattr(fused, "LARGEST", largest)
        assert fused.fits(q, k, v=v, mask=MASKS["texts"], key=None, dtype="bfloat16") == fits
        assert fused.fits(q, k, v=v, mask=MASKS["causal"], key=None, dtype="bfloat16")


@pytest.mark.parametrize(
    "device, has",
    [(("gpu", "cuda 12090", "8.0"), True), (("gpu", "cuda 12090", "10.3"), True), (("gpu", "cuda 12090", "7.5"), False),
     (("gpu", "rocm 60000", "gfx942"), False), (("tpu", "", None), False), (("cpu", "", None), False)],
)  # fmt: skip
def test_which_devices_have_it(monkeypatch, device, has):
    name, version, capability = device
    monkeypatch.setattr(jax, "default_backend", lambda: name)
    monkeypatch.setattr(fused.backend, "get_backend", lambda: type("Backend", (), {"platform_version": version}))
    monkeypatch.setattr(jax, "local_devices", lambda: [type("Device", (), {"compute_capability": capability})])
    assert fused.has_kernel() == has


@pytest.mark.parametrize("module", [softmax.Attention(64, 4, dtype="bfloat16"),
                                    softmax.Attention(64, 4, kv_heads=2, dtype="bfloat16"),
                                    efficient.Attention(64, 4, dtype="bfloat16")])  # fmt: skip
def test_attentions_use_it(a_gpu, monkeypatch, module):
    x = jax.random.normal(jax.random.key(0), (2, 8, 64))
    variables = module.init(jax.random.key(1), x)
    asked = []
    attend = fused.attend
    monkeypatch.setattr(fused, "attend", lambda *a, **k: asked.append(1) or attend(*a, **k))
    output = module.apply(variables, x, mask=MASKS["texts"])
    assert asked == [1]
    monkeypatch.setattr(fused, "has_kernel", lambda: False)
    np.testing.assert_allclose(output, module.apply(variables, x, mask=MASKS["texts"]), atol=0.03)
    assert asked == [1]


def test_a_block_that_is_set_keeps_to_blocks(a_gpu, monkeypatch):
    monkeypatch.setattr(fused, "attend", None)
    module = softmax.Attention(64, 4, block=4, dtype="bfloat16")
    assert module.init_with_output(jax.random.key(0), jnp.ones((2, 8, 64)))[0].shape == (2, 8, 64)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_odd_lengths_are_the_same_function(a_gpu, mask):
    arrays, mask = problem(t=7, s=7 if mask == "causal" else 5), MASKS[mask]
    allowed = None if mask is None else mask.array(7, 7)

    def gradients(attention):
        return jax.vjp(attention, *arrays)[1](jnp.cos(jnp.arange(2 * 4 * 7 * 16.0)).reshape(2, 4, 7, 16))

    def ours(q, k, v):
        return fused.attend(q, k, v=v, mask=mask)

    def expected(q, k, v):
        return core.attend(q, k, v=v, mask=allowed, dtype="bfloat16")

    np.testing.assert_allclose(ours(*arrays), expected(*arrays), atol=0.03)
    for found, right in zip(gradients(ours), gradients(expected), strict=True):
        assert np.linalg.norm(found - right) < 0.02 * np.linalg.norm(right)


@pytest.mark.parametrize(
    "mask, t, kind",
    [("none", 8, "NO_MASK"), ("causal", 8, "CAUSAL"), ("texts", 8, "NO_MASK"), ("none", 7, "PADDING"),
     ("causal", 7, "PADDING_CAUSAL")],
)  # fmt: skip
def test_the_program_for_a_gpu_calls_the_kernels(monkeypatch, mask, t, kind):
    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91000)
    monkeypatch.setattr(cudnn, "check_compute_capability", lambda capability: True)
    arrays = problem(key_heads=2, t=t, s=t)

    @jax.jit
    def step(q, k, v):
        return jax.value_and_grad(lambda q, k, v: fused.attend(q, k, v=v, mask=MASKS[mask]).sum(), (0, 1, 2))(q, k, v)

    program = step.trace(*arrays).lower(lowering_platforms=("cuda",)).as_text()
    name = "fmhaScaleBiasSoftmax" if mask == "texts" else "fmhaSoftmax"
    assert re.findall(r"__cudnn\$(\w+)", program) == [name, f"{name}Backward"]
    assert set(re.findall(r"(NO_MASK|PADDING_CAUSAL|PADDING|CAUSAL)", program)) == {kind}


def test_on_a_gpu():
    """Outputs and gradients of cuDNN's kernel, compared with float32: ``JAX_PLATFORMS=cuda pytest ...``."""
    if not fused.has_kernel():
        pytest.skip("no NVIDIA GPU, or JAX_PLATFORMS is not cuda")
    sizes = [("none", 64, 64), ("none", 64, 32), ("none", 65, 33), ("causal", 64, 64), ("causal", 65, 65)]
    for name, t, s in [*sizes, ("texts", 8, 8), ("texts, causal", 8, 8)]:
        mask = MASKS[name]
        arrays = [x.astype(jnp.bfloat16).astype(jnp.float32) for x in problem(key_heads=2, t=t, s=s, k=32)]
        read = 1 if mask is None or mask.query_segments is None else SEGMENTS[:, None, :, None] > 0
        towards = read * jax.random.normal(jax.random.key(9), (2, 4, t, 32))
        for found, right in zip(*(_results(f, arrays, mask, towards) for f in (_fused, _exact)), strict=True):
            assert np.linalg.norm(found - right) < 0.01 * np.linalg.norm(right), (name, t, s)


def _results(attend, arrays, mask, towards):
    """The output where something reads it, and the gradients."""
    output, back = jax.vjp(jax.jit(lambda *a: attend(*a, mask=mask)), *arrays)
    return output * (towards != 0), *back(towards)


def _fused(q, k, v, mask):
    return fused.attend(q / 8, k, v=v, mask=mask)


def _exact(q, k, v, mask):
    k, v = (jnp.repeat(x, 2, axis=1) for x in (k, v))
    allowed = None if mask is None else mask.array(q.shape[2], k.shape[2])
    with jax.default_matmul_precision("highest"):
        return core.attend(q / 8, k, v=v, mask=allowed, dtype="float32")
