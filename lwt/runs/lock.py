"""One run at a time in a workdir: two would write over each other's checkpoints and figures."""

import contextlib
import os

import jax

from lwt import errors

try:
    import fcntl
except ImportError:  # there is none on Windows
    fcntl = None


@contextlib.contextmanager
def held(workdir):
    """Keeps other runs out of a workdir until the block ends, or the process does.

    Locked is the folder itself, so that nothing is left in it. Of the processes of one run, the first holds the lock. A
    folder that cannot be written, and a file system without locks, are passed over.

    Raises:
        lwt.errors.ConfigError: another run holds it.
    """
    with contextlib.ExitStack() as stack:
        if fcntl and jax.process_index() == 0:
            try:
                os.makedirs(workdir, exist_ok=True)
                folder = os.open(workdir, os.O_RDONLY)
                stack.callback(os.close, folder)
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise errors.ConfigError(
                    f"--workdir={workdir}: another process is training there; wait for it, or give another folder"
                ) from None
            except OSError:
                pass
        yield
