"""Every core gives the bits of this machine on an emulated board, built by either compiler; one may be missing."""

import functools
import shutil
import subprocess

import pytest

from lwt import errors
from lwt.export.c import export, toolchain

VECTORS = dict(layers=2, kernel_size=5, pool="rms")
REMAINDERS = dict(width=18, hidden=21, heads=2)  # a remainder after vectors of eight, and odd addresses
needs_qemu = pytest.mark.skipif(
    not shutil.which(toolchain.QEMU), reason="apt install qemu-system-arm: it has the boards"
)


@pytest.fixture(scope="module")
def folder(variant, tmp_path_factory):
    """``folder(kind, activations, fields)``: an exported folder; `fields` are pairs."""

    @functools.cache
    def export_once(kind, activations, fields):
        made = tmp_path_factory.mktemp(kind)
        export.write(variant(kind, **dict(fields)), made, activations=activations)
        return made

    return export_once


def require(compiler):
    """Skips a test without the compiler."""
    if compiler not in toolchain.devices():
        how = {"zig": "pip install '.[c]'", "gcc": "apt install gcc-arm-none-eabi libnewlib-arm-none-eabi"}
        pytest.skip(f"needs a compiler: {how[compiler]}")


@needs_qemu
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
@pytest.mark.parametrize("core", toolchain.CORES)
def test_the_self_test_passes_on_a_board(core, compiler, folder):
    require(compiler)
    activations = ("fp16", "int8")[(toolchain.CORES.index(core) + (compiler == "gcc")) % 2]
    made = folder("embbert", activations, tuple(VECTORS.items()))
    bits = toolchain.make(made, "test", CC=toolchain.host(), CFLAGS="-O0").split()[-1]
    assert toolchain.qemu(made, core=core, compiler=compiler) == f"self-test: passed, bits {bits}"


@needs_qemu
@pytest.mark.parametrize(("core", "compiler"), [("m4f", "gcc"), ("m55", "zig")])
def test_heads_that_no_vector_divides(core, compiler, folder):
    require(compiler)
    made = folder("bert", "int8", tuple(REMAINDERS.items()))
    assert toolchain.qemu(made, core=core, compiler=compiler).startswith("self-test: passed")


@needs_qemu
def test_a_changed_weight_fails_on_the_board(variant, tmp_path):
    export.write(variant("embbert", layers=1, kernel_size=4), tmp_path, activations="fp16")
    path = tmp_path / "test/goldens.c"
    path.write_text(path.read_text().replace("0x1.", "0x1.f"))
    with pytest.raises(errors.ConfigError, match="self-test: failed"):
        toolchain.qemu(tmp_path, core="m4f", compiler=toolchain.require(toolchain.devices(), "a Cortex-M")[0])


def test_a_cortex_m55_computes_with_vectors(folder):
    require("zig")
    made = folder("embbert", "int8", tuple(VECTORS.items()))
    target = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m55+mve_fp")
    for file, instruction in (("engine.c", "vmlava.s16"), ("states_int8.c", "vmla.")):
        command = [*toolchain.ZIG, "cc", *target, "-std=c99", "-Os", "-S", "-o", "made.s", f"src/{file}"]
        subprocess.run(command, cwd=made, check=True)
        assert instruction in (made / "made.s").read_text()


def test_a_compiler_that_fails_is_replaced_by_the_other(folder, monkeypatch):
    made = folder("embbert", "fp16", tuple(VECTORS.items()))
    working = toolchain.require(toolchain.devices(), "a Cortex-M")[0]
    monkeypatch.setattr(toolchain, "devices", lambda: ("none", working))
    path, compiler = toolchain.firmware(made, core="m3")
    assert path.exists() and compiler == working
    monkeypatch.setattr(toolchain, "devices", lambda: ("none",))
    said = f"TOOLCHAIN=none: cores are {' '.join(toolchain.CORES)}, toolchains gcc and zig"
    with pytest.raises(errors.ConfigError, match=said):
        toolchain.firmware(made, core="m7")
