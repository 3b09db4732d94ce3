"""The firmware on an emulated Cortex-M4F answers as the program for this machine does, and its sizes are kept."""

import json
import math

import numpy as np
import pytest

from lwt import errors
from lwt.export.c import check, emulator, export, literals, toolchain

pytest.importorskip("ziglang", reason="pip install 'lwt[c]' brings the compiler")
pytest.importorskip("unicorn", reason="pip install 'lwt[c]' brings the emulator")
pytestmark = pytest.mark.usefixtures("compiled_once")
TEXTS = ["a cold old one, 2 bold ones", "", "£5 — naïve", "warm long dark young slow great small " * 6]


def hosts(answer, text):
    return np.array(answer([text + "\n"])[0].split("\t")[1:], np.float64)


@pytest.mark.parametrize(
    ("kind", "activations", "fields"),
    [
        ("embbert", "fp16", dict(layers=2, kernel_size=5, pool="rms")),
        ("embbert", "int8", dict(layers=2, kernel_size=5, pool="rms")),
        ("bert", "int8", dict(width=18, hidden=21, heads=2)),  # what SMLAD leaves over, and odd addresses
    ],
)
def test_the_device_is_the_host_to_the_bit(kind, activations, fields, variant, program):
    opened = variant(kind, **fields)
    answer = program(opened, activations)
    elf = toolchain.read(toolchain.firmware(answer.folder))
    board = emulator.Board(elf, outputs=3)
    for text in TEXTS:
        best, logits = board.classify(text)
        np.testing.assert_array_equal(logits, hosts(answer, text).astype(np.float32), err_msg=text)
        assert best == logits.argmax()
    assert 200 < board.stack_used() < elf.sizes()["ram"]["stack"] - 256


def test_sizes_and_instructions(variant, program):
    opened = variant("embbert", layers=1, kernel_size=4)
    answer = program(opened, "fp16")
    elf = toolchain.read(toolchain.firmware(answer.folder))
    sizes = elf.sizes()
    shapes = {name: w.shape for name, w in opened.weights.items() if "difference" not in name}
    count = sum(math.prod(shape) * (2 if len(shape) == 1 else 1) for shape in shapes.values())
    assert count <= sizes["flash"]["weights"] <= count + 64  # arrays of two bytes are aligned
    states = 2 * 24 * 20 * 2
    assert states < sizes["ram"]["arena"] and sizes["ram"]["data"] == 0
    assert sizes["total"] == sum(sizes["flash"].values()) + sum(sizes["ram"].values())
    board = emulator.Board(elf, outputs=3)
    found = board.count("old")
    # the emulator itself leaves out what a condition skips, about 1 %
    assert board.returns_within(found, "old") and not board.returns_within(int(0.97 * found), "old")


def test_an_access_outside_of_the_memory_stops_the_device(variant, program):
    answer = program(variant("embbert", layers=1, kernel_size=4), "fp16")
    path = answer.folder / "lwt.c"
    path.write_text(path.read_text().replace("int best = 0;", "int best = *(volatile int *)0x20030000 * 0;"))
    board = emulator.Board(toolchain.read(toolchain.firmware(answer.folder)), outputs=3)
    with pytest.raises(errors.ConfigError, match="lwt_classify stops at 0x80"):
        board.classify("old")
    with pytest.raises(errors.DataError, match=r"the text 'oldoldold.*'... does not fit .* 32,768 bytes"):
        board.classify("old" * 11_000)


def test_the_folder_and_the_budget(variant, tmp_path):
    opened, out = variant("embbert", layers=1, kernel_size=4), tmp_path / "out"
    report = export.export(opened, out, activations="int8")
    assert report == json.loads((out / "report.json").read_text())
    assert report["instructions"] > 10 * report["macs"] / 4 and report["tokens"] > 5 and report["stack_used"] > 0
    assert report["self_test_failures"] == 0
    assert "self-test: 0 of 5 failed" in toolchain.make(out, "test", CC=toolchain.host(), CFLAGS="-O0")
    with pytest.raises(errors.ConfigError, match=r"flash [\d,]+ \+ RAM [\d,]+ = [\d,]+ bytes, 1 above the budget"):
        export.export(opened, out, activations="int8", budget=report["total"] - 1)
    again = export.export(opened, out, activations="int8", budget=report["total"])
    assert again["total"] == report["total"] and not (out / "classify").exists()  # the folder was replaced
    toolchain.firmware(out, BUDGET=report["total"])
    with pytest.raises(errors.ConfigError, match="above the budget"):
        toolchain.firmware(out, BUDGET=report["total"] - 1)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "other").mkdir()
    with pytest.raises(errors.ConfigError, match="other already holds something"):
        export.export(opened, tmp_path / "other")
    with pytest.raises(errors.ConfigError, match="did you mean 'fp16'"):
        export.export(opened, out, activations="fp61")


def test_the_check_of_a_whole_set(run, tmp_path):
    export.export(run, tmp_path / "out")
    figures = check.check(run, tmp_path / "out", emulated=4)
    assert figures["agree"] == figures["texts"] > 4 == figures["emulated_agree"]
    assert figures["model_accuracy"] == figures["program_accuracy"]


def test_without_a_compiler(variant, tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain, "device", lambda: None)
    opened = variant("embbert", layers=1, kernel_size=4)
    assert "total" not in export.export(opened, tmp_path / "out")
    with pytest.raises(errors.ConfigError, match="pip install 'lwt"):
        export.export(opened, tmp_path / "out", budget=10**6)


def test_literals():
    assert literals.string('a"b\\?é\n') == r'"a\042b\134\077\303\251\012"'
    assert float.fromhex(literals.number(0.1)[:-1]) == float(np.float32(0.1))
    assert literals.array("x", np.array([1, -0.5], np.float16), part="scales") == (
        "LWT_IN(scales) const uint16_t x[2] = {\n15360,47104,\n};\n"
    )
