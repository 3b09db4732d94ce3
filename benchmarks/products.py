"""Compares the speed of a linear layer's products in lwt, compiled by XLA, and in PyTorch.

GFLOP/s on the CPU of the three products of a training step, for ``x [n in]`` and ``w [in out]``: "forward" is ``x w``,
"input" the gradient ``dy wᵀ``, and "weight" the gradient ``xᵀ dy``. lwt computes them as `layers/linear.py` does. All
take turns; the figures are medians over the rounds.
"""

import jax
import torch

from benchmarks import common, parsing
from lwt.layers import linear
from lwt.machine import command_line, hardware, latency, memory
from lwt.report import results

SHAPES = "512x128x3128,1792x128x128,1792x128x512,1792x512x128,8192x256x1024"
EXAMPLES = (
    "python -m benchmarks.products",
    "python -m benchmarks.products --dtype=bfloat16 --shapes=512x128x3128 --rounds=21",
)
REPEATS = 5  # products per turn
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def products(n, inputs, outputs, *, dtype):
    """``{name: function}`` of the six products; each returns its result when it is ready."""
    sizes = (n, inputs), (inputs, outputs), (n, outputs)
    x, w, dy = (jax.random.normal(jax.random.key(number), size) for number, size in enumerate(sizes))
    tx, tw, tdy = (torch.from_dlpack(a).to(DTYPES[dtype]) for a in (x, w, dy))

    def forward(x, w):
        return linear.linear(x, w, dtype=dtype)

    own = {
        "forward": (forward, x, w),
        "input": (lambda dy, w: jax.vjp(lambda x: forward(x, w), x)[1](dy)[0], dy, w),
        "weight": (lambda dy, x: jax.vjp(lambda w: forward(x, w), w)[1](dy)[0], dy, x),
    }
    theirs = {"forward": (tx, tw), "input": (tdy, tw.T), "weight": (tx.T, tdy)}

    def compiled(product, a, b):
        product = jax.jit(product)
        return lambda: jax.block_until_ready(product(a, b))

    calls = {f"lwt, {name}": compiled(*given) for name, given in own.items()}
    return calls | {f"PyTorch, {name}": lambda pair=pair: torch.mm(*pair) for name, pair in theirs.items()}


def table(shapes, *, dtype, rounds):
    """The Markdown table of GFLOP/s, a line for each of the `shapes` ``(n, in, out)``."""
    header, body = [], []
    for n, inputs, outputs in shapes:
        calls = products(n, inputs, outputs, dtype=dtype)
        repeated = {name: lambda call=call: [call() for _ in range(REPEATS)] for name, call in calls.items()}
        seconds = latency.interleaved(repeated, rounds=rounds)
        header = ["n x in x out", *seconds]
        operations = 2 * n * inputs * outputs * REPEATS
        body.append([f"{n}x{inputs}x{outputs}", *(f"{operations / own / 1e9:,.0f}" for own in seconds.values())])
    return results.markdown(header, body)


def main():
    parser = parsing.Parser(__doc__, examples=EXAMPLES)
    parser.add_argument(
        "--shapes", type=parsing.several(parsing.product), default=SHAPES, help="n x in x out of products"
    )
    parser.add_argument("--dtype", choices=list(DTYPES), default="float32", help="dtype of the operands")
    parser.add_argument("--rounds", type=parsing.whole(1), default=21, help="number of turns")
    flags = parser.parse_args()
    memory.tune()
    torch.set_num_threads(common.THREADS)
    found = table(flags.shapes, dtype=flags.dtype, rounds=flags.rounds)
    print(f"GFLOP/s in {flags.dtype} on {hardware.describe()}.\n\n{found}")


if __name__ == "__main__":
    with command_line.guarded():
        main()
