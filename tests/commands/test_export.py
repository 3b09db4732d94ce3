"""export.py, and ``lwt export``, run the program of a target with all other flags."""

import importlib.util
import pathlib
import runpy
import subprocess
import sys

import pytest

from lwt.commands import export

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def started(monkeypatch):
    """``started(*flags)`` gives the module and the flags that export.py would run."""

    def started(*flags):
        runs = []
        monkeypatch.setattr(sys, "argv", ["export.py", *flags])
        monkeypatch.setattr(runpy, "run_module", lambda name, **_: runs.append((name, sys.argv[1:])))
        export.main()
        return runs[0]

    return started


def test_other_flags_go_to_the_target(started):
    assert started("--target=c", "--workdir=a", "--budget", "9") == ("lwt.export.c", ["--workdir=a", "--budget", "9"])
    assert started("--out=x", "--target", "litert") == ("lwt.export.phone.classify", ["--runtime=litert", "--out=x"])
    for name, *_ in export.TARGETS.values():
        assert importlib.util.find_spec(name)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--target=litrt"], "--target=litrt: did you mean 'litert'?"),
        (
            ["--workdir=runs/x"],
            "give --target; choose from bundle, c, litert, litert-translate, onnx, onnx-translate, safetensors, "
            "service, wasm",
        ),
    ],
)
def test_unknown_targets_are_refused(started, capsys, flags, message):
    with pytest.raises(SystemExit) as ended:
        started(*flags)
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_the_program_of_a_target_runs(tmp_path):
    """From a shell it knows its flags and reports errors in one line."""
    command = [sys.executable, "export.py", "--target=safetensors", f"--workdir={tmp_path}", "--format=int4"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2 and ended.stderr.startswith("error: ") and str(tmp_path) in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
