"""Runs multi-head attention in PyTorch, forward and backward: ``--variant=sdpa[+compiled]``.

One product for query, key and value, then `scaled_dot_product_attention` and the output's product. "compiled" puts all
of it through `torch.compile`. Memory is the peak of PyTorch's allocator in a step, less what it held before.
"""

import torch
from torch import profiler

from benchmarks import common
from benchmarks.torch import train, vit
from benchmarks.work import attention_samples
from lwt.machine import command_line

VARIANTS = attention_samples.TORCH_VARIANTS


def prepare(variant, flags):
    """``(run, facts, weights)``, as in `benchmarks/lwt/attention.py`."""
    module = vit.Attention(flags.width, flags.heads, causal=flags.causal)
    attend = torch.compile(module) if "compiled" in variant else module
    x, d_y = map(torch.from_numpy, attention_samples.arrays(flags))
    x.requires_grad_()

    def forward():
        with torch.no_grad():
            return attend(x)

    def forward_backward():
        y = attend(x)
        y.backward(d_y)
        kept = y, x.grad, [weight.grad for weight in module.parameters()]
        for leaf in (x, *module.parameters()):
            leaf.grad = None
        return kept

    passes = {"forward": forward, "forward_backward": forward_backward}

    def run(steps, *, of="forward"):
        for _ in range(steps):
            passes[of]()
        return {}

    facts = {}
    for name in flags.passes.split(","):
        run(1, of=name)
        facts[name] = {"seconds": attention_samples.seconds(run, name), "peak_bytes": peak_bytes(passes[name])}
    return run, facts, sum(weight.numel() for weight in module.parameters())


def peak_bytes(step):
    """Peak bytes of PyTorch's allocator during a call, less what it held before."""
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True) as profiled:
        step()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def main():
    flags = common.arguments(__doc__, VARIANTS, data="random", more=attention_samples.add_flags)
    train.start_torch()
    run, facts, count = prepare(flags.variant, flags)
    common.serve(run, parameters=count, warmup=0, passes=facts)


if __name__ == "__main__":
    with command_line.guarded():
        main()
