"""Keeps the memory of a program small and at hand: tunes the allocator, and what JAX asks it for on a CPU."""

import ctypes
import functools
import os
import platform
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8  # of glibc's mallopt
TUNABLES = "glibc.malloc.hugetlb=1"
ASYNC = "jax_cpu_enable_async_dispatch"
COMPILED = "/jax/core/compile/backend_compile_duration"
SAVED = "/jax/compilation_cache/compile_time_saved_sec"  # by a program that was read from JAX's cache
LONG = 1.0  # seconds of a compilation that leaves memory worth returning
ROOM = 1 << 26  # bytes
_compiled = []  # seconds of the long compilations since the last call of `settle`


def tune():
    """Tunes the allocator, and JAX if it is imported. Call it first of all, and again once JAX is imported."""
    if platform.libc_ver()[0] == "glibc":
        _tune_allocator()
    if "jax" in sys.modules:
        _tune_jax()


def _tune_allocator():
    """Keeps freed memory in the process and puts it on huge pages.

    By default glibc returns the hundreds of megabytes of a step to the system and requests them page by page again: a
    sixth of a training step's processor time in one comparison. Huge pages must be requested before a process starts,
    so this restarts the program in place with `GLIBC_TUNABLES` set (unless the user has set it).
    """
    if "GLIBC_TUNABLES" not in os.environ and sys.orig_argv:
        os.environ["GLIBC_TUNABLES"] = TUNABLES
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    libc = ctypes.CDLL(None)
    never = -1  # glibc reads it as no threshold; the largest int, 2 GB, is less than a large step allocates
    for option, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, never), (M_TOP_PAD, 1 << 28), (M_ARENA_MAX, 1)):
        libc.mallopt(option, value)


@functools.cache
def _tune_jax():
    """Runs one program at a time on a CPU, unless the environment sets this; listens for long compilations.

    A program that is dispatched ahead holds its arrays while it waits, so a step would take its memory twice.
    """
    import jax

    if ASYNC.upper() not in os.environ:
        jax.config.update(ASYNC, False)
    jax.monitoring.register_event_duration_secs_listener(_note)


def _note(event, seconds, **_):
    if event in (COMPILED, SAVED) and seconds > LONG:
        _compiled.append(seconds)
        _trim()
        _keep_room()


def settle():
    """Returns freed memory to the system after the first step of a program that took long to compile.

    Call it after every step. The process of a small ViT then holds 670 MB instead of 705.
    """
    if _compiled:
        _compiled.clear()
        _trim()


def _trim():
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def _keep_room():
    """Keeps a free block of `ROOM` bytes for small arrays. A small block behind it stops it from merging with the rest.

    When a step frees its large array, the hole has exactly that size. If a small array is then placed in the hole, the
    next step's large array no longer fits and takes new memory: a translator's process held 970 or 1,340 MB, by chance.
    malloc uses the smallest free block that fits, so small arrays go into the free block. Its pages take no memory
    until they are written.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    libc, pointer = ctypes.CDLL(None), ctypes.c_void_p
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], pointer
    libc.realloc.argtypes, libc.realloc.restype = [pointer, ctypes.c_size_t], pointer
    libc.free.argtypes = [pointer]
    block, behind = libc.malloc(ROOM), libc.malloc(ROOM)
    libc.realloc(behind, 4096)  # in place
    libc.free(block)
