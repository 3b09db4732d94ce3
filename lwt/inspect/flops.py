"""Counts the operations of a compiled function, every round of its loops included."""

import jax
from jax.extend import core
from jax.interpreters import partial_eval


def count(traced, compiled=None):
    """FLOPs: the compiler's count after optimization, plus the rounds of loops that it does not count.

    XLA's cost analysis counts the body of a loop once. A loop whose number of rounds is known (`jax.lax.scan`, `map`,
    `fori_loop` with fixed bounds) is found in the traced function; its body is compiled alone and counted for the other
    rounds. The number of rounds of a `jax.lax.while_loop` is unknown: it counts once.

    Args:
        traced: ``jax.jit(function).trace(*args)``.
        compiled: ``traced.lower().compile()``, if it exists already.
    """
    jaxpr, _ = partial_eval.dce_jaxpr(traced.jaxpr.jaxpr, [True] * len(traced.jaxpr.jaxpr.outvars))
    return _flops(compiled or traced.lower().compile()) + _uncounted(jaxpr)


def _flops(compiled):
    return compiled.cost_analysis().get("flops", 0.0)


def _uncounted(jaxpr):
    """Operations in all but the first round of the loops of a jaxpr, at any depth."""
    total = 0.0
    for equation in jaxpr.eqns:
        inner = [part for part in jax.tree.leaves(list(equation.params.values())) if _is_jaxpr(part)]
        within = sum(_uncounted(getattr(part, "jaxpr", part)) for part in inner)
        rounds = equation.params["length"] if equation.primitive.name == "scan" else 1
        total += rounds * within
        if rounds > 1:
            body = jax.jit(core.jaxpr_as_fun(equation.params["jaxpr"]))
            total += (rounds - 1) * _flops(body.lower(*equation.params["jaxpr"].in_avals).compile())
    return total


def _is_jaxpr(part):
    return isinstance(part, core.Jaxpr | core.ClosedJaxpr)
