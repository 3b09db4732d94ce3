"""The artefact: what is read is what was written, to the bit, and nothing damaged is believed."""

import json
import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.layers import linear
from lwt.reparam import lora
from lwt.reparam.compression import quantize
from lwt.runs import integer_file as artefact

SHAPES = {"embed/embedding": (301, 16), "block_0/out/kernel": (130, 33), "block_0/conv/kernel": (32, 130)}
VECTORS = {"block_0/out/bias": (33,), "head/classifier/bias": (5,), "block_0/scale": ()}
REPARAMS = {
    "int8": quantize.Quantize(),
    "rows": quantize.Quantize(block=0),
    "dynamic": quantize.Quantize(block=0, activations="dynamic"),
    "int4": quantize.Quantize(format="int4", block=32),
    "fp8": quantize.Quantize(format="fp8", outliers=0.08),
    "fallback": quantize.Quantize(outliers=0.08, threshold=3.0),
    "rare": quantize.Quantize(outliers=0.08, threshold=3.6),
}


@pytest.fixture
def base():
    generator = np.random.default_rng(0)
    return {name: jnp.asarray(generator.normal(0, 1, shape), jnp.float32) for name, shape in (SHAPES | VECTORS).items()}


@jax.jit
def logits(weights, ids):
    x = linear.take(weights["embed/embedding"], ids)
    x = jnp.tile(x, (1, 9))[:, :130] + linear.dense(weights["block_0/conv/kernel"])[: ids.shape[0]]
    return (
        linear.linear(x, weights["block_0/out/kernel"]) * weights["block_0/scale"] + weights["block_0/out/bias"][None]
    )


@pytest.mark.parametrize("way", ["int8", "dynamic"])
def test_factors_stay_factors(way, base, tmp_path):
    """They are rounded each, stored each, and multiplied one after the other."""
    name = "block_0/out/kernel"
    factors = linear.Factors(base[name][:, :5], base[name][:5])
    weights = REPARAMS[way].expand({**base, name: factors}, {}, 0)
    artefact.write(tmp_path / "file", weights, rest="float16")
    found = artefact.load(tmp_path / "file")
    assert set(found) == set(base) and isinstance(found[name], linear.Factors)
    for mine, part in ((found[name].a, factors.a), (found[name].b, factors.b)):
        np.testing.assert_array_equal(mine.dense(), REPARAMS[way].expand({name: part}, {}, 0)[name].dense())
    stored = artefact.as_stored(weights, rest="float16")
    ids = jnp.array([0, 300, 7, 64])
    np.testing.assert_array_equal(logits(found, ids), logits(stored, ids))
    assert artefact.parts(tmp_path / "file")["integers"] == 301 * 16 + 130 * 5 + 5 * 33 + 32 * 130


@pytest.mark.parametrize(("name", "rest"), [*((name, "float32") for name in REPARAMS), ("int8", "float16")])
def test_the_file_equals_the_memory(name, rest, base, tmp_path):
    weights = REPARAMS[name].expand(base, {}, 0)
    path = tmp_path / "model.lwtq"
    written = artefact.write(path, weights, rest=rest, info={"labels": ["ä", "b"]})
    assert written == artefact.size(path) == path.stat().st_size
    assert artefact.read_info(path) == {"labels": ["ä", "b"]}
    loaded, stored = artefact.load(path), artefact.as_stored(weights, rest=rest)
    assert set(loaded) == set(base)
    for leaf, w in stored.items():
        np.testing.assert_array_equal(linear.dense(loaded[leaf]), linear.dense(w), strict=True)
        assert type(loaded[leaf]) is type(w)
    ids = jnp.array([0, 300, 7, 64])
    np.testing.assert_array_equal(logits(loaded, ids), logits(stored, ids))
    assert not np.array_equal(logits(loaded, ids), logits(base, ids))


def test_what_a_weight_costs_on_disk(base, tmp_path):
    """Values, scales and vectors to the byte; the header is a matter of names."""
    kernels, vectors = sum(np.prod(s) for s in SHAPES.values()), 33 + 5 + 1
    scales = 2 * (-(-301 // 64) * 16 + 3 * 33 + 130)
    for name, data in {
        "int8": kernels + scales + 4 * vectors,
        "int4": -(-301 * 16 // 2) + 130 * 33 // 2 + 32 * 130 // 2 + 2 * (10 * 16 + 5 * 33 + 130) + 4 * vectors,
    }.items():
        path = tmp_path / name
        size = artefact.write(path, REPARAMS[name].expand(base, {}, 0))
        header = 8 + struct.unpack("<Q", path.read_bytes()[:8])[0]
        assert size == header + data and header < 1600
    plain = artefact.write(tmp_path / "fallback", REPARAMS["int8"].expand(base, {}, 0))
    rare = artefact.write(tmp_path / "rare", REPARAMS["rare"].expand(base, {}, 0))
    beyond = sum(int((np.abs(base[name]) > 3.6).sum()) for name in SHAPES)
    assert 0 < beyond < 20 and 3 * beyond <= rare - plain < 3 * beyond + 60 + 500  # gaps of 255, and header lines


def test_gaps():
    for positions in ([], [0], [254], [255], [256], [0, 1, 510, 511, 100_000]):
        found = artefact._positions(artefact._gaps(np.array(positions, np.int64)))
        assert found.tolist() == positions


def test_damage_is_found(base, tmp_path):
    path = tmp_path / "model.lwtq"
    artefact.write(path, REPARAMS["int8"].expand(base, {}, 0))
    whole = bytearray(path.read_bytes())
    flipped = whole.copy()
    flipped[-100] ^= 1
    nodes = whole.replace(b'[\\"int8\\",64,0', b'[\\"int8\\",32,0', 1)
    for data, message in (
        (flipped, "its checksum differs"),
        (nodes, "its checksum differs"),
        (whole[:-1], "is damaged, or not a file of lwt.export.quantize"),
        (b"not an artefact", "is damaged, or not a file of lwt.export.quantize"),
        (struct.pack("<Q", 2) + b"{}", "is of kind None"),
    ):
        assert bytes(data) != bytes(whole)
        path.write_bytes(data)
        with pytest.raises(errors.CheckpointError, match=message):
            artefact.load(path)
    with pytest.raises(errors.CheckpointError, match="nowhere cannot be read"):
        artefact.load(tmp_path / "nowhere")


def test_what_cannot_be_written(base, tmp_path):
    adapter = lora.LoRA(rank=2, targets="block_0/out/kernel")
    adapted = adapter.expand(base, adapter.init(jax.random.key(0), base), 0)
    with pytest.raises(errors.ConfigError, match="'block_0/out/kernel' is a LowRank.*merge it"):
        artefact.write(tmp_path / "x", adapted)
    with pytest.raises(errors.ConfigError, match="rest is 'float8'"):
        artefact.write(tmp_path / "x", base, rest="float8")
    for bad, rest in ((jnp.full((33,), jnp.nan), "float32"), (jnp.full((33,), 1e5), "float16")):
        with pytest.raises(errors.NotFinite, match=f"'block_0/out/bias' is not finite in {rest}"):
            artefact.write(tmp_path / "x", base | {"block_0/out/bias": bad}, rest=rest)
    assert list(tmp_path.iterdir()) == []


def test_the_header_is_plain_safetensors(base, tmp_path):
    path = tmp_path / "model.lwtq"
    artefact.write(path, REPARAMS["int8"].expand(base, {}, 0))
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    assert header["embed/embedding/values"]["dtype"] == "I8" and header["embed/embedding/values"]["shape"] == [301, 16]
    assert header["__metadata__"]["kind"] == artefact.KIND
