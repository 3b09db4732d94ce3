"""Compares the time of integer and float products on this device.

Milliseconds of one product ``x [n in] @ w [in out]``, as `layers/linear.py` runs it: of floats; of floats with int8
weights (one scale per output); and of integers, with the rounding of x and without it ("product alone"). All take
turns; the figures are medians over the rounds.
"""

import jax

from benchmarks import parsing
from lwt.layers import linear, quantized_weight
from lwt.machine import command_line, hardware, latency
from lwt.report import results

SHAPES = "1x512x2048,64x128x512,1024x128x128,1024x512x128,4096x256x1024"
EXAMPLES = (
    "python -m benchmarks.integers",
    "python -m benchmarks.integers --shapes=1024x512x128,64x128x512 --rounds=21",
)
REPEATS = 20  # products per turn


def calls(n, inputs, outputs):
    """``{name: function}`` of the ways to multiply; each runs `REPEATS` products and waits for them."""
    x = jax.random.normal(jax.random.key(0), (n, inputs))
    w = jax.random.normal(jax.random.key(1), (inputs, outputs))
    node = quantized_weight.quantize(w, block=0)
    integers = node.replace(integer_inputs=True)
    units, _ = quantized_weight.to_integers(x)
    products = {
        "float32": (linear.linear, x, w),
        "bfloat16": (lambda x, w: linear.linear(x, w, dtype="bfloat16"), x, w),
        "int8 weights": (linear.linear, x, node),
        "int8 weights, bfloat16": (lambda x, w: linear.linear(x, w, dtype="bfloat16"), x, node),
        "integers": (linear.linear, x, integers),
        "product alone": (quantized_weight.dot_integers, units, node.values),
    }

    def repeated(product, x, w):
        product = jax.jit(product)
        return lambda: jax.block_until_ready([product(x, w) for _ in range(REPEATS)])

    return {name: repeated(*given) for name, given in products.items()}


def table(shapes, *, rounds):
    """The Markdown table of milliseconds, a line for each of the `shapes` ``(n, in, out)``."""
    header, body = [], []
    for shape in shapes:
        seconds = latency.interleaved(calls(*shape), rounds=rounds)
        header = ["n x in x out", *seconds]
        body.append(["x".join(map(str, shape)), *(f"{1e3 * own / REPEATS:.3f}" for own in seconds.values())])
    return results.markdown(header, body)


def main():
    parser = parsing.Parser(__doc__, examples=EXAMPLES)
    parser.add_argument(
        "--shapes", type=parsing.several(parsing.product), default=SHAPES, help="n x in x out of products"
    )
    parser.add_argument("--rounds", type=parsing.whole(1), default=7, help="number of turns")
    flags = parser.parse_args()
    print(f"Milliseconds of a product on {hardware.describe()}.\n\n{table(flags.shapes, rounds=flags.rounds)}")


if __name__ == "__main__":
    with command_line.guarded():
        main()
