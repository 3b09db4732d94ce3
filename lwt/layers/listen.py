"""Listens to the modules of a model while it runs: records their inputs and outputs, or replaces their calls.

Flax hands every method call of a module to an interceptor. Under `jax.jit` the recorded values are tracers: the jitted
function must return them, and the compiler drops whatever the result does not need.
"""

import collections
import contextlib
import re

import flax.linen as nn
import jax
import jax.numpy as jnp

from lwt import trees
from lwt.layers import linear

OF_SOURCE = r"(encoder/.*|.*cross_attention/(key|value)/.*)"  # weights that read the source side of pairs


def intercept(answer, *, classes=nn.Module, method="__call__"):
    """A context in which `answer` handles the calls of one method of some modules.

    Args:
        answer: ``answer(name, module, call, args, kwargs) -> output``. `name` is the module's path, such as
            "encoder/layer_0/mlp/fc1", and `call` the module's own method, without the module.
        classes: a class or a tuple of classes; modules of other classes are called as usual.
    """

    def interceptor(call, args, kwargs, context):
        if context.method_name == method and isinstance(context.module, classes):
            return answer("/".join(context.module.path), context.module, call, args, kwargs)
        return call(*args, **kwargs)

    return nn.intercept_methods(interceptor)


@contextlib.contextmanager
def record(wanted, keep, *, classes=nn.Module, method="__call__"):
    """Yields ``{name: [one value per call]}``, which fills while models are applied in this context.

    Args:
        wanted: ``wanted(name) -> bool``.
        keep: ``keep(args, output)``, the value to record.
    """
    calls = collections.defaultdict(list)

    def answer(name, module, call, args, kwargs):
        del module
        output = call(*args, **kwargs)
        if wanted(name):
            calls[name].append(keep(args, output))
        return output

    with intercept(answer, classes=classes, method=method):
        yield calls


def inputs(model, weights, *, batch, names, method=None):
    """The inputs ``{name: x [... in]}`` of the linear layers whose kernels have these `names`, in evaluation.

    Of a layer that others share, they are those of its last call.

    Args:
        model: a linen module that takes ``(batch, train=False)``.
        names: such as "encoder/layer_0/mlp/fc2/kernel". The result omits kernels outside `linear.Linear`.
        method: of the model, instead of its call: "hidden_states" computes positions that an answer does not need.
    """
    return {name: values[-1] for name, values in _calls(model, weights, batch, names=names, method=method).items()}


def _calls(model, weights, batch, *, names, method):
    """``{name: [input of each call]}``; a layer that others share is called several times."""
    names = set(names)
    with record(lambda name: f"{name}/kernel" in names, lambda args, _: args[0], classes=linear.Linear) as calls:
        model.apply({"params": trees.unflatten(weights)}, batch, train=False, method=method)
    return {f"{name}/kernel": values for name, values in calls.items()}


def summaries(model, weights, *, batches, names, summary, method=None):
    """Yields ``(batch, {name: summary})`` of the inputs of linear layers, per batch, from one compiled function.

    Args:
        summary: ``summary(x, real)``, computed on the device: of an input `[... in]`, and of `real`. The inputs of a
            layer that others share are one after the other along the first axis.
        method: see `inputs`.
    """

    @jax.jit
    def of_batch(weights, batch):
        return {
            name: summary(*map(jnp.concatenate, zip(*((x, real(name, batch, x=x)) for x in calls), strict=True)))
            for name, calls in _calls(model, weights, batch, names=names, method=method).items()
        }

    for batch in batches:
        yield batch, jax.device_get(of_batch(weights, batch))


def side(name, batch):
    """The batch keys of the tokens and segments `[b t]` that the weight `name` reads; None for images."""
    if "segments" in batch:
        return "ids", "segments"
    if "source_segments" in batch:
        of_source = re.fullmatch(OF_SOURCE, name)
        return ("source", "source_segments") if of_source else ("inputs", "target_segments")
    return None


def real(name, batch, *, x):
    """Marks the entries of an input `x` `[... in]` of the weight `name` that are tokens, not padding: bool `[...]`.

    For images, and for inputs without an axis of positions, all entries of a row are real unless the row is filler. If
    x and the batch differ in their rows, all entries are real.
    """
    keys = side(name, batch)
    if keys and x.shape[:-1] == batch[keys[1]].shape:
        return batch[keys[1]] > 0
    rows = batch["example"] >= 0
    if len(rows) != x.shape[0]:
        return jnp.ones(x.shape[:-1], bool)
    return jnp.broadcast_to(rows.reshape(-1, *[1] * (x.ndim - 2)), x.shape[:-1])
