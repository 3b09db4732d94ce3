"""Approximate gradients of attention: their error for each largest logit, and their cost for each length.

    python -m studies.approximate_gradients.gradients --out=docs/results/approximate_gradients
    python -m studies.approximate_gradients.gradients --out=... --parts=cost --lengths=512,1024 --head_widths=8

Errors: queries, keys, values and the output's gradient are drawn from the standard normal distribution, 256 positions
of width 8, in float64; queries and keys are then scaled until the largest logit has a given value. An error is
``‖dQ̃ − dQ‖ / ‖dQ‖`` with the exact dQ of a direct computation. Cost: forward and backward of eight heads of one
text, float32, against softmax attention; the compiler counts the temporaries.

Rows are added to ``results.json`` and replace those that measured the same; the page shows all rows.
"""

import functools
import math
import pathlib
import statistics
import time

import jax
import numpy as np
from absl import flags

from lwt import errors
from lwt.attention.parts import blockwise, core, polynomial
from lwt.machine import command_line, hardware
from lwt.report import pages, results
from studies.approximate_gradients import gradients_report

DEGREES = (1, 2, 3, 4, 5)
LENGTH, WIDTH = 256, 8  # of the errors
HEADS, BLOCK = 8, 256  # of the costs
PARTS = ("errors", "cost")


def draw(seed):
    """``(q, k, v, d_output)``, each `[1 1 t k]`, all standard normal; q is scaled."""
    generator = np.random.default_rng(seed)
    q, k, v, d_output = (generator.standard_normal((1, 1, LENGTH, WIDTH)) for _ in range(4))
    return q / math.sqrt(WIDTH), k, v, d_output


def exact_d_q(q, k, *, v, d_output):
    """The gradient of softmax attention by its formula, with all arrays `[t s]`."""
    weights = np.exp(q @ k.swapaxes(2, 3))
    weights /= weights.sum(-1, keepdims=True)
    delta = (d_output * (weights @ v)).sum(-1, keepdims=True)
    return (weights * (d_output @ v.swapaxes(2, 3) - delta)) @ k


def measure_errors(largest, *, seeds=5, degrees=DEGREES):
    """``{(degree, largest logit, seed): relative error of dQ}``.

    Args:
        largest: the largest logits.
    """
    cases = [(bound, seed) for bound in largest for seed in range(seeds)]
    q, k, v, d_output = (np.concatenate(x) for x in zip(*[_scaled(draw(seed), bound) for bound, seed in cases]))
    exact = exact_d_q(q, k, v=v, d_output=d_output)
    found = {}
    with jax.enable_x64(True):
        for degree in degrees:
            one = functools.partial(polynomial.attention, degree=degree, exact_forward=False, dtype="float64")
            back = jax.jit(lambda q, k, v, d, one=one: jax.vjp(lambda *x: one(*x, v=v), q, k)[1](d)[0])
            d_q = np.asarray(back(q, k, v, d_output))
            for (bound, seed), ours, theirs in zip(cases, d_q, exact):
                found[degree, bound, seed] = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
    return found


def _scaled(arrays, largest):
    q, k, *others = arrays
    root = math.sqrt(largest / np.abs(q @ k.swapaxes(2, 3)).max())
    return root * q, root * k, *others


def attentions(degrees):
    """``{variant: function of q, k and v=}`` whose costs are compared."""
    found = {
        "softmax": core.attend,
        "softmax in blocks": functools.partial(blockwise.attention, block=BLOCK),
    }
    for degree in degrees:
        for exact in (True, False):
            name = f"degree {degree}, exact forward" if exact else f"degree {degree}"
            found[name] = functools.partial(polynomial.attention, degree=degree, exact_forward=exact, block=BLOCK)
    return found


def cost(attention, length, *, width, repeats=3):
    """``{"milliseconds", "temporary_megabytes"}`` of forward and backward: the median time, after one to warm up."""
    q, k, v, d_output = (
        jax.random.normal(jax.random.key(i), (1, HEADS, length, width)) * (0.3 if i < 2 else 1) for i in range(4)
    )
    both = jax.value_and_grad(lambda q, k, v: (attention(q, k, v=v) * d_output).sum(), (0, 1, 2))
    compiled = jax.jit(both).lower(q, k, v).compile()
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        jax.block_until_ready(compiled(q, k, v))
        times.append(1e3 * (time.perf_counter() - begin))
    megabytes = compiled.memory_analysis().temp_size_in_bytes / 1e6
    return {"milliseconds": statistics.median(times[1:]), "temporary_megabytes": megabytes}


def numbers(text, *, flag):
    """The whole numbers of a list like "512,1024".

    Raises:
        lwt.errors.ConfigError: it holds something else.
    """
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise errors.ConfigError(f"--{flag}={text!r} should be whole numbers above 0, with commas between them")
    return found


def main():
    """The program: measures the parts asked for, then writes the page."""
    values = flags.FLAGS
    parts = values.parts.split(",") if not values.report_only else []
    for part in parts:
        if part not in PARTS:
            raise errors.ConfigError(f"--parts={values.parts}: {errors.suggest(part, PARTS)}")
    lengths, widths, degrees = (
        numbers(getattr(values, name), flag=name) for name in ("lengths", "head_widths", "degrees")
    )
    path = pathlib.Path(values.out) / "results.json"
    fixed = {"config": "lwt/attention/parts/polynomial.py", "split": "standard normal", "paper": None}
    fixed |= {"hardware": hardware.describe(), "command": pages.command_line()}

    def keep(overrides, *, seed, metric, value, seconds):
        row = {"overrides": overrides, "seed": seed, "metric": metric, "value": value, "seconds": round(seconds, 3)}
        results.append(path, fixed | row)

    if "errors" in parts:
        largest = sorted({*gradients_report.REFERENCE, *np.geomspace(0.1, 12, values.points).round(3).tolist()})
        begin = time.perf_counter()
        found = measure_errors(largest, seeds=values.seeds)
        seconds = (time.perf_counter() - begin) / len(found)
        for (degree, bound, seed), error in found.items():
            overrides = {"degree": degree, "largest": bound}
            keep(overrides, seed=seed, metric=gradients_report.ERROR, value=error, seconds=seconds)
    if "cost" in parts:
        for width in widths:
            for length in lengths:
                for name, attention in attentions(degrees).items():
                    if name == "softmax" and length > values.largest_square:
                        continue
                    begin = time.perf_counter()
                    found = cost(attention, length, width=width, repeats=values.repeats)
                    overrides = {"variant": name, "head_width": width, "length": length}
                    for metric, value in found.items():
                        seconds = time.perf_counter() - begin
                        keep(overrides, seed=None, metric=metric, value=value, seconds=seconds)
    gradients_report.write(values.out)


if __name__ == "__main__":
    flags.DEFINE_string("out", None, "Folder of the page.")
    flags.DEFINE_string("parts", "errors,cost", "What to measure: errors, cost.")
    flags.DEFINE_integer("seeds", 5, "Number of draws behind every error.", lower_bound=1)
    flags.DEFINE_integer(
        "points", 10, "How many largest logits between 0.1 and 12, besides the three of the table.", lower_bound=2
    )
    flags.DEFINE_string("lengths", "512,1024,2048,4096,8192,16384", "Lengths at which the cost is measured.")
    flags.DEFINE_string("head_widths", "8,16", "Head widths at which the cost is measured.")
    flags.DEFINE_string("degrees", "1,2,3", "Degrees whose cost is measured.")
    flags.DEFINE_integer(
        "largest_square", 4096, "The longest length for softmax that keeps its whole array.", lower_bound=1
    )
    flags.DEFINE_integer("repeats", 3, "Timed runs of each measurement.", lower_bound=1)
    pages.define_report_only()
    command_line.run(main, required=["out"])
