"""Checks of a config, before anything is built or trained."""

from lwt import errors
from lwt.data.batches import labelled_examples
from lwt.runs import assembly, run_config

POSITIVE = (
    *("steps", "log_every", "keep_last"),
    *("data.rows", "data.row_length", "data.eval_batch", "optimizer.accumulate"),
)

TASKS = {  # data.kind -> tasks that read its batches
    "pairs": ("translate",),
    "labelled": ("classify", "regress"),
    "masked": ("masked_lm",),
    "images": ("classify_images",),
}
HEADS = {"classify": "classify", "regress": "classify", "masked_lm": "pretrain"}  # task -> model.head of a text model


def check(config):
    """Refuses values that would fail only later, during the run.

    Raises:
        lwt.errors.ConfigError: names the key.
    """
    run_config.require(config, "the config")
    for key in POSITIVE:
        *section, last = key.split(".")
        value = config[section[0]][last] if section else config[last]
        if value < 1:
            raise errors.ConfigError(f"{key}={value} should be at least 1")
    for key in ("epochs", "eval_every", "save_every"):
        if config[key] < 0:
            raise errors.ConfigError(f"{key}={config[key]} should not be negative")
    window = tuple(config.profile_steps)
    if window and (len(window) != 2 or not 1 <= window[0] <= window[1]):
        raise errors.ConfigError(f"profile_steps={window} should be (first, last), two steps in ascending order, or ()")
    if config.data.cut not in labelled_examples.CUTS:
        raise errors.ConfigError(
            f"data.cut={config.data.cut!r}: {errors.suggest(config.data.cut, labelled_examples.CUTS)}"
        )
    if config.precision not in ("float32", "bfloat16"):
        raise errors.ConfigError(f"precision={config.precision!r} should be 'float32' or 'bfloat16'")
    if config.data.rows % config.optimizer.accumulate:
        raise errors.ConfigError(
            f"data.rows={config.data.rows} is not divisible by optimizer.accumulate={config.optimizer.accumulate}"
        )


def check_data(config, data, model):
    """Refuses a task or a model that does not fit the data, or the other.

    Raises:
        lwt.errors.ConfigError: see `check_kind`, `check_labels` and `check_pool`.
    """
    check_kind(config, given=data.example(), read=model.example(), head=getattr(model, "head", None))
    if hasattr(data, "labels"):
        check_labels(assembly.task_section(config.task).name, config.data.kind, data.labels)
    check_pool(model, getattr(data, "fields", ()))


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


def check_labels(task, kind, labels):
    """Refuses a task that does not fit the labels: classes, numbers, or classes of images.

    Args:
        task: ``config.task.name``.
        kind: ``config.data.kind``.
        labels: a `lwt.data.labels.Labels`.

    Raises:
        lwt.errors.ConfigError: says which task fits.
    """
    wanted = "classify_images" if kind == "images" else "regress" if labels.regression else "classify"
    if task in ("regress", "classify", "classify_images") and task != wanted:
        what = "numbers" if labels.regression else f"the {labels.outputs} classes {', '.join(labels.names[:3])}, ..."
        of = "images" if kind == "images" else "texts"
        raise errors.ConfigError(f"task.name={task!r} should be {wanted!r}: the labels are {what} of {of}")


def check_pool(model, fields):
    """Refuses a head that compares two texts where a record has one.

    Args:
        model: the module.
        fields: names of the texts of a record.

    Raises:
        lwt.errors.ConfigError: names the heads that fit.
    """
    if getattr(model, "pool", "") == "pair" and len(fields) != 2:
        raise errors.ConfigError(
            f"model.pool='pair' compares two texts, and a record has {len(fields)} ({', '.join(fields)}); it should be "
            "'rms' or 'first', or data.fields should name two"
        )


def check_select(config, task, sums, validation):
    """Refuses a `select` that no evaluation computes.

    Raises:
        lwt.errors.ConfigError: names it.
    """
    figures = set(task.finish(dict.fromkeys(sums, 1.0)))
    if config.select not in figures and config.eval_decode and hasattr(task, "score"):
        figures.update(task.score(validation.references, validation.references, groups=validation.groups))
    if config.select not in figures:
        raise errors.ConfigError(
            f"select={config.select!r} is not an evaluation figure; {errors.suggest(config.select, figures)}"
        )
