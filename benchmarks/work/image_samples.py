"""The work of the image benchmark: 64 images of 32 × 32 pixels in 10 classes per batch, the same for every variant.

The images are random: their content does not affect the time of a step. Imports neither PyTorch nor JAX.
"""

import numpy as np

from configs import vlora_cifar10

DATA = "random"
ROWS, SIZE, CHANNELS, CLASSES = 64, 32, 3, 10


def batches(*, count, rows=ROWS):
    """`count` training batches, in lwt's form: ``image`` uint8, ``label`` and ``weight``."""
    random = np.random.default_rng(0)
    return [
        {
            "image": random.integers(0, 256, (rows, SIZE, SIZE, CHANNELS), np.uint8),
            "label": random.integers(0, CLASSES, rows, np.int32),
            "weight": np.ones(rows, np.float32),
        }
        for _ in range(count)
    ]


def counts(batch):
    """What a step over this batch counts."""
    return {"examples": len(batch["label"])}


def add_size(parser):
    """Adds the flag ``--size`` of configs/vlora_cifar10.py."""
    parser.add_argument("--size", default="paper", choices=sorted(vlora_cifar10.SIZES))
