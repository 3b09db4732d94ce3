"""Gates on heads and hidden units: scores of their importance, and the model without some of them.

A head adds ``ξ_h · ctx_h W_h`` to its layer, where `ctx_h` `[t k]` is its output, `W_h` its rows of the kernel
``out``, and the gate ξ_h is 1. A hidden unit works the same, with one row of the kernel ``fc2``. So a gate is a
function of the weights, and models need no code for it.
"""

import functools
import itertools

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors, trees
from lwt.layers import linear

KINDS = {"heads": ("out", ("query", "key", "value")), "units": ("fc2", ("fc1",))}  # last kernel, and those before it
OVER = ("examples", "positions")


def prunable(experiment, kind):
    """The modules that can lose "heads" or "units": ``{name: sublayers.Sublayer}``; raises ConfigError for none."""
    model = experiment.model
    every = model.sublayers() if hasattr(model, "sublayers") else {}
    found = {name: part for name, part in every.items() if part.is_attention == (kind == "heads") and part.size}
    can = {name: part for name, part in found.items() if part.prunable}
    if not can:
        why = f"{next(iter(found))} is not softmax attention" if found else "it has none"
        raise errors.ConfigError(
            f"{experiment.workdir}: cannot remove {kind} of model.name={experiment.config.model.name!r}: {why}"
        )
    return can


def kernel_of(name, kind):
    """The name of the last kernel of a module."""
    return f"{name}/{KINDS[kind][0]}/kernel"


def scores(experiment, kind, *, batches, over="examples"):
    """The expected sensitivity of the loss to each gate (Michel et al. 2019, arXiv 1905.10650, equation 2)

        I_h = E_x |∂L(x) / ∂ξ_h| = E_x |Σ_t ⟨∂L/∂ctx_h(t), ctx_h(t)⟩|

    as ``{module: [heads]}``. L(x) is the task's loss of example x, summed over its tokens, without dropout.

    Args:
        batches: evaluation batches, one example per row.
        over: "examples" as in the equation; "positions" moves the sum over t outside the absolute value, as in the
            authors' code for BERT.
    """
    parts = prunable(experiment, kind)

    def total(gates, weights, batch):
        names = {name: kernel_of(name, kind) for name in gates}
        gated = {at: Gated(weights[at], gates[name], over == "positions") for name, at in names.items()}
        apply = functools.partial(experiment.model.apply, {"params": trees.unflatten(weights | gated)})
        return experiment.task.loss(apply, batch, train=False)[0]

    gradient = jax.jit(jax.grad(total))
    sums, examples = {name: np.zeros(part.size) for name, part in parts.items()}, 0
    for batch in batches:
        rows = len(next(iter(batch.values())))
        found = gradient({name: jnp.ones((rows, part.size)) for name, part in parts.items()}, experiment.weights, batch)
        for name, by_row in jax.device_get(found).items():
            sums[name] += np.abs(by_row, dtype=np.float64).sum(0)
        examples += int((batch["example"] >= 0).sum()) if "example" in batch else rows
    if not examples:
        raise errors.DataError(f"no records to score the {kind} on; give another --data or --examples")
    return {name: values / examples for name, values in sums.items()}


def magnitudes(experiment, kind):
    """The Frobenius norm of each head's (or unit's) rows of the last kernel: ``{module: [heads]}``."""
    found = {}
    for name, part in prunable(experiment, kind).items():
        kernel = np.asarray(linear.dense(experiment.weights[kernel_of(name, kind)]))
        found[name] = np.linalg.norm(kernel.reshape(part.size, -1), axis=1)
    return found


def random(experiment, kind, *, seed):
    """Random scores as a baseline: ``{module: [heads]}``, uniform in [0, 1)."""
    generator = np.random.default_rng(seed)
    return {name: generator.random(part.size) for name, part in prunable(experiment, kind).items()}


def normalised(scores):
    """Scores with an L2 norm of 1 in every module, as in the paper (after Molchanov et al. 2017)."""
    return {name: values / max(np.linalg.norm(values), 1e-30) for name, values in scores.items()}


def order(scores):
    """All ``(module, index)`` by ascending score; raises NotFinite for a score without an order."""
    for name, values in scores.items():
        if not np.isfinite(values).all():
            raise errors.NotFinite(f"the scores of {name} are not finite, and so is a loss or a weight of the run")
    every = [(value, name, i) for name, values in scores.items() for i, value in enumerate(values)]
    return [(name, i) for _, name, i in sorted(every)]


def drop(scores, dropped):
    """The mask ``{module: [heads] bool}`` that is False for every ``(module, index)`` in `dropped`."""
    keep = {name: np.ones(len(values), bool) for name, values in scores.items()}
    for name, i in dropped:
        keep[name][i] = False
    return keep


def drop_least(scores, share):
    """The mask (see `drop`) that drops this share of all, those with the lowest scores."""
    ranked = order(scores)
    return drop(scores, itertools.islice(ranked, round(share * len(ranked))))


def masked(weights, keep, *, kind):
    """The weights with gates of 0 where `keep` ``{module: [heads] bool}`` is False, in the same shapes."""
    kernels = {}
    for name, kept in keep.items():
        kernel = linear.dense(weights[kernel_of(name, kind)])
        kernels[kernel_of(name, kind)] = kernel * _rows(kept, kernel.shape[0])[:, None]
    return weights | kernels


def removed(weights, keep, *, kind):
    """The smaller arrays that compute the same function as `masked`, and the model's ``sizes``: ``{module: heads}``."""
    last, first = KINDS[kind]
    weights = dict(weights)
    for name, kept in keep.items():
        if not kept.any():
            bias = f"{name}/{last}/bias"
            weights = {at: w for at, w in weights.items() if not at.startswith(f"{name}/") or at == bias}
            continue
        rows = np.flatnonzero(_rows(kept, weights[kernel_of(name, kind)].shape[0]))
        weights[kernel_of(name, kind)] = weights[kernel_of(name, kind)][rows]
        for at in [f"{name}/{product}/{leaf}" for product in first for leaf in ("kernel", "bias")]:
            if at in weights:
                weights[at] = weights[at][..., rows]
    return weights, {name: int(kept.sum()) for name, kept in keep.items()}


def _rows(kept, rows):
    return np.repeat(kept, rows // len(kept))


@flax.struct.dataclass
class Gated(linear.Node):
    """``(ξ ∘ x) W``: the inputs of a kernel, in groups of equal width, times one gate per group and batch row.

    Attributes:
        base: `[in out]`, an array or another node.
        gates: `[b groups]`.
        each: replaces the gradient of a gate, a sum over positions, by the sum of the absolute values.
    """

    base: jax.Array
    gates: jax.Array
    each: bool = flax.struct.field(pytree_node=False, default=False)

    @property
    def shape(self):
        return self.base.shape

    def matmul(self, x, dtype):
        b, groups = self.gates.shape
        x = x.reshape(b, -1, groups, x.shape[-1] // groups)
        spread = _spread if self.each else _spread_plainly
        return linear.linear((x * spread(self.gates, x.shape[1])).reshape(-1, self.shape[0]), self.base, dtype=dtype)


def _spread_plainly(gates, positions):
    """`[b g] -> [b t g 1]`, the same at every position."""
    return jnp.broadcast_to(gates[:, None, :, None], (gates.shape[0], positions, gates.shape[1], 1))


def _spread_forward(gates, positions):
    return _spread_plainly(gates, positions), None


def _spread_backward(positions, _, cotangent):
    return (jnp.abs(cotangent).sum(axis=(1, 3)),)


_spread = jax.custom_vjp(_spread_plainly, nondiff_argnums=(1,))
_spread.defvjp(_spread_forward, _spread_backward)
