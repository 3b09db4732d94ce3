import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from lwt.training import memory
memory.settle()
print(os.environ.get("GLIBC_TUNABLES"), *sys.argv[1:])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator is not glibc's")
def test_the_program_starts_again_once_with_its_arguments(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    environment.pop("GLIBC_TUNABLES", None)

    def run(**more):
        command = [sys.executable, program, "a b", "--c=1"]
        return subprocess.run(command, env=environment | more, capture_output=True, text=True, check=True).stdout

    assert run() == "glibc.malloc.hugetlb=1 a b --c=1\n"
    assert run(GLIBC_TUNABLES="glibc.malloc.check=0") == "glibc.malloc.check=0 a b --c=1\n"
