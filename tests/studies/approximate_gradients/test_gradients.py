"""The study of approximate gradients: small, from the measurements to the page."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.attention.parts import core
from lwt.report import results
from studies.approximate_gradients import gradients, gradients_report


def row(metric, value, overrides, seed=None):
    fixed = {"config": "-", "split": "-", "paper": None, "hardware": "one core", "seconds": 0.0, "command": "-"}
    return fixed | {"metric": metric, "value": value, "overrides": overrides, "seed": seed}


def test_errors_are_near_the_reference_and_grow_with_the_logits():
    found = gradients.measure_errors([0.38, 5.68], seeds=2, degrees=(1, 2))
    assert {*found} == {(degree, x, seed) for degree in (1, 2) for x in (0.38, 5.68) for seed in (0, 1)}
    for (degree, largest, _), error in found.items():
        reference = gradients_report.REFERENCE[largest][degree - 1]
        assert reference / 2 < error < reference * 2


def test_the_exact_gradient_is_that_of_softmax_attention():
    q, k, v, d_output = gradients.draw(0)
    q32, k32, v32, d_output32 = (jnp.asarray(x, jnp.float32) for x in (q, k, v, d_output))
    expected = jax.vjp(lambda q: core.attend(q, k32, v=v32), q32)[1](d_output32)
    np.testing.assert_allclose(gradients.exact_d_q(q, k, v=v, d_output=d_output), expected[0], atol=2e-5)


def test_costs_are_measured():
    variants = gradients.attentions((1,))
    assert list(variants) == ["softmax", "softmax in blocks", "degree 1, exact forward", "degree 1"]
    found = gradients.cost(variants["degree 1"], 64, width=4, repeats=1)
    assert found["milliseconds"] > 0 and found["temporary_megabytes"] > 0


def test_reach_lies_where_the_error_crosses_the_tolerance():
    points = {x: 0.2 * x**3 for x in (0.25, 0.5, 1.0, 2.0)}  # a line in logarithms
    assert gradients_report.reach(points, 0.05) == pytest.approx(0.25 ** (1 / 3))
    assert gradients_report.reach(points, 1e-9) is gradients_report.reach(points, 1e9) is None


def test_the_page_says_what_the_rows_say(tmp_path):
    rows = [
        row(gradients_report.ERROR, error * (1 + 0.1 * (2 * seed - 1)), {"degree": degree, "largest": x}, seed)
        for x, line in gradients_report.REFERENCE.items()
        for degree, error in enumerate(line, 1)
        for seed in (0, 1)
    ]
    times = {"softmax in blocks": (1.0, 4.0, 16.0), "degree 2": (2.0, 4.0, 8.0)}
    for metric in gradients_report.COSTS:
        for variant, line in times.items():
            for n, value in zip((256, 512, 1024), line):
                rows.append(row(metric, value, {"variant": variant, "head_width": 8, "length": n}))
    results.write(tmp_path / "results.json", rows)
    assert "README.md" in gradients_report.write(tmp_path)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| 2 | 3.7e-04 / 3.7e-04 | 2.3e-02 / 2.3e-02 | 0.46 / 0.46 |" in page
    assert "| softmax in blocks | 1.0 | 4.0 | 16.0 | 2.00 |" in page and "| degree 2 | 2.0 | 4.0 | 8.0 | 1.00 |" in page
    assert "- degree 2: faster than softmax in blocks from n = 512 on." in page
    for name in ("errors.png", "time_8.png", "memory_8.png"):
        assert name in page and (tmp_path / name).stat().st_size > 10_000


@pytest.mark.parametrize("text", ["", "a", "8,", "0,8"])
def test_lists_of_numbers_are_checked(text):
    assert gradients.numbers("8,16", flag="lengths") == [8, 16]
    with pytest.raises(errors.ConfigError, match="--lengths"):
        gradients.numbers(text, flag="lengths")
