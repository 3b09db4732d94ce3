"""The firmware on an emulated Cortex-M4F gives the answers of the program for this machine."""

import math

import numpy as np
import pytest

from lwt import errors
from lwt.export.c import emulator, toolchain

pytest.importorskip("ziglang", reason="pip install '.[c]' brings the compiler")
pytest.importorskip("unicorn", reason="pip install '.[c]' brings the emulator")
pytestmark = pytest.mark.usefixtures("compiled_once")
TEXTS = ["a cold old one, 2 bold ones", "", "£5 — naïve", "warm long dark young slow great small " * 6]


def logits_of_host(answer, text):
    return np.array(answer([text + "\n"])[0].split("\t")[1:], np.float64)


@pytest.mark.parametrize(
    ("kind", "activations", "fields"),
    [
        ("embbert", "fp16", dict(layers=2, kernel_size=5, pool="rms")),
        ("embbert", "int8", dict(layers=2, kernel_size=5, pool="rms")),
        ("mamba", "int8", dict(layers=2, pool="rms")),
        ("bert", "int8", dict(width=18, hidden=21, heads=2)),  # what SMLAD leaves over, and odd addresses
    ],
)
def test_the_device_equals_the_host_to_the_bit(kind, activations, fields, variant, program):
    experiment = variant(kind, **fields)
    answer = program(experiment, activations)
    elf = toolchain.read(toolchain.firmware(answer.folder)[0])
    board = emulator.Board(elf, outputs=3)
    for text in TEXTS:
        best, logits = board.classify(text)
        np.testing.assert_array_equal(logits, logits_of_host(answer, text).astype(np.float32), err_msg=text)
        assert best == logits.argmax()
    assert 200 < board.stack_used() < elf.sizes()["ram"]["stack"] - 256


def test_sizes_and_instructions(variant, program):
    experiment = variant("embbert", layers=1, kernel_size=4)
    answer = program(experiment, "fp16")
    elf = toolchain.read(toolchain.firmware(answer.folder)[0])
    sizes = elf.sizes()
    shapes = {name: w.shape for name, w in experiment.weights.items() if "difference" not in name}
    count = sum(math.prod(shape) * (2 if len(shape) == 1 else 1) for shape in shapes.values())
    assert count <= sizes["flash"]["weights"] <= count + 64  # arrays of two bytes are aligned
    states = 2 * 24 * 20 * 2
    assert states < sizes["ram"]["arena"] and sizes["ram"]["data"] == 0
    assert sizes["total"] == sum(sizes["flash"].values()) + sum(sizes["ram"].values())
    board = emulator.Board(elf, outputs=3)
    executed = []
    board._machine.hook_add(board._unicorn.UC_HOOK_CODE, lambda *_: executed.append(1))
    board.classify("old")
    # the emulator's own count leaves out instructions that a condition skips, about 1 %
    assert 0.97 < len(executed) / sum(board.stages(lambda: board.classify("old"))) <= 1


def test_an_access_outside_the_memory_stops_the_device(variant, program):
    answer = program(variant("embbert", layers=1, kernel_size=4), "fp16")
    path = answer.folder / "src/lwt.c"
    path.write_text(path.read_text().replace("answer->best = 0;", "answer->best = *(volatile int *)0x20030000 * 0;"))
    board = emulator.Board(toolchain.read(toolchain.firmware(answer.folder)[0]), outputs=3)
    with pytest.raises(errors.ConfigError, match="lwt_classify stops at 0x80"):
        board.classify("old")
    with pytest.raises(errors.DataError, match=r"the text 'oldoldold.*'... does not fit .* 32,768 bytes"):
        board.classify("old" * 11_000)
