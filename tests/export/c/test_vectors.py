"""A Cortex-M55 computes sums of products with vectors (MVE) and passes the self-test."""

import shutil
import subprocess
import sys

import pytest

from lwt.export.c import export

pytest.importorskip("ziglang", reason="pip install 'lwt[c]' brings the compiler")
CROSS = f"{sys.executable} -m ziglang cc -target thumb-freestanding-eabihf -mcpu=cortex_m55+mve_fp"
BOARD = ("MACHINE=mps3-an547", "FLASH_START=0", f"FLASH={1 << 19}", f"CROSS={CROSS}")


@pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="needs qemu-system-arm: unicorn has no Cortex-M55")
@pytest.mark.parametrize(
    ("kind", "activations", "fields"),
    [
        ("embbert", "fp16", dict(layers=2, kernel_size=5, pool="rms")),
        ("embbert", "int8", dict(layers=2, kernel_size=5, pool="rms")),
        ("bert", "int8", dict(width=18, hidden=21, heads=2)),  # a remainder after vectors of eight
    ],
)
def test_the_self_test_passes(variant, tmp_path, kind, activations, fields):
    export.export(variant(kind, **fields), tmp_path / "out", activations=activations)
    command = ["make", "-s", "-C", tmp_path / "out", "qemu", *BOARD]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "self-test: passed\n"  # QEMU prints it for a debugger


def test_the_compiler_emits_vector_instructions(variant, tmp_path):
    export.write(variant("embbert", layers=1, kernel_size=4), tmp_path, activations="int8")
    for file, instruction in (("engine.c", "vmlava.s16"), ("states_int8.c", "vmla.")):
        subprocess.run([*CROSS.split(), "-std=gnu11", "-Os", "-S", "-o", "made.s", file], cwd=tmp_path, check=True)
        assert instruction in (tmp_path / "made.s").read_text()
