"""The allocator, set for programs that free and take the same large buffers at every step."""

import ctypes
import os
import platform
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8  # of glibc's mallopt
TUNABLES = "glibc.malloc.hugetlb=1"


def settle():
    """Keeps freed memory in the process, and lays it on huge pages; does nothing where there is no glibc.

    A step on a CPU takes and frees hundreds of megabytes. By default glibc gives them back to the system each time and
    takes them page by page again: about a sixth of a training step's processor time in one comparison. Huge pages
    can only be asked for before a process starts, so the program is started once more, in place, with
    `GLIBC_TUNABLES` set (unless the user has set it). To be called first of all, before jax is imported.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    if "GLIBC_TUNABLES" not in os.environ and sys.orig_argv:
        os.environ["GLIBC_TUNABLES"] = TUNABLES
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    libc = ctypes.CDLL(None)
    never = -1  # what glibc takes as no threshold at all; the largest int, 2 GB, is less than a large step takes
    for option, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, never), (M_TOP_PAD, 1 << 28), (M_ARENA_MAX, 1)):
        libc.mallopt(option, value)
