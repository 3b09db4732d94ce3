"""What the linear layers of a model read, by their names, from the ordinary code of the model."""

import re

import flax.linen as nn
import jax.numpy as jnp

from lwt import trees
from lwt.layers import linear

OF_SOURCE = r"(encoder/.*|.*cross_attention/(key|value)/\w+)"  # weights that meet the source side of a batch of pairs


def inputs(model, weights, batch, names):
    """``{name: x [... in]}`` of the linear layers whose kernels have these `names`, in evaluation.

    The layers' calls are intercepted while the model is applied; nothing of it stays behind. In a jitted function that
    returns less, the compiler leaves out what is not needed for it, such as the logits.

    Args:
        model: a linen module that takes ``(batch, train=False)``.
        weights: flat dict.
        names: of kernels, such as "encoder/layer_0/mlp/fc2/kernel"; those of other modules than `linear.Linear` are
            not found.
    """
    wanted, found = set(names), {}

    def listen(call, args, kwargs, context):
        name = "/".join([*context.module.path, "kernel"])
        if isinstance(context.module, linear.Linear) and context.method_name == "__call__" and name in wanted:
            found[name] = args[0]
        return call(*args, **kwargs)

    with nn.intercept_methods(listen):
        model.apply({"params": trees.unflatten(weights)}, batch, train=False)
    return found


def side(name, batch):
    """The keys of a batch whose tokens and segments `[b t]` belong to what the weight `name` reads; None for images."""
    if "segments" in batch:
        return "ids", "segments"
    if "source_segments" in batch:
        of_source = re.fullmatch(OF_SOURCE, name)
        return ("source", "source_segments") if of_source else ("inputs", "target_segments")
    return None


def real(name, batch, x):
    """Whether an input `x` of the weight `name` belongs to a token and no padding, in the shape of x but for its last
    axis; of images, and of what has no axis of positions, whether the row is no filler (if x has the batch's rows)."""
    keys = side(name, batch)
    if keys and x.shape[:-1] == batch[keys[1]].shape:
        return batch[keys[1]] > 0
    rows = batch["example"] >= 0
    if len(rows) != x.shape[0]:
        return jnp.ones(x.shape[:-1], bool)
    return jnp.broadcast_to(rows.reshape(-1, *[1] * (x.ndim - 2)), x.shape[:-1])
