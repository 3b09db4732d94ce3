"""The benchmarks' rows, their page, and the registry of variants."""

import argparse
import importlib.util
import json
import pathlib
import sys

import jax
import pytest

from benchmarks import harness, run
from lwt import errors
from lwt.report import results
from tests.benchmarks import worker

SPEED = pathlib.Path(__file__).parents[2] / "docs" / "results" / "speed"


def rows(hardware, rate, *, what="vit", variant="lwt_vit/vit:float32"):
    figures = {"examples_per_second": rate, "step_seconds": 64 / rate, "peak_bytes": 1e9}
    fixed = {"seed": 0, "split": "random", "paper": None, "seconds": 1.0, "date": "2026-01-01"}
    return [
        {
            "config": f"benchmarks/{what}",
            "overrides": {"variant": variant},
            "metric": metric,
            "value": value,
            "range": [value, value],
            "hardware": hardware,
            "command": f"measured at {rate}",
        }
        | fixed
        for metric, value in figures.items()
    ]


def test_new_rows_replace_only_those_of_the_same_machine(tmp_path):
    run.write(tmp_path, rows("one", 100.0) + rows("one", 50.0, variant="torch_vit/vit:timm"))
    run.write(tmp_path, rows("two", 300.0))
    run.write(tmp_path, rows("one", 200.0))
    rates = {
        (row["hardware"], row["overrides"]["variant"]): row["value"]
        for row in results.load(tmp_path / "results.json")
        if row["metric"] == "examples_per_second"
    }
    assert rates == {("one", "lwt_vit/vit:float32"): 200.0, ("two", "lwt_vit/vit:float32"): 300.0}
    page = (tmp_path / "README.md").read_text()
    assert page.count("### one") == page.count("### two") == 2 and page.count("## ViT step\n") == 1
    assert "measured at 200.0" in page and "measured at 100.0" not in page


def test_the_page_begins_with_the_fastest_of_lwt_and_pytorch_at_each_precision(tmp_path):
    rates = {"torch_vit/vit:timm": 50.0, "torch_vit/vit:plain": 80.0, "torch_vit/vit:plain+bf16": 200.0}
    rates |= {"lwt_vit/vit:float32": 100.0, "lwt_vit/vit:bfloat16": 150.0, "lwt_vit/vlora:float32": 90.0}
    run.write(tmp_path, [row for name, rate in rates.items() for row in rows("one", rate, variant=name)])
    table = (tmp_path / "README.md").read_text().partition("## ViT step")[0].splitlines()
    assert [line for line in table if line.startswith("| ViT")] == [
        "| ViT step, vit | float32 | 100 examples/s | 80 examples/s | 1.25 | 1.00 | – | plain, not compiled |",
        "| ViT step, vit | bfloat16 | 150 examples/s | 200 examples/s | 0.75 | 1.00 | – | plain, not compiled |",
    ]


def test_a_loss_that_is_not_finite_is_marked(tmp_path):
    flags = argparse.Namespace(data="random", steps=1, device="cpu")
    line = {
        "variant": "torch_vit/vit:plain+compiled",
        "rounds": 1,
        "step_seconds": 0.005,
        "peak_bytes": 1,
        "examples_per_second": 9.0,
    }
    line |= {"examples_per_second_range": [9.0, 9.0], "loss": float("nan")}
    run.write(tmp_path, run.rows("vit", [line, line | {"variant": "lwt_vit/vit:float32", "loss": 2.0}], flags=flags))
    page = (tmp_path / "README.md").read_text()
    assert page.count("plain+compiled, loss not finite |") == 2 and "| lwt_vit/vit:float32 | 9 (9–9) | 5.00 |" in page


def test_the_committed_page_is_made_from_its_rows(tmp_path):
    measured = results.load(SPEED / "results.json")
    run.write(tmp_path, measured)
    assert (tmp_path / "README.md").read_text() == (SPEED / "README.md").read_text()
    assert results.load(tmp_path / "results.json") == measured


def test_the_version_of_jax_and_a_preloaded_library_are_part_of_the_hardware(monkeypatch):
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    plain = run.machine()
    assert plain.endswith(f", JAX {jax.__version__}")
    monkeypatch.setenv("LD_PRELOAD", "/somewhere/fast_mkl.so")
    assert run.machine() == f"{plain}, with fast_mkl.so preloaded"


def test_defaults_and_other_variants_do_not_overlap():
    for what, defaults in run.DEFAULTS.items():
        for module, variants in defaults.items():
            assert not set(variants) & set(run.MORE[what].get(module, ()))


def test_the_other_libraries_can_run_in_another_environment():
    programs = {name: command[0] for name, command in run.commands("vit", python="other/python").items()}
    assert programs["lwt_vit/vit:float32"] == sys.executable and programs["torch_vit/vit:plain"] == "other/python"
    assert {command[0] for command in run.commands("vit").values()} == {sys.executable}


@pytest.mark.parametrize("what", run.DEFAULTS)
def test_the_registry_names_existing_variants(what):
    pytest.importorskip("torch", reason="PyTorch is in the extras `test` and `bench`")
    for part in (run.DEFAULTS[what], run.MORE[what]):
        for module, variants in part.items():
            if module == "ctranslate2_decode" and not importlib.util.find_spec("ctranslate2"):
                continue  # in the extra `bench`
            assert set(variants) <= set(importlib.import_module(harness.module_of(module)).VARIANTS)


def test_a_pattern_that_matches_nothing_is_refused():
    with pytest.raises(SystemExit, match="matches none of torch_vit/vit:timm"):
        run.commands("vit", pattern="none")


def test_a_gpu_is_named_by_its_driver(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    program = tmp_path / "nvidia-smi"
    for answer in ("exit 9", "echo NVIDIA H200; echo NVIDIA L4"):
        program.write_text(f"#!/bin/sh\n{answer}\n")
        program.chmod(0o755)
        if answer == "exit 9":
            with pytest.raises(errors.DataError, match="--device=gpu: nvidia-smi .* finds no NVIDIA GPU"):
                run.machine("gpu")
    assert run.machine("gpu") == f"NVIDIA H200, JAX {jax.__version__}" and "threads of" in run.machine("cpu")


def test_the_page_has_the_memory_of_both_starts(tmp_path):
    """Older rows have none of the second."""
    torch, own = rows("one", 50.0, variant="torch_vit/vit:plain"), rows("one", 100.0)
    older = [dict(row, hardware="two") for row in torch + own]
    for part, peak in ((torch, 5e8), (own, 4e8)):
        part.append(part[-1] | {"metric": "second_peak_bytes", "value": peak})
    run.write(tmp_path, torch + own + older)
    page = (tmp_path / "README.md").read_text()
    assert page.count("| 2.00 | 1.00 | 0.80 | plain") == 1 and page.count("| 2.00 | 1.00 | – | plain") == 1
    assert "| 640 | 1,000 | 400 |" in page and "| 640 | 1,000 | – |" in page


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_variants_that_fail_are_left_out_and_named_at_the_end(monkeypatch, capsys, device, tmp_path):
    """One does not start, one ends in its second turn, one before its first."""
    programs = {
        "a": worker.PROGRAM,
        "b": "import sys; sys.exit('no kernel')",
        "d": worker.PROGRAM.partition("for line")[0],
    }
    programs["c"] = worker.PROGRAM.replace("answer =", "turn = globals().get('turn', 0) + 1\n    answer =").replace(
        "    print(json.dumps(answer)", "    turn < 2 or sys.exit('no memory')\n    print(json.dumps(answer)"
    )
    commands = {name: [sys.executable, "-c", programs[name]] for name in "dbca"}
    monkeypatch.setattr(run, "commands", lambda what, **k: commands)
    monkeypatch.setattr(run, "PREPARE", dict.fromkeys(run.DEFAULTS, ("", "none")))
    monkeypatch.setattr(run, "machine", lambda device: "some machine")
    flags = ["--what=vit", "--rounds=3", f"--device={device}", f"--out={tmp_path}"]
    monkeypatch.setattr(sys, "argv", ["run.py", *flags])
    with pytest.raises(harness.WorkerError) as caught:
        run.main()
    failed = ("variant b ended with 1: no kernel", "variant d ended with 0", "variant c ended with 1: no memory")
    assert str(caught.value) == f"not measured: {'; '.join(failed)}"
    output = capsys.readouterr()
    assert [json.loads(line)["variant"] for line in output.out.splitlines()] == ["a"]
    assert all(f"left out: {why}\n" in output.err for why in failed)
    assert {row["overrides"]["variant"] for row in results.load(tmp_path / "results.json")} == {"a"}


@pytest.mark.parametrize("device, together", [("cpu", [1, 1]), ("gpu", [2])])
def test_one_command_measures_several_works(monkeypatch, capsys, device, together):
    """``together`` holds how many workers are alive beside each other."""
    groups, started = [], harness.started
    monkeypatch.setattr(harness, "started", lambda chosen, **k: groups.append(len(chosen)) or started(chosen, **k))
    monkeypatch.setattr(run, "commands", lambda what, **k: {f"lwt_{what}/a": [sys.executable, "-c", worker.PROGRAM]})
    monkeypatch.setattr(run, "PREPARE", dict.fromkeys(run.DEFAULTS, ("", "none")))
    monkeypatch.setattr(run, "machine", lambda device: "some machine")
    monkeypatch.setattr(sys, "argv", ["run.py", "--what=vit,decode", "--rounds=1", f"--device={device}"])
    run.main()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["variant"] for line in lines] == ["lwt_vit/a", "lwt_decode/a"] and groups == together
    monkeypatch.setattr(sys, "argv", ["run.py", "--what=vit,vit"])
    with pytest.raises(SystemExit):
        run.main()
    assert (
        "'vit,vit' must be of train, adapter, decode, pretrain, vit, each once, with commas" in capsys.readouterr().err
    )


def test_ctranslate2_is_not_measured_under_a_gpu_s_name():
    assert any("ctranslate2" in name for name in run.commands("decode"))
    assert not any("ctranslate2" in name for name in run.commands("decode", device="gpu"))


def test_cuda_graphs_are_measured_on_a_gpu_alone():
    assert "torch_decode/graphs+bf16" in run.commands("decode", pattern="torch", device="gpu")
    assert not any("graphs" in name for what in run.DEFAULTS for name in run.commands(what, pattern="torch"))


def test_a_page_is_made_again_only_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run.py", "--report_only", f"--out={tmp_path}"])
    with pytest.raises(errors.DataError, match="results.json cannot be read"):
        run.main()
    assert not list(tmp_path.iterdir())
