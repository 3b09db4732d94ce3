"""One process at a time trains in a workdir: two would overwrite each other's checkpoints and figures."""

import contextlib
import os

import filelock
import jax

from lwt import errors

NAME = ".lock"


@contextlib.contextmanager
def held(workdir):
    """Keeps other processes from training in a workdir until the block ends, or the process does.

    The processes of one run share the lock; the first of them holds it. A workdir that cannot be written is not locked:
    training fails there with its own message.

    Raises:
        lwt.errors.ConfigError: another process holds the lock.
    """
    with contextlib.ExitStack() as stack:
        if jax.process_index() == 0:
            try:
                os.makedirs(workdir, exist_ok=True)
                stack.enter_context(filelock.FileLock(os.path.join(workdir, NAME), blocking=False))
            except filelock.Timeout:
                raise errors.ConfigError(
                    f"--workdir={workdir}: another process is training there; wait for it, or give another folder"
                ) from None
            except (OSError, NotImplementedError):  # not writable, or a file system without locks
                pass
        yield
