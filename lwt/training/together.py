"""Trains an adapter for each of several tasks in one run, in mixed batches on one frozen base.

Each task has a run of its own in ``workdir/TASK``, with its data, its classes and, in the end, its ``adapter/``. The
states of all runs lie in one stack, and `jax.vmap` over tasks takes the step of all of them at once: products with the
base, which the tasks share, stay one product over all rows. A step therefore does to each adapter what a step of its
own run does with the same rows: the loss is the mean over the task's own records, and the clip, the moments and the
moving average are the adapter's own.
"""

import dataclasses
import os
import statistics

import jax
import jax.numpy as jnp

from lwt import errors, trees
from lwt.data.batches import mixed
from lwt.machine import devices
from lwt.runs import assembly
from lwt.runs.serving import adapter_stack
from lwt.training import build
from lwt.training import step as step_module

STACKED = ("trainable", "opt_state", "average", "memory")  # fields of the state with an entry for each task
ALONE = {"classify"}  # tasks whose loss does not change when classes are added that are never chosen


def build_run(config, workdir, *, base, stretch=False):
    """The `loop.Run` of a config with ``tasks``.

    Args:
        config: ``config.tasks`` is ``{task: keys of config.data}``; a batch has ``data.rows`` rows of each task. One
            epoch is that of the largest task.
        workdir: made if it does not exist.
        base: flat weights of the run ``config.init_from``.
        stretch: see `checks.check_length`.

    Raises:
        lwt.errors.ConfigError, DataError, CheckpointError: see `build.build`; or the tasks cannot be trained together.
    """
    check(config)
    build.prepare(config, workdir, stretch=stretch)
    configs = in_steps({task: config_of(config, task) for task in sorted(config.tasks)}, workdir)
    runs = {task: build.build(own, os.path.join(workdir, task), base=base) for task, own in configs.items()}
    starts = {task: run.init() for task, run in runs.items()}
    shapes = {task: jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), s) for task, s in starts.items()}
    classes = {task: _classes(own.trainable) for task, own in starts.items()}
    widest = max(classes, key=classes.get)
    wide, like = runs[widest], shapes[widest]
    check_runs(config, runs, frozen=wide.frozen, classes=classes)
    largest = max(runs.values(), key=lambda run: run.batches.measure()["batches"])
    replicated = devices.replicated(build.make_mesh(config))

    def init():
        states = [widen(own, like) for own in starts.values()]
        fields = {name: jax.tree.map(lambda *x: jnp.stack(x), *(getattr(s, name) for s in states)) for name in STACKED}
        fields["bad_leaves"] = jnp.tile(states[0].bad_leaves, len(states))
        return devices.put(states[0].replace(**fields), replicated)

    def states_of(state):
        for i, (task, run) in enumerate(runs.items()):
            yield task, run, narrow(state, i, shapes=shapes[task])

    def evaluate(state):
        return means({task: run.evaluate(own) for task, run, own in states_of(state)}, select=config.select)

    def save_adapters(state):
        for _, run, own in states_of(state):
            run.save_adapter(own)

    step = step_of_all(wide.step, tasks=len(runs))
    return dataclasses.replace(
        wide,
        workdir=workdir,
        init=init,
        step=jax.jit(step, donate_argnums=0, out_shardings=replicated),
        batches=mixed.MixedBatches({task: run.batches for task, run in runs.items()}),
        positions=sum(run.positions for run in runs.values()),
        evaluate=evaluate,
        leaves=tuple(f"{task}: {leaf}" for task in runs for leaf in wide.leaves),
        identity={f"{task} {key}": value for task, run in runs.items() for key, value in run.identity.items()},
        save_adapter=save_adapters,
        header=(
            f"tasks   {len(runs)} ({', '.join(runs)}), an adapter for each; every batch has the rows of all",
            *(f"{task}: {line}" for task, run in runs.items() for line in run.header[:2]),
            *largest.header[2:],
        ),
    )


def config_of(config, task):
    """The config of one task's own run."""
    own = config.copy_and_resolve_references()
    with own.unlocked():
        own.tasks = {}
        for key, value in config.tasks[task].items():
            if key not in own.data:
                raise errors.ConfigError(f"tasks.{task}.{key}: {errors.suggest(key, own.data)}")
            own.data[key] = value
    return own


def in_steps(configs, workdir):
    """The configs with one length in steps, that of the largest task where it was given in epochs."""
    first, streams = next(iter(configs.values())), {}
    if not first.epochs and first.eval_every and first.save_every:
        return configs
    for task, own in configs.items():
        folder = os.path.join(workdir, task)
        build.prepare(own, folder)
        streams[task] = assembly.make_data(own, folder).training()
    configs = {task: build.in_steps(own, mixed.MixedBatches(streams)) for task, own in configs.items()}
    for own in configs.values():
        with own.unlocked():
            own.epochs = 0.0
    return configs


def check(config):
    """Raises `lwt.errors.ConfigError` for a config whose tasks cannot be trained together."""
    if not config.init_from:
        raise errors.ConfigError("tasks share a frozen base, and init_from is empty; name the run to adapt")
    if config.data.train:
        raise errors.ConfigError(f"data.train={config.data.train!r} has no effect: each of the tasks has its own")
    if config.task.name == "distill" or config.task.get("class_weights"):
        key = "name='distill'" if config.task.name == "distill" else "class_weights"
        raise errors.ConfigError(f"task.{key} differs from task to task; train such tasks one by one")
    if any(axes for _, axes in config.sharding):
        raise errors.ConfigError("sharding should be ((r'.*', ()),): the leaves of several tasks are replicated")


def check_runs(config, runs, *, frozen, classes):
    """Raises `lwt.errors.ConfigError` for tasks that do not share the base, or whose loss needs the same classes."""
    for task, run in runs.items():
        if run.save_adapter is None:
            raise errors.ConfigError(f"tasks.{task} trains all weights of the base; adapters share a frozen base")
        if difference := trees.differences(frozen, run.frozen):
            raise errors.ConfigError(f"tasks.{task} has other frozen weights than another task: {difference}")
    if len({*classes.values()}) > 1 and (config.task.name not in ALONE or config.task.get("label_smoothing")):
        what = "task.label_smoothing" if config.task.name in ALONE else f"task.name={config.task.name!r}"
        raise errors.ConfigError(f"{what} needs tasks with as many classes, and there are {classes}")


def step_of_all(step, *, tasks):
    """``(state, frozen, batch) -> state`` of all tasks, from that of one.

    The rows of the batch are those of the first task, then of the second, and so on; of several processes, first all
    rows of the first process.
    """
    shared = step_module.State(**dict.fromkeys(field.name for field in dataclasses.fields(step_module.State)))
    stacked = shared.replace(bad_leaves=0, **dict.fromkeys(STACKED, 0))
    all_at_once = jax.vmap(step, in_axes=(stacked, None, 0), out_axes=stacked.replace(sums=0, bad_step=0))

    def of_tasks(x):
        by_process = x.reshape(jax.process_count(), tasks, -1, *x.shape[1:])
        return by_process.swapaxes(0, 1).reshape(tasks, -1, *x.shape[1:])

    def whole(state, frozen, batch):
        zeros = jax.tree.map(jnp.zeros_like, state.sums)
        given = state.replace(sums=zeros, bad_leaves=state.bad_leaves.reshape(tasks, -1))
        rows = jax.tree.map(of_tasks, batch)
        new = all_at_once(given, frozen, rows)
        of_steps = ("steps", "grad_norm")  # means over the tasks; all others are sums
        sums = {n: state.sums[n] + (x.mean() if n in of_steps else x.sum()) for n, x in new.sums.items()}
        return new.replace(sums=sums, bad_step=new.bad_step.min(), bad_leaves=new.bad_leaves.reshape(-1))

    return whole


def widen(state, like):
    """The state of a task with the shapes of `like`, that of the task with the most classes."""

    def pad(x, shape):
        missing = [(0, wide - own) for own, wide in zip(x.shape, shape.shape, strict=True)]
        return jnp.pad(x, missing) if x.shape != shape.shape else x

    def pad_head(leaves):
        return {
            name: adapter_stack.pad_classes(name.removeprefix("base/"), x, classes=like.trainable[name].shape[-1])
            for name, x in leaves.items()
        }

    wide = jax.tree.map(pad, state, like)
    return wide.replace(trainable=pad_head(state.trainable), average=pad_head(state.average))


def narrow(state, i, *, shapes):
    """The state of task i out of the stack, with its own `shapes`."""

    def cut(x, shape):
        return x[i][tuple(slice(size) for size in shape.shape)]

    own = {name: jax.tree.map(cut, getattr(state, name), getattr(shapes, name)) for name in STACKED}
    return state.replace(**own)


def means(figures, *, select):
    """The mean of every figure over the tasks, and the figure `select` of each; `figures` is ``{task: figures}``."""
    first = next(iter(figures.values()))
    numbers = [name for name, x in first.items() if not isinstance(x, str) and all(name in f for f in figures.values())]
    found = {name: statistics.fmean(own[name] for own in figures.values()) for name in numbers}
    return found | {f"{select}/{task}": own[select] for task, own in figures.items()}


def _classes(trainable):
    """The number of outputs of a classifier's head; 0 without one."""
    bias = trainable.get("base/head/classifier/bias")
    return 0 if bias is None else bias.shape[-1]
