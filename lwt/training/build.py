"""From a config to what the loop runs: the objective, its loss, the optimizer, the step, the evaluation.

`build` puts them together, with the parts that `lwt/runs/assembly.py` makes. Each can be had alone.
"""

import functools
import json
import logging
import math
import re

import jax
import numpy as np

from lwt import errors, registry, trees
from lwt.attention.parts import approximation_check
from lwt.layers import linear
from lwt.machine import devices
from lwt.reparam import adapters, compose, none
from lwt.runs import adapter_folder, assembly, evaluation, run_config
from lwt.training import checks, header, loop, methods, optim, programs, step, teaching

LOG = logging.getLogger(__name__)
CADENCES = ("log_every", "eval_every", "save_every", "keep_last", "select", "select_mode", "patience")


def build(config, workdir, *, base=None, teachers=(), stretch=False):
    """The `loop.Run` of a config; leaves ``config.json`` and, for texts, ``tokenizer.model`` in the workdir.

    Args:
        config: see `configs/common.py`.
        workdir: made if it does not exist.
        base: flat weights of the run ``config.init_from``; None for fresh ones.
        teachers: the experiments ``config.task.teacher``, for distillation.
        stretch: see `checks.check_length`.

    Raises:
        lwt.errors.ConfigError, DataError, CheckpointError: naming the key, file or leaf, before training starts.
    """
    # ---- What the run consists of: data, model, task, weights.
    prepare(config, workdir, stretch=stretch)
    data = assembly.make_data(config, workdir)
    model = assembly.make_model(config, data.vocabulary, outputs=data.outputs, frame=data.frame)
    task = assembly.make_task(config)
    checks.check_data(config, data, model=model)
    reparam = compose.build(config.reparam)
    trainable, frozen = assembly.initial_params(config, model, reparam=reparam, base=base)
    identity = {**data.identity, "base": adapters.fingerprint(base) if base else ""}
    mesh = make_mesh(config)

    # ---- What it learns: the task itself, or what a teacher says of it.
    objective, teacher = make_objective(config, weighted(task, data)), None
    if teachers:
        teacher = make_teacher(config, objective, teachers=teachers, data=data, workdir=workdir, mesh=mesh)
        student = {"model": model, "reparam": reparam, "params": {**trainable, **frozen}}
        trainable = trainable | make_projections(config, objective, teacher=teacher, data=data, **student)
        frozen, identity["teacher"] = frozen | teacher.leaves, teacher.fingerprint
    loss = make_loss(model, objective, reparam=reparam, teacher=teacher)

    # ---- How it learns: batches, optimizer, step.
    batches = data.training(share=evaluation.share_of_process())
    config = in_steps(config, batches)
    if "approximate" in assembly.attention_names(config.model):
        plain = make_loss(model, task, reparam=reparam, train=False)
        warn_of_approximation(plain, batches, trainable=trainable, frozen=frozen)
    checks.check_trainable(config, trainable, frozen=frozen)
    as_is = make_loss(model, objective, reparam=none.Unchanged(), train=False, teacher=teacher)
    trainable = methods.started(reparam, trainable, frozen=frozen, loss=as_is, batches=batches)
    make_optimizer = functools.partial(
        optim.build, config.optimizer, trainable.keys(), steps=config.steps, frozen=frozen.keys(), reparam=reparam
    )
    optimizer, rate = make_optimizer()
    trees.require_effect([*trainable, *frozen], config.sharding, what="sharding rule")
    about = {"averaged": config.optimizer.ema > 0}
    about["memory"] = compose.memory(reparam, trees.subtree(trainable, "adapter"))

    def make_init(sums):
        about["sums"] = (*sums, "grad_norm", "steps")
        init = functools.partial(step.init_state, optimizer=optimizer, seed=config.seed, **about)
        return init, devices.shardings(mesh, jax.eval_shape(init, trainable), rules=config.sharding)

    def make_programs():
        sums = jax.eval_shape(lambda batch: loss(trainable, frozen, batch, 0, jax.random.key(0))[2], data.example())
        advance = methods.make_advance(config, reparam)
        update = make_update(config, loss, mesh=mesh, make_optimizer=make_optimizer, advance=advance)
        return programs.Programs(
            sums=tuple(sums),
            step=jax.jit(update, donate_argnums=0, out_shardings=make_init(sums)[1]),
            evaluator=evaluation.Evaluator(task, model, mesh),
            weights=jax.jit(lambda params, at: linear.merge_floats(assembly.expand(reparam, params, step=at))),
        )

    if objective is not task:
        compiled = make_programs()  # the loss holds class weights, or what a teacher says
    else:
        holds = {"identity": data.identity, "vocabulary": data.vocabulary, "outputs": data.outputs, "frame": data.frame}
        key = programs.key_of(config, arrays=(trainable, frozen), mesh=mesh, **holds)
        compiled = programs.shared(key, make_programs)
    init, placement = make_init(compiled.sums)
    frozen = devices.put(frozen, devices.shardings(mesh, frozen, rules=config.sharding))

    # ---- How it is measured, and what it leaves behind.
    validation = data.evaluation(data.named("validation"), limit=config.data.max_eval_records)
    checks.check_select(config, task, sums=compiled.sums, validation=validation)
    about = {"data": data, "identity": identity, "mesh": mesh}
    return loop.Run(
        workdir=workdir,
        steps=config.steps,
        init=lambda: devices.put(init(trainable), placement),
        step=functools.partial(compiled.step, learning_rate=np.float32(config.optimizer.learning_rate)),
        frozen=frozen,
        batches=batches,
        positions=data.positions,
        row_sharding=devices.by_rows(mesh),
        evaluate=make_evaluation(config, compiled, frozen=frozen, data=data, validation=validation),
        finish=objective.finish,
        rate=rate,
        leaves=tuple(sorted(trainable)),
        identity=identity,
        save_adapter=make_adapter_writer(
            config, workdir, trainable=trainable, frozen=frozen, base=(base or {}).keys(), **about
        ),
        profile_steps=tuple(config.profile_steps),
        header=header.lines(
            config,
            data,
            learned=assembly.learned(reparam, trainable),
            leaves={**trainable, **frozen},
            validation=len(validation.sources),
            epoch=batches.measure()["batches"],
        ),
        **{key: config[key] for key in CADENCES},
    )


def prepare(config, workdir, *, stretch=False):
    """Checks a config and writes it into the workdir."""
    checks.check(config)
    checks.check_length(config, workdir, stretch=stretch)
    run_config.keep(config, workdir)


def make_mesh(config):
    """The mesh of ``config.mesh``; raises `lwt.errors.ConfigError` unless the rows of a batch divide among it."""
    mesh = devices.make_mesh(config.mesh)
    devices.check_rows(mesh, config.data.rows // config.optimizer.accumulate, what="data.rows / optimizer.accumulate")
    return mesh


def in_steps(config, batches):
    """The config with durations in steps. Epochs are rounded up, so that the last one ends at the last step."""
    durations = [key for key in ("eval_every", "save_every") if not config[key]]
    if not (config.epochs or durations):
        return config
    epoch = batches.measure()["batches"]
    config = config.copy_and_resolve_references()
    with config.unlocked():
        config.update({key: max(1, math.ceil(epoch)) for key in durations})
        config.steps = max(1, round(config.epochs * epoch)) if config.epochs else config.steps
        optim.shorten_warmup(config)
    if config.steps > run_config.STEPS:
        raise errors.ConfigError(f"epochs={config.epochs} should be at most {run_config.STEPS / epoch:.3g}")
    return config


def weighted(task, data):
    """The `task` as it is trained: with the class weights, if it has some, that its labels and their counts give."""
    if not getattr(task, "class_weights", ""):
        return task
    counts, records = data.class_counts()
    return task.for_labels(data.labels.names, counts, records=records)


def make_objective(config, task):
    """What training minimizes: the loss of `task`, or the `distill.Distill` that wraps it."""
    if config.task.name != "distill":
        return task
    section = {key: value for key, value in config.task.items() if key != "task"}
    return registry.TASKS.make(section, key="task", task=task)


def make_teacher(config, objective, *, teachers, data, workdir, mesh):
    """`teaching.make` of a config; refuses a teacher that would mix the pairs of a packed row, or see other pixels."""
    for teacher in teachers:
        for key in ("mean", "std"):
            own, theirs = (tuple(getattr(task, key, ())) for task in (objective.task, teacher.task))
            if own != theirs:
                raise errors.ConfigError(
                    f"task.teacher={teacher.workdir} has the task.{key} {theirs} of pixels, this run's task {own}; set "
                    f"task.task.{key}={theirs}"
                )
        if config.data.kind == "pairs" and config.data.packed and not teacher.config.data.packed:
            raise errors.ConfigError(
                f"data.packed=True, but task.teacher={teacher.workdir} reads one pair a row; set data.packed=False"
            )
    return teaching.make(
        teachers, data, workdir=workdir, mesh=mesh, cache=objective.cache, layers=objective.matches_layers
    )


def make_projections(config, objective, *, model, reparam, params, teacher, data):
    """The leaves ``projection/...`` between layers of student and teacher; empty if no layers are compared."""

    def apply(*args, **options):  # called for shapes alone: no weight is made
        weights = assembly.expand(reparam, params, step=0)
        return model.apply({"params": trees.unflatten(weights)}, *args, **options)

    key = jax.random.fold_in(jax.random.key(config.seed), 3)
    projections = objective.init(key, apply, teacher=teacher.apply(teacher.leaves), batch=data.example())
    return trees.with_prefix(projections, assembly.PROJECTION)


def make_loss(model, objective, *, reparam, train=True, teacher=None):
    """``(trainable, frozen, batch, step, key) -> (sum, count, sums)``: what the step differentiates.

    Args:
        objective: a task; with a `teacher`, a `distill.Distill`.
        train: whether to apply dropout, in the model and in the adapter.
    """

    def loss(trainable, frozen, batch, at, key):
        dropout, adapter = jax.random.split(key)
        weights = assembly.expand(reparam, {**trainable, **frozen}, step=at, key=adapter if train else None)
        apply = functools.partial(model.apply, {"params": trees.unflatten(weights)})
        more = {}
        if teacher:
            projections = trees.subtree(trainable, assembly.PROJECTION)
            more = {"teacher": teacher.apply(frozen), "projections": projections}
        rngs = {"dropout": dropout} if train else None
        total, count, sums = objective.loss(apply, batch, train=train, rngs=rngs, **more)
        penalty = compose.penalty(reparam, trees.subtree({**trainable, **frozen}, "adapter")) if train else None
        return total if penalty is None else total + penalty * count, count, sums  # the step divides by the count

    return loss


def make_update(config, loss, *, mesh, make_optimizer, advance):
    """``(State, frozen, batch, learning_rate) -> State``; runs that differ in their rate share the compiled program."""
    gather = functools.partial(devices.gathered, mesh, rules=config.sharding)

    def of_whole(trainable, frozen, *given):
        return loss(gather(trainable), gather(frozen), *given)

    def update(state, frozen, batch, learning_rate):
        optimizer, _ = make_optimizer(learning_rate=learning_rate)
        how = {"accumulate": config.optimizer.accumulate, "ema": config.optimizer.ema, "advance": advance}
        return step.make(of_whole, optimizer, **how)(state, frozen, batch)

    return devices.over(mesh, update)


def make_evaluation(config, compiled, *, frozen, data, validation):
    """``(State) -> figures`` on the validation set, with the `programs.Programs` of the run."""

    def evaluate(state):
        weights = compiled.weights({**state.used, **frozen}, state.step)
        return compiled.evaluator.figures(weights, data, evaluation=validation, generate=config.eval_decode)[0]

    return evaluate


def make_adapter_writer(config, workdir, *, trainable, frozen, base, data, identity, mesh):
    """``(State) -> None``, writes what the run trained, without its base, into ``workdir/adapter``.

    None for a run that starts from no other, or that trains all weights of its base.

    Args:
        trainable, frozen: the leaves ``base/...`` and ``adapter/...``.
        base: names of the weights of the run that this one starts from.
    """
    own = trees.subtree({**trainable, **frozen}, "base").keys()
    fresh = {name for name in own if any(re.fullmatch(pattern, name) for pattern in config.init_skip)}
    whole = [name for name in own if f"base/{name}" in trainable or name in fresh]
    if not base or len(whole) == len(own):
        return None
    gather = jax.jit(lambda leaves: leaves, out_shardings=devices.replicated(mesh))

    def save_adapter(state):
        params = {**state.used, **frozen}
        leaves = gather({name: params[f"base/{name}"] for name in whole}), gather(trees.subtree(params, "adapter"))
        if jax.process_index() == 0:
            adapter_folder.write(
                workdir,
                leaves[1],
                whole=leaves[0],
                dropped=sorted(base - own),
                labels=data.labels.names if hasattr(data, "labels") else (),
                reparam_config=json.loads(json.dumps(config.reparam.to_dict())),
                identity=identity,
                step=int(state.step),
            )

    return save_adapter


def warn_of_approximation(loss, batches, *, trainable, frozen):
    """Logs the attentions whose approximate gradient does not hold on the first batch."""
    state, batch = batches.state(), jax.device_put(next(batches))
    batches.restore(state)
    approximation_check.check_call(lambda: loss(trainable, frozen, batch, 0, jax.random.key(0)), degree=None)
