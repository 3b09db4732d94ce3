"""One optimizer step: gradient of the trainable leaves only, accumulated, checked, applied."""

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax

NEVER = jnp.iinfo(jnp.int32).max
ADVANCE = NEVER  # makes a key other than those of microbatches


@flax.struct.dataclass
class State:
    """Everything that a run needs to resume exactly where it was.

    Attributes:
        step: int32 scalar, optimizer steps done.
        key: raw data of the run's one random key; every step folds its number in.
        sums: figures summed on the device since the last log line, fetched only there.
        bad_step: number of the first step whose loss or gradient was not finite, or `NEVER`; from then on, `trainable`
            stays as it was before.
        bad_leaves: `[leaves]` bool, where the gradient of that step was not finite; leaves in sorted order.
        average: the moving average of `trainable` (see `make`); empty without ``optimizer.ema``.
        memory: what the reparametrization carries from step to step, see `make`.
    """

    step: jax.Array
    trainable: dict
    opt_state: optax.OptState
    key: jax.Array
    sums: dict
    bad_step: jax.Array
    bad_leaves: jax.Array
    average: dict = flax.struct.field(default_factory=dict)
    memory: dict = flax.struct.field(default_factory=dict)

    @property
    def used(self):
        """The leaves to evaluate and to use: the average, or the trainable leaves themselves."""
        return self.average or self.trainable


def init_state(trainable, optimizer, *, seed, sums, averaged=False, memory=None):
    """The state at step 0.

    Args:
        sums: names of the figures that the step adds up.
        averaged: whether to keep a moving average of the trainable leaves.
        memory: what the reparametrization carries from step to step, a flat dict; None for nothing.
    """
    return State(
        step=jnp.zeros((), jnp.int32),
        trainable=trainable,
        opt_state=optimizer.init(trainable),
        key=jax.random.key_data(jax.random.key(seed)),
        sums={name: jnp.zeros((), jnp.float32) for name in sums},
        bad_step=jnp.full((), NEVER, jnp.int32),
        bad_leaves=jnp.zeros((len(trainable),), bool),
        average={name: jnp.array(leaf, copy=True) for name, leaf in trainable.items()} if averaged else {},
        memory=memory or {},
    )


def make(loss, optimizer, *, accumulate=1, ema=0.0, advance=None):
    """Makes ``step(state, frozen, batch) -> state``, to be jitted with the state donated.

    An update may make a leaf infinite although its gradient is finite. `not_finite` finds that before the leaf is
    evaluated or saved; in the step, it would have to read all updates once more.

    Args:
        loss: ``loss(trainable, frozen, batch, step, key) -> (sum, count, sums)``. The step divides once, by the count
            of all microbatches and devices together.
        accumulate: number of microbatches; each takes every `accumulate`-th row, so that sharded rows do not move.
        ema: decay of the moving average, ``average ← d·average + (1-d)·trainable`` after step t, with
            ``d = min(ema, (1+t)/(10+t))``, so that a short run forgets its start (as TensorFlow's
            ``ExponentialMovingAverage`` with ``num_updates``); 0: no average.
        advance: ``(trainable, memory, *, gradients, step, key) -> (trainable, memory)``, what happens after the
            optimizer's update number `step`; None for nothing.
    """

    def gradient(state, frozen, batch, key):
        def total(trainable):
            value, count, sums = loss(trainable, frozen, batch, state.step, key)
            return value, (count, sums)

        (_, (count, sums)), grads = jax.value_and_grad(total, has_aux=True)(state.trainable)
        return grads, count, sums

    def accumulated(state, frozen, batch, key):
        if accumulate == 1:
            return gradient(state, frozen, batch, key)
        micro = jax.tree.map(lambda x: jnp.moveaxis(x.reshape(-1, accumulate, *x.shape[1:]), 1, 0), batch)

        def add(carry, item):
            index, part = item
            new = gradient(state, frozen, part, jax.random.fold_in(key, index))
            return jax.tree.map(jnp.add, carry, new), None

        shapes = jax.eval_shape(lambda: gradient(state, frozen, jax.tree.map(lambda x: x[0], micro), key))
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        return jax.lax.scan(add, zeros, (jnp.arange(accumulate), micro))[0]

    def step(state, frozen, batch):
        key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.step)
        grads, count, sums = accumulated(state, frozen, batch, key)
        grads = jax.tree.map(lambda g: g / jnp.maximum(count, 1.0), grads)
        squares = _squares(grads)
        norm = jnp.sqrt(squares.sum())
        bad = ~jnp.isfinite(squares)
        good, before = ~bad.any() & jnp.isfinite(sums["loss"]), state.bad_step == NEVER
        first_bad = before & ~good
        updates, opt_state = optimizer.update(grads, state.opt_state, state.trainable)
        trainable, memory = optax.apply_updates(state.trainable, updates), state.memory
        if advance:
            more = {"gradients": grads, "step": state.step + 1, "key": jax.random.fold_in(key, ADVANCE)}
            trainable, memory = advance(trainable, memory, **more)
        # One condition for all leaves, which waits for all gradients: then XLA writes every leaf in place.
        trainable = jax.tree.map(lambda new, old: jnp.where(before & good, new, old), trainable, state.trainable)
        new_sums = {**sums, "grad_norm": norm, "steps": jnp.ones(())}
        return State(
            step=state.step + 1,
            trainable=trainable,
            opt_state=opt_state,
            key=state.key,
            sums={name: state.sums[name] + new_sums[name] for name in state.sums},
            bad_step=jnp.where(first_bad, state.step + 1, state.bad_step),
            bad_leaves=jnp.where(first_bad, bad, state.bad_leaves),
            average=_moved(state.average, trainable, ema=ema, count=state.step + 1) if ema else {},
            memory=memory,
        )

    return step


@jax.jit
def _squares(leaves):
    """The sum of squares of every leaf `[leaves]`, in the order of their names."""
    return jnp.stack([jnp.vdot(leaves[name], leaves[name]) for name in sorted(leaves)])


def not_finite(leaves):
    """The sorted names of those of the flat dict `leaves` whose sum of squares is not finite."""
    finite = np.isfinite(np.asarray(_squares(leaves)))
    return [name for name, is_finite in zip(sorted(leaves), finite, strict=True) if not is_finite]


def _moved(average, trainable, *, ema, count):
    """The average after step `count`; see `make`."""
    decay = jnp.minimum(ema, (1.0 + count) / (10.0 + count))
    return {name: decay * average[name] + (1 - decay) * leaf for name, leaf in trainable.items()}
