"""Runs the blocks of a model one after the other, in a loop or written out, and decides what the backward pass keeps.

`once` and `unfused` keep XLA's CPU backend from fusing an operation into everything that reads its result.

Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174).
"""

import contextlib
import contextvars

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import ad_checkpoint

from lwt import errors

_EXPORTING = contextvars.ContextVar("exporting", default=False)
BARRIERS_HOLD = jax.__version_info__ >= (0, 12)  # before, XLA's CPU backend drops barriers before it fuses operations
OUTPUT = "linear"  # the name of a linear layer's output
REMAT = {  # what a block keeps for the backward pass, beside its input
    "none": None,  # every intermediate array
    "dots": jax.checkpoint_policies.save_only_these_names(OUTPUT),  # the outputs of linear layers
    "blocks": jax.checkpoint_policies.nothing_saveable,
}


def output(y):
    """Marks the output of a linear layer, so that "dots" keeps it."""
    return ad_checkpoint.checkpoint_name(y, OUTPUT)


@jax.custom_vjp
def once(x):
    """x itself. On a CPU, x and its gradient are each computed once.

    XLA's CPU backend fuses a sum into all of its readers. A convolution that an activation follows would be computed up
    to three times; in the backward pass, each residual block would compute the sums of all blocks above it again.
    """
    return _written(x)


def _forward(x):
    return _written(x), None


def _backward(saved, dy):
    del saved
    return (_written(dy),)


once.defvjp(_forward, _backward)


def _written(x):
    if is_exporting():
        return x
    return jax.lax.platform_dependent(x, cpu=lambda x: unfused(lambda x: x, x), default=lambda x: x)


def unfused(operation, *arrays):
    """``operation(*arrays)``, which XLA does not fuse with what reads it; for CPUs alone.

    It is behind barriers, or behind a condition that XLA cannot evaluate where those do not hold.
    """
    if is_exporting():
        return operation(*arrays)
    if BARRIERS_HOLD:
        return jax.lax.optimization_barrier(operation(*jax.lax.optimization_barrier(arrays)))
    always = jax.lax.optimization_barrier(jnp.array(True))
    return jax.lax.cond(always, operation, lambda *arrays: jnp.zeros_like(operation(*arrays)), *arrays)


def is_exporting():
    """Whether this is within `exporting`."""
    return _EXPORTING.get()


@contextlib.contextmanager
def exporting():
    """While it lasts, a program for other machines is traced: `once` and `unfused` add nothing, and attention has no
    loops over blocks, which those machines may lack."""
    token = _EXPORTING.set(True)
    try:
        yield
    finally:
        _EXPORTING.reset(token)


def run(blocks, x, *arrays, model, train, **static):
    """``x = block(x, *arrays, train=train, **static)`` of every block, as `model.remat` and `model.scan` say.

    Both change training alone: the values and the gradients stay the same, but a loop draws other dropout masks.

    Args:
        blocks: linen modules of one class, bound.
        x: the states; arrays: arrays, pytrees or None, the same for all blocks.
        model: has the fields ``remat``, one of `REMAT`, and ``scan``.
        static: other keyword arguments of a block, which are not arrays.

    Raises:
        lwt.errors.ConfigError: `model.scan`, and the weights of the blocks differ in shape or kind.
    """
    if model.scan and train and len(blocks) > 1 and not model.is_initializing():
        return _scanned(blocks, x, *arrays, model=model, **static)
    for block in blocks:
        if model.remat == "none" or not train:
            x = block(x, *arrays, train=train, **static)
        else:
            x = nn.remat(_trained(static), policy=REMAT[model.remat])(block, x, *arrays)
    return x


def _trained(static):
    def forward(block, *arrays):
        return block(*arrays, train=True, **static)

    return forward


def _scanned(blocks, x, *arrays, model, **static):
    """The same, as one loop over the blocks; the compiler sees one block, and the loop keeps `REMAT` on a CPU too."""
    weights = [block.variables["params"] for block in blocks]
    kinds = [(jax.tree.structure(tree), [x.shape for x in jax.tree.leaves(tree)]) for tree in weights]
    for block, kind in zip(blocks, kinds):
        if kind != kinds[0]:
            raise errors.ConfigError(
                f"model.scan=True: the weights of {block.name} differ in shape or kind from those of {blocks[0].name}; "
                "blocks of different weights need model.scan=False"
            )
    keys = jax.random.split(blocks[0].make_rng("dropout"), len(blocks)) if blocks[0].has_rng("dropout") else None
    body = blocks[0].unbind()[0]

    def forward(x, weights, key, arrays):
        rngs = {} if key is None else {"dropout": key}
        return body.apply({"params": weights}, x, *arrays, train=True, rngs=rngs, **static)

    if model.remat != "none":
        forward = jax.checkpoint(forward, policy=REMAT[model.remat], prevent_cse=False)
    stacked = jax.tree.map(lambda *each: jnp.stack(each), *weights)
    return jax.lax.scan(lambda x, item: (forward(x, *item, arrays), None), x, (stacked, keys))[0]
