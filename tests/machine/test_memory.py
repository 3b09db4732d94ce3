"""The allocator: one restart with its tunables, freed memory that stays. JAX: one program at a time, and a trim."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator is not glibc's")

RESTARTED = """
import os, sys
from lwt.machine import memory
memory.tune()
print(os.environ.get("GLIBC_TUNABLES"), *sys.argv[1:])
"""
REALLOCATED = """
import ctypes, resource
from lwt.machine import memory
memory.tune()
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


@pytest.mark.parametrize("package, own", [("lwt_like", False), ("studies", True)])
def test_programs_of_other_packages_are_left_alone(tmp_path, package, own):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("import lwt\n")
    text = "import signal\nprint(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    (tmp_path / package / "job.py").write_text(text)
    paths = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    done = subprocess.run(
        [sys.executable, "-m", f"{package}.job"],
        cwd=tmp_path,
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == str(not own), done.stderr


AHEAD = """
import jax, jax.numpy as jnp
from lwt.machine import memory
memory.tune()
x = jnp.ones((200, 200))
long = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda _, x: jnp.sin(x @ x), x)).lower(x).compile()
print(long(x).is_ready())
"""
COMPILES = """
import ctypes, time, jax, jax.numpy as jnp
from lwt.machine import memory
memory.tune()
trimmed = []
memory.LONG = {long}
memory._keep_room = lambda: None
memory.ctypes.CDLL = lambda name: type("Libc", (), dict(malloc_trim=trimmed.append))
jax.jit(jnp.cos)(1.0)
print(trimmed)
for _ in range(3):
    memory.settle()
print(trimmed)
"""

CACHED = """
import jax
from lwt.machine import memory
memory.tune()
memory.COMPILED, memory.LONG = "", -1e9  # nothing is compiled for long; what the cache saves here is less than nothing
memory._trim, memory._keep_room = lambda: None, lambda: print("room")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.jit(jax.numpy.cos).lower(1.0).compile()
"""

ROOM = """
import ctypes
from lwt.machine import memory
memory.tune()
libc = ctypes.CDLL(None)
libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
large = 300 << 20
{keep}
step = libc.malloc(large)
after = libc.malloc(1 << 20)  # a step's output, which stays
libc.free(step)
batch = libc.malloc(8 << 20)
print(libc.malloc(large) == step)
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


def test_no_program_is_sent_ahead(tmp_path):
    assert run(tmp_path, AHEAD) == "True\n"
    assert run(tmp_path, AHEAD, JAX_CPU_ENABLE_ASYNC_DISPATCH="true") == "False\n"


def test_a_long_compilation_returns_what_it_freed(tmp_path):
    assert run(tmp_path, COMPILES.format(long=0)) == "[0]\n[0, 0]\n"  # and what its first step left, once
    assert run(tmp_path, COMPILES.format(long=1e9)) == "[]\n[]\n"


def test_a_program_from_the_cache_keeps_the_room_too(tmp_path):
    cached = dict(JAX_COMPILATION_CACHE_DIR=str(tmp_path / "cache"))
    assert run(tmp_path, CACHED, **cached) == ""
    assert run(tmp_path, CACHED, **cached) == "room\n"


def test_small_arrays_leave_the_place_of_a_large_one(tmp_path):
    assert run(tmp_path, ROOM.format(keep="memory._keep_room()")) == "True\n"
    assert run(tmp_path, ROOM.format(keep="")) == "False\n"
