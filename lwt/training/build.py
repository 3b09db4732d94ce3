"""From a config to what the loop runs. The only reader of a config, but for what `checks` refuses."""

import functools
import json
import logging
import math
import os

import jax

from lwt import errors, registry, trees
from lwt.attention.parts import approximation_check
from lwt.data.kinds import images, labelled, masked, pairs
from lwt.layers import linear
from lwt.machine import devices, hardware
from lwt.reparam import adapters, compose
from lwt.runs import evaluation, run_config
from lwt.training import checks, loop, optim, step, teaching

LOG = logging.getLogger(__name__)
KINDS = {  # of data
    "pairs": pairs.Pairs,
    "labelled": labelled.Labelled,
    "masked": masked.Masked,
    "images": images.Images,
}
ATTENTIONS = {"attention", "decoder_attention", "cross_attention"}  # keys of a model's section, and what ...
ATTENTION_GIVEN = {"width", "heads", "dropout", "dtype"}  # ... every model itself gives to each, ...
ATTENTION_GIVEN_BY_SOME = {"use_bias"}  # ... or those that have such a field
CADENCES = ("log_every", "eval_every", "save_every", "keep_last", "select", "select_mode")


def build(config, workdir, *, base=None, teachers=()):
    """Everything that `loop.train` needs; leaves ``config.json`` and ``tokenizer.model`` in the workdir.

    Args:
        config: see `configs/common.py`.
        workdir: made if need be.
        base: flat weights to start from, those of the run ``config.init_from``; None for fresh ones.
        teachers: the opened runs ``config.task.teacher``, if the task is to be distilled.

    Raises:
        lwt.errors.ConfigError, DataError, CheckpointError: naming the key, file or leaf, before training starts.
    """
    checks.check(config)
    run_config.keep(config, workdir)
    if config.precision == "bfloat16" and hardware.slow_in_bfloat16():
        LOG.info("this processor has no fast units for bfloat16: float32 may be faster (--config.precision=float32)")
    data = make_data(config, workdir)
    if hasattr(data, "labels"):
        checks.check_labels(task_section(config.task).name, config.data.kind, data.labels)
    model, task = make_model(config, data.vocabulary, outputs=data.outputs), make_task(config)
    checks.check_pool(model, getattr(data, "fields", ()))
    reparam = compose.build(config.reparam)
    trainable, frozen = initial_params(config, model, reparam, base)
    base_print = adapters.fingerprint(base) if base else ""
    identity = {**data.identity, "base": base_print}
    mesh = devices.make_mesh(config.mesh)
    goal, taught = make_goal(config, task), None
    if teachers:
        taught = make_teacher(config, goal, teachers, data, workdir, mesh)
        trainable = trainable | _projections(config, goal, model, reparam, {**trainable, **frozen}, taught, data)
        frozen, identity["teacher"] = frozen | taught.leaves, taught.fingerprint
    devices.check_rows(mesh, config.data.rows // config.optimizer.accumulate, what="data.rows / optimizer.accumulate")
    devices.check_rows(mesh, config.data.eval_batch, what="data.eval_batch")
    batches = data.training(process=jax.process_index(), processes=jax.process_count())
    config = in_steps(config, batches)

    loss = make_loss(model, goal, reparam, teacher=taught)
    if "approximate" in _attention_names(config.model):
        _warn_of_approximation(make_loss(model, task, reparam, train=False), trainable, frozen, batches)
    optimizer, rate = optim.build(config.optimizer, trainable, steps=config.steps)
    sums = jax.eval_shape(lambda batch: loss(trainable, frozen, batch, 0, jax.random.key(0))[2], data.example())
    init = functools.partial(step.init_state, optimizer=optimizer, seed=config.seed, sums=(*sums, "grad_norm", "steps"))
    places = devices.shardings(mesh, jax.eval_shape(init, trainable), config.sharding)
    frozen = devices.put(frozen, devices.shardings(mesh, frozen, config.sharding))
    evaluator = evaluation.Evaluator(task, model, mesh)
    validation = data.evaluation(config.data.validation, limit=config.data.max_eval_records)
    checks.check_select(config, task, sums, validation)
    weights_of = jax.jit(lambda params, at: linear.merge_floats(expand(reparam, params, at)))

    def evaluate(state):
        weights = weights_of({**state.trainable, **frozen}, state.step)
        return evaluator.figures(weights, data, validation, generate=config.eval_decode)[0]

    def save_adapter(state):
        if any(name.startswith("base/") for name in trainable):
            return  # the adapter alone would not be the model
        adapter = trees.subtree({**state.trainable, **frozen}, "adapter")
        adapter = jax.jit(lambda x: x, out_shardings=devices.replicated(mesh))(adapter)
        if adapter and jax.process_index() == 0:
            reparam_config = json.loads(json.dumps(config.reparam.to_dict()))
            folder = os.path.join(workdir, "adapter")
            adapters.save(
                folder, adapter, reparam_config=reparam_config, base_fingerprint=base_print, step=int(state.step)
            )

    return loop.Run(
        workdir=workdir,
        steps=config.steps,
        init=lambda: devices.put(init(trainable), places),
        step=jax.jit(
            step.make(loss, optimizer, accumulate=config.optimizer.accumulate), donate_argnums=0, out_shardings=places
        ),
        frozen=frozen,
        batches=batches,
        positions=data.positions,
        row_sharding=devices.by_rows(mesh),
        evaluate=evaluate,
        finish=goal.finish,
        rate=rate,
        leaves=tuple(sorted(trainable)),
        identity=identity,
        save_adapter=save_adapter,
        profile_steps=tuple(config.profile_steps),
        **{key: config[key] for key in CADENCES},
    )


def _warn_of_approximation(loss, trainable, frozen, batches):
    """Logs the attentions whose approximate gradient does not hold on the first batch."""
    state, batch = batches.state(), jax.device_put(next(batches))
    batches.restore(state)
    approximation_check.check_call(lambda: loss(trainable, frozen, batch, 0, jax.random.key(0)), degree=None)


def _attention_names(section):
    given = [section[key] for key in ATTENTIONS & set(section)]
    return {x.partition(":")[0] if isinstance(x, str) else x["name"] for x in given}


def in_steps(config, batches):
    """The config with its durations in optimizer steps, where they are given in epochs.

    Every epoch is rounded up: the last one then ends at the last step, not a step or two ahead of it.
    """
    durations = [key for key in ("eval_every", "save_every") if not config[key]]
    if not (config.epochs or durations):
        return config
    epoch = batches.measure()["batches"]
    config = config.copy_and_resolve_references()
    with config.unlocked():
        config.update({key: max(1, math.ceil(epoch)) for key in durations})
        config.steps = max(1, round(config.epochs * epoch)) if config.epochs else config.steps
    return config


def make_data(config, workdir, *, make=True):
    """The data of ``config.data``, by its kind; without `make`, those of a run that there is.

    Raises:
        lwt.errors.ConfigError: no such kind.
    """
    kind = config.data.kind
    if kind not in KINDS:
        raise errors.ConfigError(f"data.kind={kind!r}: {errors.suggest(kind, KINDS)}")
    return KINDS[kind](config.data, workdir, base=config.init_from, seed=config.seed, make=make)


def make_model(config, vocabulary, *, outputs=0):
    """The linen module of ``config.model``.

    Args:
        vocabulary: rows of its table.
        outputs: of its classifier, where the data tells; 0: the model's own default.
    """
    section, more = config.model.to_dict(), {"outputs": outputs} if outputs else {}
    own = registry.fields(registry.class_of("lwt.models", section["name"], key="model.name"))
    for key in ATTENTIONS & section.keys():
        taken = {*ATTENTION_GIVEN, *(ATTENTION_GIVEN_BY_SOME & own.keys())}
        section[key] = registry.maker("lwt.attention", section[key], key=f"model.{key}", taken=taken)
    more["packed"] = config.data.packed
    return registry.make("lwt.models", section, key="model", vocabulary=vocabulary, dtype=config.precision, **more)


def task_section(section):
    """The section of the task itself, which ``distill`` wraps: what a run is evaluated and used by.

    Raises:
        lwt.errors.ConfigError: it wraps nothing.
    """
    if section["name"] != "distill":
        return section
    if "task" not in section:
        raise errors.ConfigError("task.task is missing: it should be the section of the task that is to be distilled")
    return section["task"]


def make_task(config):
    """The task of ``config.task`` itself."""
    return registry.make("lwt.tasks", task_section(config.task), key="task", dtype=config.precision)


def make_goal(config, task):
    """What is trained for: `task`, or the `distill.Distill` that wraps it."""
    if config.task.name != "distill":
        return task
    section = {key: value for key, value in config.task.items() if key != "task"}
    return registry.make("lwt.tasks", section, key="task", task=task)


def make_teacher(config, goal, found, data, workdir, mesh):
    """The `teaching.Teacher` of a run that is distilled; see there.

    Raises:
        lwt.errors.ConfigError: also for a teacher that would mix the pairs of a packed row.
    """
    for run in found:
        if config.data.kind == "pairs" and config.data.packed and not run.config.data.packed:
            raise errors.ConfigError(
                f"data.packed=True, but task.teacher={run.workdir} reads one pair a row; it should be False"
            )
    return teaching.make(found, data, workdir, mesh=mesh, cache=goal.cache, layers=goal.matches_layers)


def _projections(config, goal, model, reparam, params, taught, data):
    """The leaves ``projection/...`` between layers of student and teacher, if there are to be any."""

    def apply(*args, **options):  # called for shapes alone: no weight is made
        return model.apply({"params": trees.unflatten(expand(reparam, params, 0))}, *args, **options)

    key = jax.random.fold_in(jax.random.key(config.seed), 3)
    learned = goal.init(key, apply, taught.apply(taught.leaves), data.example())
    return trees.with_prefix(learned, teaching.LEARNED)


def make_loss(model, task, reparam, *, train=True, teacher=None):
    """``(trainable, frozen, batch, step, key) -> (sum, count, sums)``: what the step differentiates.

    Without `train` there is no dropout, in the model or in an adapter. With a `teacher`, a `teaching.Teacher`, the task
    is a `distill.Distill`.
    """

    def loss(trainable, frozen, batch, at, key):
        dropout, adapter = jax.random.split(key)
        weights = expand(reparam, {**trainable, **frozen}, at, key=adapter if train else None)
        apply = functools.partial(model.apply, {"params": trees.unflatten(weights)})
        more = {}
        if teacher:
            more = {"teacher": teacher.apply(frozen), "projections": trees.subtree(trainable, teaching.LEARNED)}
        return task.loss(apply, batch, train=train, rngs={"dropout": dropout} if train else None, **more)

    return loss


def initial_params(config, model, reparam, base):
    """``(trainable, frozen)`` flat dicts with names ``base/...`` and ``adapter/...``.

    Args:
        base: flat weights of the run that this one starts from, or None for fresh ones.

    Raises:
        lwt.errors.ConfigError: ``optimizer.trainable`` matches no weight.
        lwt.errors.CheckpointError: the base's weights do not fit the model.
    """
    key = jax.random.fold_in(jax.random.key(config.seed), 1)
    make = functools.partial(init_weights, model, key)
    if base is None:
        base = jax.jit(make)()
    else:
        if config.init_skip:
            base = _without_skipped(config.init_skip, base, jax.jit(make)())
        difference = trees.differences(jax.eval_shape(make), base)
        if difference:
            raise errors.CheckpointError(f"init_from={config.init_from} holds another model: {difference}")
    adapter = reparam.init(jax.random.fold_in(key, 2), base)
    params = {**trees.with_prefix(compose.stored(reparam, base), "base"), **trees.with_prefix(adapter, "adapter")}
    constant = {f"adapter/{name}" for name, label in reparam.labels(adapter).items() if label == "constant"}
    wanted = set()
    if not config.optimizer.trainable:
        raise errors.ConfigError("optimizer.trainable is empty; it should name the weights to train, such as ('.*',)")
    for pattern in config.optimizer.trainable:
        wanted.update(trees.matching(params, pattern, what="optimizer.trainable"))
    return trees.split(params, lambda name: name in wanted - constant)


def _without_skipped(patterns, base, made):
    """`base`, but for the weights that match a pattern: those come from `made`."""
    skipped = {name for pattern in patterns for name in trees.matching(base | made, pattern, what="init_skip")}
    kept, _ = trees.split(base, lambda name: name not in skipped)
    return kept | trees.split(made, lambda name: name in skipped)[0]


def init_weights(model, key):
    """Fresh weights of a model as a flat dict."""
    return trees.flatten(model.init(key, model.example())["params"])


def expand(reparam, params, at, *, key=None):
    """``params`` (``base/...`` and ``adapter/...``) -> the weights that the model multiplies with."""
    return reparam.expand(trees.subtree(params, "base"), trees.subtree(params, "adapter"), at, key=key)
