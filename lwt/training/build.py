"""From a config to what the loop runs. The only reader of a config."""

import functools
import json
import os

import jax
import ml_collections

from lwt import errors, registry, trees
from lwt.data import pairs
from lwt.layers import linear
from lwt.reparam import adapters, compose
from lwt.training import devices, evaluation, loop, optim, step

MAY_CHANGE = ("steps", "log_every", "eval_every", "save_every", "keep_last", "profile_steps", "mesh", "sharding")
CADENCES = ("log_every", "eval_every", "save_every", "keep_last", "select", "select_mode")


def build(config, workdir, *, base=None):
    """Everything that `loop.train` needs; leaves ``config.json`` and ``tokenizer.model`` in the workdir.

    Args:
        config: see `configs/common.py`.
        workdir: made if need be.
        base: flat weights to start from, those of the run ``config.init_from``; None for fresh ones.

    Raises:
        lwt.errors.ConfigError, DataError, CheckpointError: naming the key, file or leaf, before training starts.
    """
    check(config)
    keep_config(config, workdir)
    data = pairs.Pairs(config.data, workdir, base=config.init_from, seed=config.seed)
    model, task = make_model(config, data.tokenizer.vocabulary), make_task(config)
    reparam = compose.build(config.reparam)
    trainable, frozen = initial_params(config, model, reparam, base)
    mesh = devices.make_mesh(config.mesh)
    batches = data.training(process=jax.process_index(), processes=jax.process_count())

    def loss(trainable, frozen, batch, step_number, key):
        dropout, adapter = jax.random.split(key)
        weights = expand(reparam, {**trainable, **frozen}, step_number, key=adapter)
        apply = functools.partial(model.apply, {"params": trees.unflatten(weights)})
        return task.loss(apply, batch, train=True, rngs={"dropout": dropout})

    optimizer, rate = optim.build(config.optimizer, trainable, steps=config.steps)
    sums = jax.eval_shape(lambda: loss(trainable, frozen, data.example(), 0, jax.random.key(0))[2])
    init = functools.partial(step.init_state, optimizer=optimizer, seed=config.seed, sums=(*sums, "grad_norm", "steps"))
    places = devices.shardings(mesh, jax.eval_shape(init, trainable), config.sharding)
    frozen = devices.put(frozen, devices.shardings(mesh, frozen, config.sharding))
    evaluator = evaluation.Evaluator(task, model, mesh)
    validation = data.evaluation(config.data.validation)
    weights_of = jax.jit(lambda params, at: linear.merge(expand(reparam, params, at)))
    base_print = adapters.fingerprint(base) if base else ""

    def evaluate(state):
        weights = weights_of({**state.trainable, **frozen}, state.step)
        return evaluator.figures(weights, data, validation, generate=config.eval_decode)[0]

    def save_adapter(state):
        adapter = trees.subtree({**state.trainable, **frozen}, "adapter")
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
        finish=task.finish,
        rate=rate,
        leaves=tuple(sorted(trainable)),
        identity={"tokenizer": data.tokenizer.fingerprint, "base": base_print},
        save_adapter=save_adapter,
        profile_steps=tuple(config.profile_steps),
        **{key: config[key] for key in CADENCES},
    )


def check(config):
    """Refuses what would only fail later.

    Raises:
        lwt.errors.ConfigError: names the key.
    """
    for key in ("steps", "log_every", "eval_every", "save_every", "keep_last"):
        if config[key] < 1:
            raise errors.ConfigError(f"{key}={config[key]} should be at least 1")
    if config.precision not in ("float32", "bfloat16"):
        raise errors.ConfigError(f"precision={config.precision!r} should be 'float32' or 'bfloat16'")
    if config.data.rows % config.optimizer.accumulate:
        raise errors.ConfigError(
            f"data.rows={config.data.rows} is not divisible by optimizer.accumulate={config.optimizer.accumulate}"
        )


def keep_config(config, workdir):
    """Writes ``workdir/config.json``; a workdir that holds another run's is refused.

    Raises:
        lwt.errors.ConfigError: names the first key that differs.
    """
    path = os.path.join(workdir, "config.json")
    new = json.loads(json.dumps(config.to_dict()))
    if os.path.exists(path):
        old = read_config(workdir).to_dict()
        flat_old, flat_new = trees.flatten(json.loads(json.dumps(old))), trees.flatten(new)
        for key in sorted({*flat_old, *flat_new}):
            if flat_old.get(key) != flat_new.get(key) and key.split("/")[0] not in MAY_CHANGE:
                was, now = flat_old.get(key), flat_new.get(key)
                raise errors.ConfigError(
                    f"{workdir} holds a run with {key.replace('/', '.')}={was!r}, not {now!r}; "
                    "give another --workdir, or the same config to go on"
                )
    if jax.process_index() == 0:
        os.makedirs(workdir, exist_ok=True)
        temporary = f"{path}.tmp"
        with open(temporary, "w") as file:
            json.dump(new, file, indent=2)
        os.replace(temporary, path)


def read_config(workdir):
    """The config of an existing run.

    Raises:
        lwt.errors.CheckpointError: there is none, or it is damaged.
    """
    path = os.path.join(workdir, "config.json")
    try:
        with open(path) as file:
            return ml_collections.ConfigDict(json.load(file))
    except OSError as error:
        raise errors.CheckpointError(
            f"{workdir} is not the workdir of a run: {path} cannot be read ({error.strerror}); give the --workdir of a "
            "train.py call"
        ) from error
    except ValueError as error:
        raise errors.CheckpointError(
            f"{path} is damaged: {error}; it should be the JSON that train.py wrote"
        ) from error


def make_model(config, vocabulary):
    """The linen module of ``config.model``."""
    section = dict(config.model)
    if isinstance(section.get("attention"), str):
        section["attention"] = registry.class_of("lwt.attention", section["attention"], key="model.attention")
    return registry.make("lwt.models", section, key="model", vocabulary=vocabulary, dtype=config.precision)


def make_task(config):
    """The task of ``config.task``."""
    return registry.make("lwt.tasks", config.task, key="task", dtype=config.precision)


def initial_params(config, model, reparam, base):
    """``(trainable, frozen)`` flat dicts with names ``base/...`` and ``adapter/...``.

    Args:
        base: flat weights of the run that this one starts from, or None for fresh ones.

    Raises:
        lwt.errors.ConfigError: ``optimizer.trainable`` matches no weight.
        lwt.errors.CheckpointError: the base's weights do not fit the model.
    """
    key = jax.random.fold_in(jax.random.key(config.seed), 1)
    fresh = jax.eval_shape(lambda: init_weights(model, key))
    if base is None:
        base = jax.jit(lambda: init_weights(model, key))()
    difference = trees.differences(fresh, base)
    if difference:
        raise errors.CheckpointError(f"init_from={config.init_from} holds another model: {difference}")
    adapter = reparam.init(jax.random.fold_in(key, 2), base)
    params = {**trees.with_prefix(base, "base"), **trees.with_prefix(adapter, "adapter")}
    constant = {f"adapter/{name}" for name, label in reparam.labels(adapter).items() if label == "constant"}
    wanted = set()
    for pattern in config.optimizer.trainable:
        wanted.update(trees.matching(params, pattern, what="optimizer.trainable"))
    return trees.split(params, lambda name: name in wanted - constant)


def init_weights(model, key):
    """Fresh weights of a model as a flat dict."""
    return trees.flatten(model.init(key, model.example())["params"])


def expand(reparam, params, at, *, key=None):
    """``params`` (``base/...`` and ``adapter/...``) -> the weights that the model multiplies with."""
    return reparam.expand(trees.subtree(params, "base"), trees.subtree(params, "adapter"), at, key=key)
