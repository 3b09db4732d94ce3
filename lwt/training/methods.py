"""What a run does for its reparametrization besides expanding it: a look at the data at the start, and an advance."""

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors, trees
from lwt.layers import linear
from lwt.reparam import compose


def started(reparam, trainable, *, frozen, loss, batches):
    """The leaves `trainable`, with initial values from the first batches where `reparam` asks for them.

    Args:
        reparam: the reparametrization.
        trainable, frozen: the leaves of the run.
        loss: as `build.make_loss` makes it, for weights that nothing adapts, and without dropout.
        batches: the training batches; they stay where they are.

    Raises:
        lwt.errors.ConfigError: several processes train, each of which would see data of its own; or a leaf is not
            trainable; or no batch says anything about a weight.
    """
    params = {**trainable, **frozen}
    base, adapter = (trees.subtree(params, part) for part in ("base", "adapter"))
    watched = compose.watches(reparam, base, adapter=adapter)
    if not watched:
        return trainable
    if jax.process_count() > 1:
        raise errors.ConfigError("reparam.start: initial values from data need one process")
    others = {name: leaf for name, leaf in params.items() if not name.startswith(("base/", "adapter/"))}

    def total(weights, batch):
        return loss({**trees.with_prefix(weights, "base"), **others}, others, batch, 0, jax.random.key(0))[0]

    position = batches.state()
    weights = linear.merge(reparam.expand(base, adapter, 0))
    first = (jax.device_put(next(batches)) for _ in range(max(watched.values())))
    seen = observe(total, weights, watched=watched, batches=first)
    batches.restore(position)
    found = trees.with_prefix(compose.look(reparam, adapter, base=base, seen=seen), "adapter")
    for name, leaf in found.items():
        if name not in trainable and leaf is not frozen[name]:
            raise errors.ConfigError(
                f"optimizer.trainable leaves out {name!r}, which starts from data; add 'adapter/.*'"
            )
    return {**trainable, **{name: leaf for name, leaf in found.items() if name in trainable}}


def observe(loss, weights, *, watched, batches):
    """``{(kind, name): float64 array}`` of the weights that are `watched`, summed over `batches`.

    Of kind "gradients" it is ``∂loss/∂W`` `[in out]`; of kind "inputs" the moments ``Σ [x 1]ᵀ [x 1]`` `[in+1 in+1]` of
    the inputs x that have an influence on the loss, so that padding does not count.

    Args:
        loss: ``(weights, batch) -> scalar``.
        weights: flat dict of arrays.
    """

    def total(probes, weights, batch):
        for (kind, name), probe in probes.items():
            w = weights[name]
            weights = {**weights, name: Watched(w, probe) if kind == "inputs" else w + probe}
        return loss(weights, batch)

    probes = {}
    for kind, name in watched:
        n_in, n_out = weights[name].shape
        probes[kind, name] = jnp.zeros((n_in + 1, n_in + 1) if kind == "inputs" else (n_in, n_out))
    gradient, found = jax.jit(jax.grad(total)), dict.fromkeys(probes, 0.0)
    for batch in batches:
        new = jax.device_get(gradient(probes, weights, batch))
        found = {key: found[key] + np.asarray(array, np.float64) for key, array in new.items()}
    for (kind, name), array in found.items():
        if not np.isfinite(array).all() or not np.any(array):
            raise errors.ConfigError(f"reparam.start: the first batches give no finite {kind} other than 0 at {name!r}")
    return found


@flax.struct.dataclass
class Watched(linear.Node):
    """A weight whose `probe` gets the moments of its inputs as its gradient; see `observe`."""

    base: jax.Array
    probe: jax.Array

    @property
    def shape(self):
        return self.base.shape

    def matmul(self, x, dtype):
        return linear.linear(_seen(x, self.probe), self.base, dtype=dtype)

    def take(self, ids):
        return linear.take(self.base, ids)

    def dense(self):
        return linear.dense(self.base)


@jax.custom_vjp
def _seen(x, probe):
    """`x`; in the backward pass the probe's gradient is the moments of its rows."""
    del probe
    return x


def _seen_bwd(x, dy):
    rows = jnp.pad(x.astype(jnp.float32), [(0, 0), (0, 1)], constant_values=1) * (dy != 0).any(axis=1)[:, None]
    return dy, jnp.dot(rows.T, rows, precision="highest")


_seen.defvjp(lambda x, probe: (_seen(x, probe), x), _seen_bwd)


def make_advance(config, reparam):
    """The function to call after each update of the optimizer, for `step.make`; None for most methods.

    Raises:
        lwt.errors.ConfigError: the weights are averaged as well, which such a method does not allow.
    """
    if not compose.advances(reparam):
        return None
    if config.optimizer.ema:
        raise errors.ConfigError(
            f"optimizer.ema={config.optimizer.ema} should be 0: {config.reparam.name} changes its leaves in one step, "
            "and an average of both has no meaning"
        )

    def advance(trainable, memory, *, gradients, step, key):
        adapter, gradients = (trees.subtree(tree, "adapter") for tree in (trainable, gradients))
        about = {"carried": memory, "gradients": gradients, "step": step, "key": key}
        adapter, memory = compose.advance(reparam, adapter, **about)
        return {**trainable, **trees.with_prefix(adapter, "adapter")}, memory

    return advance
