"""The budget of a step: which kind of operation runs when."""

import jax
import jax.numpy as jnp
import pytest

from benchmarks import budget


@pytest.mark.parametrize(
    "name, kind",
    [
        ("ynn_fusion.12", "products and sums"),
        ("dot_general.3", "products and sums"),
        ("transpose_copy_fusion.20", "copies"),
        ("copy.4", "copies"),
        ("broadcast_multiply_fusion", "other passes"),
        ("pad_fusion", "other passes"),
        ("kernel nvjet_sm90_tss_128x128_64x6_1x2_h_bz_NTT", "products and sums"),
        ("kernel gemm_fusion_dot_general_1044", "products and sums"),
        ("kernel loop_pad_fusion_72", "copies"),
        ("kernel input_reduce_fusion_69", "other passes"),
    ],
)
def test_the_kind_of_an_operation(name, kind):
    assert budget.kind_of(name) == kind


def test_an_instant_belongs_to_all_that_runs_then():
    spans = [(0, 4, "dot.1"), (2, 6, "copy.1"), (8, 10, "add_fusion")]  # of two threads; nothing runs from 6 to 8
    expected = {"products and sums": 0.3, "copies": 0.3, "other passes": 0.2, "between operations": 0.2}
    assert budget.shares(spans) == pytest.approx(expected)


def test_a_trace_has_the_operations_of_a_program(tmp_path):
    x = jnp.ones((256, 256))
    step = jax.jit(lambda x: jnp.tanh(x @ x))
    step(x).block_until_ready()
    with jax.profiler.trace(tmp_path):
        step(x).block_until_ready()
    found = budget.shares(budget.spans_of(tmp_path))
    assert sum(found.values()) == pytest.approx(1)
    assert found["products and sums"] > 0 and found["other passes"] > 0
