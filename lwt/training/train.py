"""Trains the run of a config: the entry point of ``train.py`` and of the studies."""

import contextlib
import os

import filelock
import jax

from lwt import errors
from lwt.runs import assembly, bases, experiment
from lwt.training import build, loop, together

LOCK = ".lock"


def run(config, workdir, *, stretch=False):
    """Trains the run of `config` in `workdir`, or resumes it there; returns the figures of the last evaluation.

    Args:
        stretch: whether a resumed run of another length may stretch its schedule.

    Raises:
        lwt.errors.ConfigError: another process is training in `workdir`; or see `build.build`.
    """
    with locked(workdir):
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


@contextlib.contextmanager
def locked(workdir):
    """Keeps other processes from training in a workdir: two would overwrite each other's checkpoints and figures.

    The processes of one run share the lock, which ends with the block or the process; the first of them holds it. A
    workdir that cannot be written is not locked: training fails there with its own message.

    Raises:
        lwt.errors.ConfigError: another process holds the lock.
    """
    with contextlib.ExitStack() as stack:
        if jax.process_index() == 0:
            try:
                os.makedirs(workdir, exist_ok=True)
                stack.enter_context(filelock.FileLock(os.path.join(workdir, LOCK), blocking=False))
            except filelock.Timeout:
                raise errors.ConfigError(
                    f"--workdir={workdir}: another process is training there; wait for it, or give another folder"
                ) from None
            except (OSError, NotImplementedError):  # not writable, or a file system without locks
                pass
        yield
