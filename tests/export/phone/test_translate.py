"""The two files of a translation model give, step by step, the logits of the decoder in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.export import bundle
from lwt.export.phone import classify, translate
from lwt.runs import experiment

pytestmark = pytest.mark.usefixtures("compiled_once")
LENGTH = 20


@pytest.fixture(scope="module")
def trained(tiny, untrained, tmp_path_factory):
    """A run with random weights."""
    return untrained(tiny({"data.max_tokens": LENGTH - 1}), tmp_path_factory.mktemp("run"))


@pytest.mark.parametrize("runtime", classify.RUNTIMES.values(), ids=classify.RUNTIMES)
@pytest.mark.parametrize(("format", "tolerance"), [("float32", 1e-5), ("dynamic", 0.1)])
def test_steps_equal_the_decoder(trained, runtime, format, tolerance):
    models, past = translate.convert(trained, runtime, format=format, length=LENGTH)
    encode, step = (runtime.runner(models[name]) for name in translate.FILES)
    source, target = np.int32([7, 30, 5, 3]), np.int32([2, 9, 41, 8, 6])
    segments = np.int32(np.arange(LENGTH) < 4)[None]
    state = {**encode({"source": np.pad(source, (0, 16))[None], "segments": segments}), **past, "segments": segments}
    logits = []
    for i, token in enumerate(target):
        found = step({**state, "token": np.int32([token]), "index": np.int32([i])})
        logits.append(found.pop("logits")[0])
        state |= found
    batch = {"source": source[None], "inputs": target[None]}
    for side, length in (("source", 4), ("target", 5)):
        batch |= {f"{side}_segments": jnp.ones((1, length), jnp.int32), f"{side}_positions": jnp.arange(length)[None]}
    wanted = jax.jit(trained.model.apply)({"params": trees.unflatten(trained.weights)}, batch)[0]
    assert np.abs(np.stack(logits) - wanted).max() < tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("runtime", classify.RUNTIMES)
def test_answers_equal_those_of_jax(trained, tmp_path, runtime):
    report = translate.export(trained, tmp_path / "phone", runtime=runtime)
    assert report["agreement"] == 1 and report["records"] == 8 and report["length"] == LENGTH
    assert report["exact_match"] == report["jax_exact_match"]
    sizes = {path.stem: path.stat().st_size for path in (tmp_path / "phone").iterdir()}
    assert sizes == report["bytes"]
    assert all(b'"task": "translate"' in path.read_bytes() for path in (tmp_path / "phone").iterdir())


def test_a_bundle_of_integers_is_exported(trained, tmp_path):
    bundle.write(trained, tmp_path / "bundle", precision="int8")
    report = translate.export(experiment.load(tmp_path / "bundle"), tmp_path / "phone", runtime="onnx")
    assert report["agreement"] == 1 and report["records"] == 8


def test_wrong_arguments_are_refused(trained, tmp_path):
    with pytest.raises(errors.ConfigError, match="format='int8'; choose from dynamic, float32"):
        translate.export(trained, tmp_path / "x", format="int8")
    beams = experiment.load(trained.workdir, decoding={"beams": 2})
    with pytest.raises(errors.ConfigError, match="decodes by beam search, 2 beams.*decoding={'beams': 1}"):
        translate.export(beams, tmp_path / "x")
    assert not any(tmp_path.iterdir())
