"""Checks of a config, before anything is built or trained."""

import logging

from lwt import errors
from lwt.data import labels as labels_module
from lwt.data import sources
from lwt.runs import assembly, checkpoint, evaluation, run_config
from lwt.training import optim

LOG = logging.getLogger(__name__)

TASKS = {  # data.kind -> tasks that read its batches
    "pairs": ("translate",),
    "labelled": ("classify", "multilabel", "ordinal", "regress"),
    "compared": ("similarity",),
    "masked": ("masked_lm",),
    "images": ("classify_images",),
}
OF_KINDS = {  # keys of the data that only some kinds read
    "leak_free": ("labelled", "compared", "images"),
    "label_separator": ("labelled",),
    "join": ("masked",),
    **dict.fromkeys(("image_size", "channels", "randaugment"), ("images",)),
}
HEADS = {  # task -> model.head of a text model
    **dict.fromkeys(("classify", "multilabel", "ordinal", "regress"), "classify"),
    "similarity": "none",
    "masked_lm": "pretrain",
}


def check(config):
    """Raises `lwt.errors.ConfigError` for values that would fail only later, during the run."""
    run_config.check(config)
    if config.data.rows % config.optimizer.accumulate:
        raise errors.ConfigError(
            f"data.rows={config.data.rows} is not divisible by optimizer.accumulate={config.optimizer.accumulate}"
        )
    evaluation.share_of_process().rows(config.data.eval_batch, what="data.eval_batch: a batch")
    if not isinstance(config.data.test, str) and config.data.kind in ("pairs", "masked"):
        raise errors.ConfigError(f"data.test={config.data.test!r} should be one name: data.kind={config.data.kind!r}")
    for key, kinds in OF_KINDS.items():
        if config.data[key] and config.data.kind not in kinds:
            given = f"data.{key}={config.data[key]!r} has no effect"
            raise errors.ConfigError(f"{given}: data.kind={config.data.kind!r}, not {' or '.join(kinds)}")
    if config.init_skip and not config.init_from:
        raise errors.ConfigError(f"init_skip={tuple(config.init_skip)} has no effect, since init_from is empty")
    if config.data.kind == "pairs" and len(config.data.fields) != 2:
        raise errors.ConfigError(
            f"data.fields={tuple(config.data.fields)} should be two names, of source and target: data.kind='pairs'"
        )


def check_length(config, workdir, *, stretch=False):
    """Refuses to resume a run with fewer steps than it has done, or with another length that changes its schedule.

    Args:
        stretch: whether the schedule may be stretched to another length.
    """
    done, old = checkpoint.of_run(workdir).last_step(), run_config.kept(workdir)
    if not done or old is None:
        return
    if not config.epochs and config.steps < done:
        raise errors.ConfigError(
            f"steps={config.steps}: {workdir} holds a run of {done} steps; give as many or more, or another --workdir"
        )
    before, after = (f"epochs={c.epochs}" if c.epochs else f"steps={c.steps}" for c in (old, config))
    section = config.optimizer.schedule
    shortened = section.name == "constant" and section.get("warmup", 0) and (config.epochs or old.epochs)
    if before != after and (section.name in optim.STRETCHED or shortened):
        what = f"{after}: the {section.name} schedule of {workdir} is one for {before}"
        if not stretch:
            raise errors.ConfigError(
                f"{what}; with another length its learning rate jumps at step {done}; resume with {before}, or add "
                "--stretch_schedule"
            )
        LOG.warning("%s; it is stretched from step %d on", what, done)


def check_data(config, data, *, model):
    """Raises `lwt.errors.ConfigError` for a task or a model that does not fit the data."""
    for key in ("validation", "test"):
        for name in [config.data[key]] if isinstance(config.data[key], str) else config.data[key]:
            limits = {"max_malformed": config.data.max_malformed, "max_megabytes": config.data.max_megabytes}
            check_source(name, split=key, key=f"data.{key}", **limits)
    if config.task.name == "distill":
        check_distillation(config.task, config.model)
    check_kind(config, given=data.example(), read=model.example(), head=getattr(model, "head", None))
    if hasattr(data, "labels"):
        name = assembly.task_section(config.task).name
        check_labels(name, data.labels, kind=config.data.kind)
        if name in ("multilabel", "similarity") and config.task.name == "distill":
            raise errors.ConfigError(
                f"task.task.name={name!r} cannot be distilled; it should be 'classify' or 'regress'"
            )
        if name == "ordinal":
            check_order(data)
        if name == "similarity":
            check_scale(assembly.make_task(config), data.training_references)
    check_pool(model, getattr(data, "fields", ()))
    length = getattr(model, "max_length", 0)
    if config.data.kind not in ("pairs", "images") and length and config.data.row_length > length:
        raise errors.ConfigError(
            f"data.row_length={config.data.row_length} must be at most model.max_length={length}, the rows of its table"
        )
    longest = data.longest if config.data.kind == "pairs" else 0
    if longest > (getattr(model, "max_length", 0) or longest):
        raise errors.ConfigError(
            f"model.max_length={model.max_length} must be at least {longest}, the longest row of an evaluation "
            f"(data.max_tokens={config.data.max_tokens}), or model.positions 'sinusoidal'"
        )


def check_kind(config, *, given, read, head):
    """Refuses a model or a task that reads other batches than the data make, and a text model with another head.

    Args:
        config: of the run.
        given: names of the arrays in a batch of the data.
        read: names of the arrays that the model reads.
        head: ``model.head`` of a text model; None for other models.

    Raises:
        lwt.errors.ConfigError: names the keys that do not fit.
    """
    kind, task = config.data.kind, assembly.task_section(config.task).name
    data = f"data.kind={kind!r}"
    if missing := sorted(set(read) - set(given)):
        raise errors.ConfigError(
            f"model.name={config.model.name!r} reads {', '.join(missing)}, and the batches of {data} hold "
            f"{', '.join(sorted(given))}; change one of the two"
        )
    if task not in TASKS[kind]:
        raise errors.ConfigError(f"task.name={task!r} does not fit {data}; choose from {', '.join(TASKS[kind])}")
    if head is not None and head != HEADS[task]:
        raise errors.ConfigError(f"task.name={task!r} needs model.head={HEADS[task]!r}, not {head!r}")


def check_source(name, *, split, key, **limits):
    """Refuses the name of a source ("" for none) that does not exist or has no such split, unless it names its own.

    Args:
        limits: ``max_malformed`` and ``max_megabytes`` of `lwt.data.sources.load`.
    """
    for part in filter(None, sources.parts_of(name)):
        own = sources.split_of(part)
        try:
            sources.describe(part, split=split)
            if own and own not in sources.splits(sources.without_split(part)):
                sources.load(part, **limits)  # running text, or a slice of a split, is not listed
        except errors.DataError as error:
            raise errors.ConfigError(f"{key}={name}: {error}") from error


def check_labels(task, labels, *, kind):
    """Refuses a task (a name) that does not fit the labels: classes, numbers, or classes of images."""
    if kind == "images":
        fit, what = ("classify_images",), f"the {labels.outputs} classes {_some(labels)} of images"
    elif labels.separator:
        fit, what = ("multilabel",), f"several of {_some(labels)}, with {labels.separator!r} between"
    elif labels.regression:
        fit, what = ("similarity" if kind == "compared" else "regress",), "numbers of texts"
    else:
        fit, what = ("classify", "ordinal"), f"the {labels.outputs} classes {_some(labels)} of texts"
    if task not in fit:
        more = "; for several labels per text, set data.label_separator" if task == "multilabel" else ""
        raise errors.ConfigError(
            f"task.name={task!r} should be {' or '.join(map(repr, fit))}: the labels are {what}{more}"
        )


def _some(labels):
    return ", ".join(labels.names[:3]) + (", ..." if labels.outputs > 3 else "")


def check_order(data):
    """Refuses an ordinal task whose classes have no order: they are neither numbers nor declared by the source."""
    if not (data.declared_classes or None not in map(labels_module.number_of, data.labels.names)):
        raise errors.ConfigError(
            f"task.name='ordinal': the classes {_some(data.labels)} have no order; they should be numbers, or lines of "
            "a file labels.txt beside the data, the lowest first"
        )


def check_scale(task, references):
    """Refuses labels `[n]` of a similarity that no cosine can reach on its scale: those below -1 or above 1."""
    lowest, highest = references.min(), references.max()
    if task.target(lowest) < -1 or task.target(highest) > 1:
        raise errors.ConfigError(
            f"task.low={task.low:g}, task.high={task.high:g}: the labels go from {lowest:g} to {highest:g}; give both "
            "ends of their scale"
        )


def check_distillation(task, model):
    """Refuses to compare the layers of a model (its section) that runs them in a loop or again, where none is seen."""
    compares = task.get("hidden") or task.get("attention")
    if compares and (model.get("scan") or model.get("remat", "none") != "none"):
        raise errors.ConfigError(
            "task.hidden and task.attention compare layers as they run; set model.scan=False and model.remat='none'"
        )


def check_pool(model, fields):
    """Refuses a head that compares two texts where a record has one; `fields` names its texts."""
    if getattr(model, "pool", "") == "pair" and len(fields) != 2:
        raise errors.ConfigError(
            f"model.pool='pair' compares two texts, and a record has {len(fields)} ({', '.join(fields)}); it should be "
            "'rms', 'mean' or 'first', or data.fields should name two"
        )


def check_trainable(config, trainable, *, frozen):
    """Refuses to train an adapter on random weights; warns if random weights are frozen."""
    if config.init_from:
        return
    random = [name for name in frozen if name.startswith("base/")]
    if random and not any(name.startswith("base/") for name in trainable):
        raise errors.ConfigError(
            f"init_from='': optimizer.trainable={tuple(config.optimizer.trainable)} trains an adapter of random "
            "weights; name the workdir of the run to adapt"
        )
    if random:
        LOG.warning("%d frozen weights stay random, since init_from is empty: %s, ...", len(random), random[0])


def check_select(config, task, *, sums, validation):
    """Refuses a `select` that no evaluation computes; `sums` names what the loss adds up."""
    figures = set(task.finish(dict.fromkeys(sums, 1.0)))
    if config.select not in figures and config.eval_decode and hasattr(task, "score"):
        figures.update(task.score(validation.references, validation.references, groups=validation.groups))
    if config.select not in figures:
        raise errors.ConfigError(
            f"select={config.select!r} is not an evaluation figure; {errors.suggest(config.select, figures)}"
        )
