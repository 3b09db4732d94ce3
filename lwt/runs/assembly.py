"""The parts of a run, made from its config one by one: data, model, task, weights.

Each function makes one part and needs only those before it. `lwt/runs/experiment.py` puts them together to use a run,
`lwt/training/build.py` to train one.
"""

import functools

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.interpreters import partial_eval

from lwt import errors, registry, trees
from lwt.reparam import compose
from lwt.runs import adapter_folder, bases, hub, run_config

ATTENTIONS = {"attention", "decoder_attention", "cross_attention"}  # keys of a model's section
ATTENTION_GIVEN = {"width", "heads", "dropout", "dtype"}  # arguments that every model gives to its attentions
PROJECTION = "projection"  # prefix of leaves that are trained with a teacher and are not part of the model


def make_data(config, workdir, *, make=True, base=""):
    """The data of ``config.data``.

    Args:
        workdir: keeps the tokenizer, the splits and the labels.
        make: make what the workdir lacks; False: all of it must be there, as in a run that was trained.
        base: the folder whose tokenizer an adapter alone uses; "": where ``config.init_from`` is.
    """
    kind = registry.DATA_KINDS.find(config.data.kind, key="data.kind")
    reads_base = config.init_from and (make or adapter_folder.is_adapter(workdir))
    base = (base or bases.find(config.init_from, workdir)) if reads_base else ""
    return kind(config.data, workdir, base=base, seed=config.seed, make=make)


def make_model(config, vocabulary, *, outputs=0, frame=None):
    """The linen module of ``config.model``.

    Args:
        vocabulary: the number of ids. A table with more rows, as published ones may have, is in the config.
        outputs: classes; 0: the model's default.
        frame: the `lwt.data.frame.Frame` of the tokenizer; None for lwt's own tokenizers, and without one.
    """
    section, more = config.model.to_dict(), {"outputs": outputs} if outputs else {}
    rows = section.pop("vocabulary", vocabulary)
    if not isinstance(rows, int) or rows < vocabulary:
        raise errors.ConfigError(f"model.vocabulary={rows!r} must be at least {vocabulary}, the ids of the tokenizer")
    if frame is not None:
        more |= {"mask": frame.mask, "specials": frame.specials}
    own = registry.fields(registry.MODELS.find(section["name"], key="model.name"))
    for key in ATTENTIONS & section.keys():
        taken = ATTENTION_GIVEN | ({"use_bias"} & own.keys())  # which some models give too
        section[key] = registry.ATTENTIONS.partial(section[key], key=f"model.{key}", taken=taken)
    more["packed"] = config.data.packed
    return registry.MODELS.make(section, key="model", vocabulary=rows, dtype=config.precision, **more)


def attention_names(section):
    """The names of the attentions that a model's section asks for."""
    given = [section[key] for key in ATTENTIONS & set(section)]
    return {x.partition(":")[0] if isinstance(x, str) else x["name"] for x in given}


def task_section(section):
    """The section of the task that a run is evaluated and used by: the one inside ``distill``, or itself."""
    if section["name"] != "distill":
        return section
    if "task" not in section:
        raise errors.ConfigError("task.task is missing: it must be the section of the task to distil")
    return section["task"]


def make_task(config):
    """The task that a run is evaluated and used by; see `task_section`."""
    return registry.TASKS.make(task_section(config.task), key="task", dtype=config.precision)


def init_weights(model, key, *, names=None):
    """Fresh weights of a model as a flat dict, or only those of `names`; traced once for equal models and names."""
    return _initializer(model, names and frozenset(names))(key)


def once(make):
    """`make` as a function that keeps its last results, for equal arguments; those without a hash are not kept."""
    kept = functools.lru_cache(maxsize=8)(make)

    @functools.wraps(make)
    def answer(*args):
        try:
            hash(args)
        except TypeError:  # a dict in a model or task, such as the sizes of a pruned one
            return make(*args)
        return kept(*args)

    return answer


@once
def _initializer(model, names):
    """``key -> weights``, which are drawn one after the other, without the forward pass.

    Weights of equal shapes then share their compiled programs. One program for all weights takes up to three times as
    long to compile, and stays in memory. Every call gives new arrays, since a training step reuses their memory.
    """

    def initial(key):
        weights = trees.flatten(model.init(key, model.example())["params"])
        return {name: w for name, w in weights.items() if names is None or name in names}

    traced, shapes = jax.make_jaxpr(initial, return_shape=True)(jax.random.key(0))
    needed, _ = partial_eval.dce_jaxpr(traced.jaxpr, [True] * len(traced.jaxpr.outvars), instantiate=True)
    draw, constants = core.jaxpr_as_fun(core.ClosedJaxpr(needed, traced.consts)), {id(x) for x in traced.consts}
    wanted, tree = jax.tree.flatten(shapes)

    def new(leaf, shape):
        drawn = isinstance(leaf, jax.Array) and id(leaf) not in constants
        return leaf if drawn else jnp.array(leaf, shape.dtype)

    return lambda key: jax.tree.unflatten(tree, map(new, draw(key), wanted))


def initial_params(config, model, *, reparam, base=None, trained=None):
    """``(trainable, frozen)``: flat dicts of the leaves ``base/...`` and ``adapter/...``.

    Args:
        model: the linen module.
        reparam: the reparametrization of the run.
        base: flat weights of the run that this one starts from, or None for fresh ones.
        trained: weights that take the place of fresh ones where there is a base.

    Raises:
        lwt.errors.ConfigError: ``optimizer.trainable`` matches no weight.
        lwt.errors.CheckpointError: the base's weights do not fit the model.
    """
    key = jax.random.fold_in(jax.random.key(config.seed), 1)
    if base is None:
        base = init_weights(model, key)
    else:
        shapes, trained = jax.eval_shape(functools.partial(init_weights, model), key), trained or {}
        skipped = _skipped(config.init_skip, base | shapes)
        known = {name: trained[name] for name in skipped & trained.keys()}
        fresh = skipped & shapes.keys() - known.keys()
        made = init_weights(model, key, names=fresh) if fresh else {}
        base = {name: leaf for name, leaf in base.items() if name not in skipped} | known | made
        difference = trees.differences(shapes, base)
        if difference:
            raise errors.CheckpointError(
                f"init_from={config.init_from} holds another model: {_other_values(config)}take the values of that "
                f"run, or name in init_skip the weights to start anew; {difference}"
            )
    adapter = reparam.init(jax.random.fold_in(key, 2), base)
    params = {**trees.with_prefix(compose.stored(reparam, base), "base"), **trees.with_prefix(adapter, "adapter")}
    constant = {f"adapter/{name}" for name, label in reparam.labels(adapter).items() if label == "constant"}
    if not config.optimizer.trainable:
        raise errors.ConfigError("optimizer.trainable is empty; it must name the weights to train, such as ('.*',)")
    wanted = set()
    for pattern in config.optimizer.trainable:
        wanted.update(trees.matching(params, pattern, what="optimizer.trainable"))
    return trees.split(params, lambda name: name in wanted - constant)


def learned(reparam, trainable):
    """The leaves among `trainable` that the optimizer moves: all but those that `reparam` labels "state"."""
    labels = trees.with_prefix(reparam.labels(trees.subtree(trainable, "adapter")), "adapter")
    return {name: leaf for name, leaf in trainable.items() if labels.get(name) != "state"}


def expand(reparam, params, *, step, key=None):
    """The weights that the model multiplies with, from the leaves ``base/...`` and ``adapter/...`` at a step.

    Args:
        key: randomness for training; None in evaluation.
    """
    return reparam.expand(trees.subtree(params, "base"), trees.subtree(params, "adapter"), step, key=key)


def _other_values(config):
    """How the model of a run's base differs from its own, by their configs: words of an error, which end in "; "."""
    kept = run_config.kept(hub.folder(config.init_from))
    own, others = run_config.as_json(config)["model"], run_config.as_json(kept)["model"] if kept else {}
    keys = [key for key in own if others.get(key, own[key]) != own[key] and not isinstance(own[key], float)]
    return "".join(f"model.{key}={others[key]!r} there and {own[key]!r} here; " for key in keys)


def _skipped(patterns, leaves):
    """The names of the weights that a run does not take from its base."""
    return {name for pattern in patterns for name in trees.matching(leaves, pattern, what="init_skip")}
