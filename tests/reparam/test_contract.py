"""What every file of lwt/reparam keeps to; a new file is found by itself, with the defaults of its class."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, registry, trees
from lwt.layers import linear
from lwt.reparam import adapters, compose, lora

LABELS = {"a", "b", "embedding_a", "embedding_b", "vector", "update", "state", "constant"}
NONLINEAR = ("houlsby",)  # they cannot be written as weights
UNMOVED = ("state", "constant")  # by the optimizer
EVERYTHING = ".*(kernel|embedding)"
SECTIONS = [{"name": name} for name in registry.REPARAMS.names() if name not in ("compose", "share")]
SECTIONS += [{"name": "share", "targets": ".*/query/kernel"}]  # of this base's matrices, both layers have no other
SECTIONS += [{"name": "lora", "rank": 3, "start": start, "targets": EVERYTHING} for start in ("lora", "pissa", "olora")]
SECTIONS += [{"name": "lora", "rank": 3, "frozen_a": True}, {"name": "oft", "block_size": 4, "neumann": 5}]
SECTIONS += [
    {"name": name, "targets": EVERYTHING} for name in "ia3 vera lokr hira miss shira unilora oft houlsby".split()
]
SECTIONS += [{"name": "lora", "rank": 3, "start": start} for start in lora.LOOKS]
SECTIONS += [{"name": "unilora", "centred": False}, {"name": "lora", "rank": 3, "factor_dropout": 0.2}]
SECTIONS += [{"name": name, "rank": 3, "scaling": "rslora", "targets": EVERYTHING} for name in ("dora", "singlora")]
SECTIONS += [
    {"name": "compose", "parts": [{"name": "lora", "rank": 2}, {"name": "dora", "rank": 3, "start": "pissa"}]},
    {"name": "compose", "parts": [{"name": "singlora", "ramp": 5}, {"name": "lora", "start": "olora", "rank": 4}]},
    {"name": "dora", "rank": 2, "dropout": 0.3, "targets": EVERYTHING},
]
IDS = jnp.array([3, 0, 10, 5, 5])
LATE = 10**6
_started = {}


def started(section, base):
    """The reparametrization of a section and its adapter; made once, for all tests."""
    if str(section) not in _started:
        reparam = compose.build(section)
        _started[str(section)] = reparam, jax.jit(reparam.init)(jax.random.key(1), base)
    return _started[str(section)]


@pytest.mark.parametrize("section", SECTIONS, ids=str)
class TestContract:
    def test_structure_and_labels(self, section, base):
        reparam, adapter = started(section, base)
        shapes = jax.eval_shape(reparam.init, jax.random.key(1), base)
        assert trees.differences(shapes, adapter) == ""
        weights = jax.eval_shape(lambda leaves: reparam.expand(base, leaves, 0, key=jax.random.key(2)), adapter)
        assert trees.differences(base, weights) == ""
        for name in (name for name in weights if name.endswith("kernel")):  # linen hands a node through
            layer, w = linear.Linear(base[name].shape[1]), weights[name]
            x, b = (jax.ShapeDtypeStruct(s, jnp.float32) for s in ((2, 5, w.shape[0]), w.shape[1:]))
            y = jax.eval_shape(lambda p, x, layer=layer: layer.apply({"params": p}, x), {"kernel": w, "bias": b}, x)
            assert y.shape == (2, 5, base[name].shape[1])
        labels = reparam.labels(adapter)
        assert list(labels) == list(adapter)
        assert set(labels.values()) <= LABELS
        assert hash(reparam) == hash(compose.build(section))

    def test_identity_at_start(self, section, base, apply):
        reparam, adapter = started(section, base)
        start, before = apply(reparam.expand(base, adapter, 0), IDS), apply(base, IDS)
        assert np.allclose(start, before, rtol=1e-7, atol=2e-6) == reparam.identity_at_start

    def test_merge_equals_apply_and_leaves_the_base(self, section, base, apply, moved):
        reparam, adapter = started(section, base)
        before, adapter = {name: np.array(w) for name, w in base.items()}, moved(adapter)
        weights = reparam.expand(base, adapter, LATE)
        if section["name"] in NONLINEAR:
            with pytest.raises(errors.ConfigError, match="nonlinear"):
                adapters.merge(base, weights)
            return
        merged = adapters.merge(base, weights)
        assert not any(linear.is_node(w) for w in merged.values())
        # As users compile it: without optimisation (tests/conftest.py) sums are rounded more often.
        optimised = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 3})

        def expand(leaves):
            return reparam.expand(base, leaves, LATE)

        apart = optimised(lambda leaves, x: apply(expand(leaves), x))
        whole = optimised(lambda leaves, x: apply(adapters.merge(base, expand(leaves)), x))
        assert (
            adapters.largest_difference(lambda x: apart(adapter, x), lambda x: whole(adapter, x), batches=[IDS]) < 1e-5
        )
        if adapter:
            assert np.abs(apply(merged, IDS) - apply(base, IDS)).max() > 1e-2
        for name, w in before.items():
            np.testing.assert_array_equal(base[name], w)

    def test_trained_leaves_matter_and_constants_do_not_move(self, section, base, apply, moved):
        reparam, adapter = started(section, base)
        adapter, labels = moved(adapter), reparam.labels(adapter)
        key = jax.random.key(2)

        def loss(adapter, base, step):  # JAX mixes up what it caches of a jitted function for other trained weights
            return (apply.__wrapped__(reparam.expand(base, adapter, step, key=key), IDS) ** 2).sum()

        gradients = jax.jit(jax.grad(loss))(adapter, base, jnp.int32(LATE))
        for name, label in labels.items():
            assert np.isfinite(gradients[name]).all()
            assert (np.abs(gradients[name]).max() > 0) == (label not in UNMOVED), name

    def test_a_step_keeps_the_structure_and_has_no_effect_on_constants(self, section, base):
        reparam, adapter = started(section, base)
        memory, about = compose.memory(reparam, adapter), {"gradients": adapter, "key": jax.random.key(3)}
        found = jax.jit(lambda step: compose.advance(reparam, adapter, carried=memory, step=step, **about))(LATE)
        for before, after in zip((adapter, memory), found, strict=True):
            assert trees.differences(before, after) == ""
        assert compose.advances(reparam) or not memory
        for name in (name for name, label in reparam.labels(adapter).items() if label == "constant"):
            np.testing.assert_array_equal(found[0][name], adapter[name])

    def test_artefact_round_trip(self, section, base, tmp_path, moved):
        reparam, adapter = started(section, base)
        adapter = moved(adapter)
        adapters.save(tmp_path, adapter, reparam_config=section, base_fingerprint="f", step=7)
        loaded = adapters.load(tmp_path, expected=adapter, base_fingerprint="f")
        assert loaded.reparam == reparam and loaded.step == 7
        jax.tree.map(np.testing.assert_array_equal, loaded.leaves, adapter)


def test_all_files_are_found():
    found = "adalora c3a compose dora hira houlsby ia3 lokr lora miss none oft periodic_lora prune quantize share shira"
    assert registry.REPARAMS.names() == [*found.split(), "singlora", "svd", "unilora", "vera", "vertical"]
