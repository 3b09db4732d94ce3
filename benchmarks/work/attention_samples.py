"""The input of the attention benchmark: one layer's input and the gradient of its output, equal for every variant.

The numbers are random: their values do not affect the time of a step. Imports neither PyTorch nor JAX.
"""

import time

import numpy as np

PASSES = ("forward", "forward_backward")  # the second gives the gradients of the input and of all weights


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
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--passes", default=",".join(PASSES), help="passes to measure")
    parser.add_argument("--memory_limit", type=float, default=float("inf"), help="bytes that a pass may need")
    add_sizes(parser)


def add_sizes(parser):
    """Adds the flags for the size of the attention."""
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--reach", type=int, default=128, help="window, block or landmarks")
    parser.add_argument("--causal", action="store_true", help="every position sees only itself and earlier ones")
