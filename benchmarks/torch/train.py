"""Settings and steps of every training worker in PyTorch."""

import itertools

import torch

from benchmarks import common

SUFFIXES = ("", "+compiled", "+bf16", "+compiled+bf16", "+graphs+bf16")  # graphs: on a GPU alone
BLOCKED = -1e4  # added to the attention logits of hidden positions; larger numbers absorb the logits on a GPU


def start_torch(device="cpu"):
    """Sets the device, the threads and the seed of a PyTorch worker; `device` is one of `common.DEVICES`.

    Models and batches are made on a default device. Steps run without one (`made`), since it slows each operation.
    """
    torch.set_default_device("cuda" if device == "gpu" else "cpu")
    torch.set_num_threads(common.THREADS)
    torch.manual_seed(0)
    torch.set_flush_denormal(True)


def tensor(array):
    """A NumPy array on the worker's device."""
    return torch.from_numpy(array).to(torch.get_default_device())


def made():
    """Ends the use of a default device; models and batches are made."""
    torch.set_default_device(None)


def peak_bytes():
    """The peak memory so far in bytes: of PyTorch's allocator on the GPU, or of this process."""
    return torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else common.peak_bytes()


def autocast(*, bf16):
    """Operands of products in bfloat16, or everything as it is stored."""
    return torch.autocast("cuda" if torch.cuda.is_initialized() else "cpu", torch.bfloat16, enabled=bf16)


def compiled(function, chosen, **settings):
    """`function` through `torch.compile`, if the options `chosen` by a variant say so.

    "graphs" also records what is compiled as CUDA graphs: each is launched as a whole. On a CPU, PyTorch's own random
    bits are faster than what the compiler would generate.
    """
    if "graphs" in chosen:
        settings["options"] = {"triton.cudagraphs": True}
    elif not torch.cuda.is_initialized():
        settings["options"] = {"fallback_random": True}
    return torch.compile(function, **settings) if {"compiled", "graphs"} & {*chosen} else function


def runner(loss_of, optimizer, work, *, bf16=False):
    """``run(k)`` for `common.serve`: k training steps.

    Args:
        loss_of: ``loss_of(item)``, the loss of an item of work.
        work: ``(item, counts)`` of each batch; steps cycle through them.
        bf16: whether the loss is computed under autocast.
    """
    work = itertools.cycle(work)
    made()

    def run(steps):
        totals = {}
        for item, counts in itertools.islice(work, steps):
            torch.compiler.cudagraph_mark_step_begin()
            optimizer.zero_grad(set_to_none=True)
            with autocast(bf16=bf16):
                loss = loss_of(item)
            loss.backward()
            optimizer.step()
            totals = {name: totals.get(name, 0) + count for name, count in counts.items()}
        return totals | {"loss": loss.item()}

    return run
