"""Tunes the allocator for programs that free and allocate the same large buffers at every step."""

import ctypes
import os
import platform
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8  # of glibc's mallopt
TUNABLES = "glibc.malloc.hugetlb=1"


def tune_allocator():
    """Keeps freed memory in the process and puts it on huge pages; does nothing without glibc.

    By default glibc returns the hundreds of megabytes of a step to the system and requests them page by page again: a
    sixth of a training step's processor time in one comparison. Huge pages must be requested before a process starts,
    so this restarts the program in place with `GLIBC_TUNABLES` set (unless the user has set it). Call it first of all.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    if "GLIBC_TUNABLES" not in os.environ and sys.orig_argv:
        os.environ["GLIBC_TUNABLES"] = TUNABLES
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    libc = ctypes.CDLL(None)
    never = -1  # glibc reads it as no threshold; the largest int, 2 GB, is less than a large step allocates
    for option, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, never), (M_TOP_PAD, 1 << 28), (M_ARENA_MAX, 1)):
        libc.mallopt(option, value)
