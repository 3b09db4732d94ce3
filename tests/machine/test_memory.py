"""The allocator: one restart with its tunables, and freed memory that stays in the process."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator is not glibc's")

RESTARTED = """
import os, sys
from lwt.machine import memory
memory.tune_allocator()
print(os.environ.get("GLIBC_TUNABLES"), *sys.argv[1:])
"""
REALLOCATED = """
import ctypes, resource
from lwt.machine import memory
memory.tune_allocator()
libc = ctypes.CDLL(None)
libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = libc.malloc(5 << 29)
    for place in range(block, block + (5 << 29), 1 << 23):  # a page in 8 MB
        ctypes.c_char.from_address(place).value = b"x"
    libc.free(block)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(tmp_path, program, *arguments, **environment):
    path = tmp_path / "program.py"
    path.write_text(program)
    kept = {key: value for key, value in os.environ.items() if key != "GLIBC_TUNABLES"} | {"PYTHONPATH": os.getcwd()}
    command = [sys.executable, path, *arguments]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=True).stdout


def test_the_program_restarts_once_with_its_arguments(tmp_path):
    asked = run(tmp_path, RESTARTED, "a b", "--c=1")
    assert asked == "glibc.malloc.hugetlb=1 a b --c=1\n"
    asked = run(tmp_path, RESTARTED, "a b", "--c=1", GLIBC_TUNABLES="glibc.malloc.check=0")
    assert asked == "glibc.malloc.check=0 a b --c=1\n"


def test_buffers_of_any_size_stay_in_the_process(tmp_path):
    # 2.5 GB: glibc's own options, as ints, end at 2 GB
    first, second = map(int, run(tmp_path, REALLOCATED).split())
    assert first >= 320 > 20 > second
