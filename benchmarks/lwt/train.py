"""Assembles the parts of an lwt run as `lwt.training.build` does, over a benchmark's batches."""

import itertools

import jax

from benchmarks import common
from configs import common as configs
from lwt import trees
from lwt.machine import memory
from lwt.reparam import compose
from lwt.runs import assembly
from lwt.training import build, optim, step


def peak_bytes():
    """The peak memory so far in bytes: of JAX's allocator on the GPU, or of this process."""
    figures = jax.local_devices()[0].memory_stats() if jax.default_backend() == "gpu" else None
    return figures["peak_bytes_in_use"] if figures else common.peak_bytes()


def get_config(*, precision, reparam=None):
    """The translation model at the paper's size; with a `reparam`, only the adapter is trained."""
    config = configs.base()
    config.precision = precision
    config.model = dict(name="seq2seq")
    config.optimizer.learning_rate = 1e-4
    config.optimizer.schedule = dict(name="constant", warmup=0)
    if reparam:
        config.reparam = reparam
        config.optimizer.trainable = ("adapter/.*",)
    return config


def trainer(config, work, *, vocabulary):
    """``(run, trained parameters)``; ``run(k)`` for `common.serve`: k training steps.

    Args:
        config: settings of the model, the task and the optimizer.
        work: ``(training batch, counts)`` of each batch; steps cycle through them.
        vocabulary: rows of the model's table.
    """
    model, task = assembly.make_model(config, vocabulary), assembly.make_task(config)
    reparametrization = compose.build(config.reparam)
    trainable, frozen = assembly.initial_params(config, model, reparam=reparametrization)
    count = trees.count(trainable)
    loss = build.make_loss(model, task, reparam=reparametrization)
    optimizer, _ = optim.build(
        config.optimizer, trainable, steps=config.steps, frozen=frozen, reparam=reparametrization
    )
    work = [(jax.device_put(batch), counts) for batch, counts in work]
    sums = jax.eval_shape(lambda: loss(trainable, frozen, work[0][0], 0, jax.random.key(0))[2])
    state = step.init_state(trainable, optimizer, seed=0, sums=(*sums, "grad_norm", "steps"))
    one_step = jax.jit(step.make(loss, optimizer), donate_argnums=0)
    work = itertools.cycle(work)

    def run(steps):
        nonlocal state
        totals, before = {}, {name: float(value) for name, value in state.sums.items()}
        for batch, counts in itertools.islice(work, steps):
            state = one_step(state, frozen, batch)
            memory.settle()  # as `lwt.training.loop` does
            totals = {name: totals.get(name, 0) + count for name, count in counts.items()}
        after = {name: float(value) for name, value in jax.block_until_ready(state).sums.items()}
        figures = task.finish({name: total - before[name] for name, total in after.items()})
        return totals | {"loss": figures["loss"]}

    return run, count
