"""The page of speeds keeps one table for each machine, and a machine's newest alone."""

import json

from benchmarks import run


def row(hardware, rate, *, what="vit", variant="lwt_vit/vit:float32", **facts):
    figures = {"examples_per_second": rate, "step_seconds": 64 / rate, "peak_bytes": 1e9}
    return [
        {
            "config": f"benchmarks/{what}",
            "overrides": {"variant": variant},
            "metric": metric,
            "value": value,
            "range": [value, value],
            "hardware": hardware,
            "command": f"measured at {rate}",
            "date": "2026-01-01",
        }
        | facts
        for metric, value in figures.items()
    ]


def test_a_machine_s_new_rows_replace_its_own_alone(tmp_path):
    run.write(tmp_path, row("one", 100.0) + row("one", 50.0, variant="torch_vit/vit:timm"))
    run.write(tmp_path, row("two", 300.0))
    run.write(tmp_path, row("one", 200.0))
    rates = {
        (found["hardware"], found["overrides"]["variant"]): found["value"]
        for found in json.loads((tmp_path / "results.json").read_text())
        if found["metric"] == "examples_per_second"
    }
    assert rates == {("one", "lwt_vit/vit:float32"): 200.0, ("two", "lwt_vit/vit:float32"): 300.0}
    page = (tmp_path / "README.md").read_text()
    assert page.count("### one") == page.count("### two") == page.count("## vit\n") == 1
    assert "measured at 200.0" in page and "measured at 100.0" not in page


def test_what_is_preloaded_is_part_of_the_hardware(monkeypatch):
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    plain = run.hardware()
    monkeypatch.setenv("LD_PRELOAD", "/somewhere/fast_mkl.so")
    assert run.hardware() == f"{plain}, with fast_mkl.so preloaded"


def test_the_defaults_and_the_rest_do_not_overlap():
    for what, defaults in run.DEFAULTS.items():
        for module, variants in defaults.items():
            assert not set(variants) & set(run.MORE[what].get(module, ()))
