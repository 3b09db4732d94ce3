"""What the losses over a vocabulary share: chunks of positions, gradients in the forward pass, several devices.

`walk` has the logits of one chunk, `[v n]`, at a time. The gradients are computed in the same pass: three products,
where rematerialisation needs four. Padding comes last, so that a CPU can skip chunks of nothing else.

Logits are `[v n]` so that each product sums along the last axis of its left factor and the first axis of its right
factor: the layout that every backend has fast code for.

Over several devices, each walks over its own rows, and the sums and the table's gradient are added up once, at the end
(`on_each_device`). Left to itself, XLA adds up the table's gradient after every chunk.
"""

import functools

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from lwt.layers import products

EVEN = 8  # where there are several chunks, n is a multiple of this, if `at_most` allows
GROUPS = 8  # parts of the vocabulary in the gradient of the hidden states


def split(arrays, *, at_most):
    """Cuts arrays `[b t ...]` into m chunks of n positions, those of weight 0 last.

    Args:
        arrays: the last holds the weights, 0 for padding.
        at_most: largest n.

    Returns:
        ``(the arrays as [m n ...], join)``, where ``join`` brings `[m n ...]` back to `[b t ...]`, and None to None.
        The last chunk is filled up with positions of weight 0: fewer than m · `EVEN`.
    """
    b, t = arrays[0].shape[:2]
    order = jnp.argsort(arrays[-1].reshape(-1) == 0, stable=True)
    count = -(-b * t // at_most)
    size = min(at_most, -(-b * t // count // EVEN) * EVEN) if count > 1 else b * t
    filler = -(b * t) % size

    def cut(x):
        x = jnp.asarray(x).reshape(b * t, *x.shape[2:])[order]
        return jnp.pad(x, ((0, filler), *((0, 0) for _ in x.shape[1:]))).reshape(-1, size, *x.shape[1:])

    def join(x):
        return None if x is None else x.reshape(-1, *x.shape[2:])[jnp.argsort(order)].reshape(b, t, *x.shape[2:])

    return [cut(x) for x in arrays], join


def scan(one, start, *, chunks):
    """`jax.lax.scan` of ``one(carry, *chunk) -> (carry, output)`` that skips padding on a CPU.

    On an accelerator the host would wait for each condition.

    Args:
        chunks: arrays `[m n ...]`; the last holds the weights. A chunk without any has an output of zeros.
    """
    if jax.default_backend() != "cpu":
        return jax.lax.scan(lambda carry, chunk: one(carry, *chunk), start, chunks)

    def skip(carry, *chunk):
        return carry, jax.tree.map(jnp.zeros_like, jax.eval_shape(one, carry, *chunk)[1])

    def step(carry, chunk):
        return jax.lax.cond((chunk[-1] != 0).any(), one, skip, carry, *chunk)

    return jax.lax.scan(step, start, chunks)


def operand_of(table, dtype):
    """The table in `dtype`, as a left factor of `logits`.

    Without the barrier XLA's CPU backend folds a transposition of the table into the product and then rejects it.
    """
    return jax.lax.optimization_barrier(products.rounded(table, dtype))


def logits(operand, hidden, *, bias):
    """``operand [v d] @ hidden.T [d n] + bias [v]``: `[v n]` in float32; `bias` may be None."""
    z = jax.lax.dot_general(operand, hidden, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
    return z if bias is None else z + bias[:, None]


def walk(of_chunk, zeros, *, hidden, table, bias, others, want, dtype):
    """Sums of `of_chunk` over all chunks, and the wanted gradients of the first sum.

    Args:
        of_chunk: ``(logits [v n], hidden [n d], *others) -> (sums, d_logits [v n])``, the last being the gradient of
            the first sum.
        zeros: a tuple of zeros, as many as there are sums.
        hidden: `[m n d]`.
        table: `[v d]`.
        bias: `[v]`, or None.
        others: further arrays `[m n ...]`; the last holds the weights, 0 for padding.
        want: three booleans: whether hidden, table and bias get gradients.

    Returns:
        ``(sums, (d_hidden [m n d], d_table [v d], d_bias [v]))``, None for a gradient that is not wanted.
    """
    want_hidden, want_table, want_bias = want
    operand = operand_of(table, dtype)
    columns = _columns(operand) if want_hidden else None

    def one(carry, *chunk):
        sums, d_table, d_bias = carry
        h = products.rounded(chunk[0], dtype)
        terms, d_logits = of_chunk(logits(operand, h, bias=bias), *chunk)
        sums = tuple(total + term for total, term in zip(sums, terms, strict=True))
        d_hidden = None
        if want_bias:
            d_bias += d_logits.sum(1)
        d_logits = products.rounded(d_logits, dtype)
        if want_hidden:
            d_hidden = _hidden_gradient(columns, d_logits)
        if want_table:
            d_table += jnp.dot(d_logits, h, preferred_element_type=jnp.float32)
        return (sums, d_table, d_bias), d_hidden

    d_table = jnp.zeros(table.shape, jnp.float32) if want_table else None
    d_bias = jnp.zeros(table.shape[0], jnp.float32) if want_bias else None
    (sums, d_table, d_bias), d_hidden = scan(one, (zeros, d_table, d_bias), chunks=(hidden, *others))
    return sums, (jnp.swapaxes(d_hidden, 1, 2) if want_hidden else None, d_table, d_bias)


def differentiable(sums_and_gradients):
    """A loss ``(hidden, table, bias, rows, constants, settings) -> sums`` whose first sum can be differentiated.

    The gradients are computed in the forward pass, and only those that are wanted: a frozen table or bias gets none.

    Args:
        sums_and_gradients: ``(hidden [b t d], table [v d], bias [v] or None, rows, constants, settings, want) -> (sums,
            gradients)``, as of `walk`, with the gradient of `hidden` in its own shape; `rows` is a tuple of arrays
            `[b t ...]`, `constants` a tuple of other arrays and None, `settings` is hashable.
    """
    sums_and_gradients = on_each_device(sums_and_gradients)

    @functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
    def loss(hidden, table, bias, rows, constants, settings):
        return sums_and_gradients(hidden, table, bias, rows, constants, settings, (False, False, False))[0]

    def forward(hidden, table, bias, rows, constants, settings):
        want = hidden.perturbed, table.perturbed, bias is not None and bias.perturbed
        values = jax.tree.map(lambda x: x.value, (hidden, table, bias, rows, constants))
        return sums_and_gradients(*values, settings, want)

    def backward(settings, gradients, d_sums):
        del settings
        d_loss = d_sums[0]
        if isinstance(d_loss, jax.custom_derivatives.SymbolicZero):
            return None, None, None, None, None
        return *(None if g is None else d_loss * g for g in gradients), None, None

    loss.defvjp(forward, backward, symbolic_zeros=True)
    return loss


def on_each_device(sums_and_gradients):
    """The same function, computed on each device of the axis ``data`` for its own rows, if there are several.

    The mesh is the one in whose context the step is traced (`lwt.machine.devices.over`).
    """

    def spread(hidden, table, bias, rows, constants, settings, want):
        if jax.sharding.get_abstract_mesh().shape.get("data", 1) == 1:
            return sums_and_gradients(hidden, table, bias, rows, constants, settings, want)

        def own(hidden, table, bias, rows, constants):
            sums, (d_hidden, *shared) = sums_and_gradients(hidden, table, bias, rows, constants, settings, want)
            sums, shared = jax.lax.psum((sums, shared), "data")
            return sums, (d_hidden, *shared)

        by_rows, whole = PartitionSpec("data"), PartitionSpec()
        return jax.shard_map(
            own, in_specs=(by_rows, whole, whole, by_rows, whole), out_specs=(whole, (by_rows, whole, whole)),
            axis_names={"data"}, check_vma=False,
        )(hidden, table, bias, rows, constants)  # fmt: skip

    return spread


def _columns(table):
    """`[v d]` -> `[g d v/g]`, for `_hidden_gradient`: the long sum over v in parts for different cores."""
    v, d = table.shape
    groups = GROUPS if v % GROUPS == 0 else 1
    return jax.lax.optimization_barrier(jnp.swapaxes(table.reshape(groups, v // groups, d), 1, 2))


def _hidden_gradient(columns, d_logits):
    """The gradient `[d n]` of hidden states, from the table's `_columns` and the gradient `[v n]` of the logits."""
    parts = d_logits.reshape(columns.shape[0], columns.shape[2], -1)
    summed = (((2,), (1,)), ((0,), (0,)))
    return jax.lax.dot_general(columns, parts, summed, preferred_element_type=jnp.float32).sum(0)
