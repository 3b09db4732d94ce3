"""An exported folder has a report, keeps within its budget, and replaces an older export only."""

import json
import re
import subprocess

import pytest

import lwt
from lwt import errors
from lwt.export.c import export, toolchain
from lwt.runs import pretrained

pytest.importorskip("ziglang", reason="pip install '.[c]' brings the compiler")
pytest.importorskip("unicorn", reason="pip install '.[c]' brings the emulator")
pytestmark = pytest.mark.usefixtures("compiled_once")


def test_the_folder_and_the_budget(variant, tmp_path):
    experiment, out = variant("embbert", layers=1, kernel_size=4), tmp_path / "out"
    report = export.export(experiment, out, activations="int8")
    assert report == json.loads((out / "report.json").read_text())
    assert report["instructions"] > 10 * report["macs"] / 4 and report["tokens"] > 5 and report["stack_used"] > 0
    assert report["self_test_failures"] == 0
    lines = [line.split() for line in (out / "firmware.map").read_text().splitlines()]
    assert {".code", ".weights", "lwt_classify", "lwt_firmware_arena"} <= {name for _, _, name in lines}
    assert sum(int(size) for _, size, name in lines if name[0] == ".") == report["total"]
    assert "self-test: 0 of 5 failed" in toolchain.make(out, "test", CC=toolchain.host(), CFLAGS="-O0")
    done = subprocess.run([out / "classify"], input="cold\n" + "cold " * 300, capture_output=True, text=True)
    assert done.stdout.count("\n") == 2 and re.fullmatch(
        r"texts longer than the \d+ tokens of a row, which were cut: 1\n", done.stderr
    )
    parts = r"largest parts: \w+ [\d,]+, \w+ [\d,]+, \w+ [\d,]+$"
    sums = r"flash [\d,]+ \+ RAM [\d,]+ = [\d,]+ bytes, 1 above the budget of [\d,]+"
    with pytest.raises(errors.ConfigError, match=f"{sums}; the {parts}"):
        export.export(experiment, out, activations="int8", budget=report["total"] - 1)
    again = export.export(experiment, out, activations="int8", budget=report["total"])
    assert again["total"] == report["total"] and not (out / "classify").exists()  # the folder was replaced
    toolchain.firmware(out, compiler=report["compiler"], BUDGET=report["total"])
    with pytest.raises(errors.ConfigError, match="above the budget"):
        toolchain.firmware(out, compiler=report["compiler"], BUDGET=report["total"] - 1)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(errors.ConfigError, match="other already holds something"):
        export.export(experiment, tmp_path / "other")
    with pytest.raises(errors.ConfigError, match="did you mean 'fp16'"):
        export.export(experiment, out, activations="fp61")


def test_a_model_without_a_classifier_is_refused(tmp_path):
    with pytest.raises(errors.ConfigError, match="model.head='none' must be 'classify': fine-tune the run first"):
        export.export(lwt.load(pretrained.folder("embbert-encoder")), tmp_path / "out")


def test_without_a_compiler(variant, tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain, "devices", lambda: ())
    experiment = variant("embbert", layers=1, kernel_size=4)
    report = export.export(experiment, tmp_path / "out")
    assert "total" not in report and "no compiler for a Cortex-M is installed" in report["not_measured"]
    with pytest.raises(errors.ConfigError, match="pip install 'lwt"):
        export.export(experiment, tmp_path / "out", budget=10**6)
