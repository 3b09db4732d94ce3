"""The input of the attention benchmark: one layer's input and the gradient of its output, equal for every variant.

The numbers are random: their values do not affect the time of a step. Imports neither PyTorch nor JAX.
"""

import time

import numpy as np

from benchmarks import parsing

PASSES = ("forward", "forward_backward")  # the second gives the gradients of the input and of all weights
TORCH_VARIANTS = ("sdpa", "sdpa+compiled")  # of `benchmarks/torch/attention.py`


def arrays(flags):
    """Input x and the gradient of the output, float32 `[batch length width]`."""
    random = np.random.default_rng(0)
    shape = (flags.batch, flags.length, flags.width)
    return tuple(random.standard_normal(shape, np.float32) for _ in range(2))


def seconds(run, name):
    """Times one step of a pass."""
    start = time.perf_counter()
    run(1, of=name)
    return time.perf_counter() - start


def add_flags(parser):
    """Adds the flags of the workers."""
    parser.add_argument("--length", type=parsing.whole(1), required=True, help="number of positions")
    parser.add_argument("--passes", default=",".join(PASSES), help="passes to measure")
    parser.add_argument(
        "--memory_limit", type=parsing.real(0), default=float("inf"), help="bytes that a pass may need; default: any"
    )
    add_sizes(parser)


def add_sizes(parser):
    """Adds the flags for the size of the attention."""
    parser.add_argument("--width", type=parsing.whole(1), default=512, help="of the model")
    parser.add_argument("--heads", type=parsing.whole(1), default=8, help="of the attention; they divide the width")
    parser.add_argument("--batch", type=parsing.whole(1), default=1, help="number of sequences")
    parser.add_argument("--reach", type=parsing.whole(1), default=128, help="window, block or landmarks")
    parser.add_argument("--causal", action="store_true", help="every position sees only itself and earlier ones")


def check_sizes(parser, flags):
    """Refuses heads that do not divide the width."""
    if flags.width % flags.heads:
        parser.error(f"--width={flags.width} is not divisible by --heads={flags.heads}")
