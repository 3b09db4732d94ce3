"""Settings and steps of every training worker in PyTorch."""

import itertools

import torch

from benchmarks import common

SUFFIXES = ("", "+compiled", "+bf16", "+compiled+bf16")
BLOCKED = -1e9  # added to the attention logits of hidden positions


def start_torch():
    """Sets the threads and the seed of a PyTorch worker."""
    torch.set_num_threads(common.THREADS)
    torch.manual_seed(0)
    torch.set_flush_denormal(True)


def runner(loss_of, optimizer, work, *, bf16=False):
    """``run(k)`` for `common.serve`: k training steps.

    Args:
        loss_of: ``loss_of(item)``, the loss of an item of work.
        work: ``(item, counts)`` of each batch; steps cycle through them.
        bf16: whether the loss is computed under autocast.
    """
    work = itertools.cycle(work)

    def run(steps):
        totals = {}
        for item, counts in itertools.islice(work, steps):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                loss = loss_of(item)
            loss.backward()
            optimizer.step()
            totals = {name: totals.get(name, 0) + count for name, count in counts.items()}
        return totals | {"loss": loss.item()}

    return run
