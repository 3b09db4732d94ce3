"""Trains the run of a config: the door that ``train.py`` and the studies use."""

from lwt.runs import assembly, bases, experiment
from lwt.training import build, lock, loop, together


def run(config, workdir, *, stretch=False):
    """Trains the run of `config` in `workdir`, or resumes it there; returns the figures of the last evaluation.

    Args:
        stretch: whether a resumed run of another length may stretch its schedule.

    Raises:
        lwt.errors.ConfigError: another process is training in `workdir`; or see `build.build`.
    """
    with lock.held(workdir):
        folder = bases.find(config.init_from, workdir) if config.init_from else None
        base = experiment.arrays_of(folder, config.init_checkpoint) if folder else None
        if config.tasks:
            return loop.train(together.build_run(config, workdir, base=base, stretch=stretch))
        return loop.train(build.build(config, workdir, base=base, teachers=teachers_of(config), stretch=stretch))


def teachers_of(config):
    """The experiments that the run of `config` learns from by distillation; an empty list without distillation."""
    if config.task.name != "distill":
        return []
    objective = build.make_objective(config, assembly.make_task(config))
    return [experiment.load(teacher, checkpoint=objective.checkpoint) for teacher in objective.teachers]
