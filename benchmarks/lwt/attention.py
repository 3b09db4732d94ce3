"""Runs one of lwt's attentions, forward and backward: ``--variant=`` a name of `studies/attention/variants.py`.

A step computes ``y = attention(x)``, and the gradients of x and of all weights for a given gradient of y. FLOPs are
those of the compiled program. Memory is the growth of the process in its first step: the compiler's plan leaves out
what XLA's library for products allocates (in a forward pass the weights `[t s]` of all heads). A program whose plan
exceeds ``--memory_limit`` is not run.
"""

import jax
import jax.numpy as jnp

from benchmarks import common
from benchmarks.work import attention_samples
from lwt import trees
from lwt.attention.parts import masks
from lwt.inspect import flops
from lwt.machine import command_line
from studies.attention import variants

VARIANTS = variants.names()


def make(variant, flags):
    """``(module, weights)`` of a variant."""
    sections = variants.sections(flags.width // flags.heads, length=flags.length, reach=flags.reach)
    module = variants.maker(sections[variant])(width=flags.width, heads=flags.heads)
    example = jnp.ones((1, min(flags.length, 8), flags.width))
    return module, module.init(jax.random.key(0), example)["params"]


def functions(module, *, causal):
    """``{pass: function of (weights, x, gradient of y)}``."""
    mask = masks.Mask(causal=True) if causal else None

    def forward(weights, x, d_y):
        del d_y
        return module.apply({"params": weights}, x, None, mask)

    def forward_backward(weights, x, d_y):
        y, back = jax.vjp(lambda *inputs: forward(*inputs, d_y), weights, x)
        return y, *back(d_y)

    return {"forward": forward, "forward_backward": forward_backward}


def prepare(variant, flags):
    """``(run, facts, weights)``: see `common.serve`; facts are ``{pass: {"peak_bytes", "flops", "seconds"}}``.

    A pass that would need too much memory has no seconds.
    """
    module, weights = make(variant, flags)
    arguments = (weights, *map(jnp.asarray, attention_samples.arrays(flags)))
    ready, facts = {}, {}
    for name in flags.passes.split(","):
        traced = jax.jit(functions(module, causal=flags.causal)[name]).trace(*arguments)
        compiled = traced.lower().compile()
        needed = compiled.memory_analysis()
        planned = needed.temp_size_in_bytes + needed.output_size_in_bytes
        facts[name] = {"peak_bytes": planned, "flops": flops.count(traced, compiled)}
        if planned <= flags.memory_limit:
            ready[name] = compiled

    def run(steps, *, of="forward"):
        for _ in range(steps):
            jax.block_until_ready(ready[of](*arguments))
        return {}

    before = common.forget_peak()
    for name in ready:  # forward first: the process keeps its memory, and the other pass needs at least as much
        run(1, of=name)
        facts[name]["peak_bytes"] = max(common.peak_bytes() - before, facts[name]["peak_bytes"])
        facts[name]["seconds"] = attention_samples.seconds(run, name)
    return run, facts, trees.count(weights)


def main():
    flags = common.arguments(__doc__, VARIANTS, data="random", more=attention_samples.add_flags)
    run, facts, count = prepare(flags.variant, flags)
    common.serve(run, parameters=count, warmup=0, passes=facts)


if __name__ == "__main__":
    with command_line.guarded():
        main()
