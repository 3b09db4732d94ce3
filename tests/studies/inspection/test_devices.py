"""The page of programs keeps what was measured of each, and the documents say the same."""

import pathlib
import types

import pytest

from lwt.report import results
from studies.inspection import devices
from tests import markdown

ROOT = pathlib.Path(__file__).parents[3]
KEPT = ROOT / "docs/results/devices/results.json"
REPORT = {
    "flash": {"weights": 3000, "scales": 20, "code": 7, "tasks": 0},
    "ram": {"arena": 500, "stack": 9},
    "flash_total": 3027,
    "ram_total": 509,
    "total": 3536,
    "texts": 1,
    "tokens": 4,
    "instructions": 1000,
    "worst_case": {"instructions": 2000},
    "milliseconds": 1.5,
}


@pytest.fixture
def measured(monkeypatch):
    """``measured(report, answers, again)``: what `devices.measure` keeps when its parts return these figures."""

    def measure(report, answers, again, **options):
        monkeypatch.setattr(devices.export, "export", lambda *_, **__: report)
        monkeypatch.setattr(devices.check, "check", lambda *_, **__: answers)
        monkeypatch.setattr(devices.folder, "export", lambda *_, **__: {"files": {"model.wasm": 90}, "gzip": 80})
        monkeypatch.setattr(devices.wasm_check, "check", lambda *_, **__: again)
        monkeypatch.setattr(devices.wasm_check, "node", lambda *_: 65536)
        return devices.measure(None, activations="int8", emulated=2, **options)

    return measure


def rows(config, found, **overrides):
    fixed = {"config": config, "seed": None, "split": "", "paper": None, "hardware": "h", "seconds": 0}
    fixed["command"] = f"python -m studies.inspection.devices --workdir={config}"
    about = {"weights": "", "states": "int8"} | overrides
    return [
        fixed | {"overrides": about | {"task": task}, "metric": metric, "value": value}
        for task, figures in found.items()
        for metric, value in figures.items()
    ]


def test_the_table(measured, tmp_path):
    answers = {"texts": 5, "eval_accuracy": 60.0, "model_accuracy": 80.0, "program_accuracy": 80.0, "agree": 5}
    again = {"texts": 5, "equal": 4, "milliseconds": 0.3, "slowest": 9.0}
    one = measured(REPORT, answers, again)
    assert "milliseconds" not in one[""] and "flash_tasks" not in one[""]
    report = REPORT | {"tasks": {"topic": {"bytes": {"total": 77}}, "mood": {"bytes": {"total": 66}}}}
    many = measured(report, {"topic": answers, "mood": answers}, {"topic": again, "mood": again}, many=types)
    found = rows("runs/one", one, weights="int4-nearest.safetensors") + rows("runs/base", many)
    assert devices.write(tmp_path, found) == ["README.md", "results.json"]
    text = (tmp_path / "README.md").read_text()
    assert "texts" not in many[""] and one[""]["texts"] == 5
    assert "|  | one int4-nearest, int8 states | base, int8 states |" in text and "| weights | 3,000 | 3,000 |" in text
    assert "| accuracy of the model | 60.00 % |  |" in text and "| answers equal to those in Node | 4 |  |" in text
    own = text.partition("## Tasks of base, int8 states\n\n| task | bytes of the slot in use | texts |")[2]
    assert "| topic | 77 | 5 | 60.00 % |" in own and "| mood | 66 | 5 | 60.00 % |" in own
    assert "    python -m studies.inspection.devices --workdir=runs/base\n" in text and "## Translators" not in text


def test_translators_have_a_table_of_their_own(measured, tmp_path):
    report = {key: value for key, value in REPORT.items() if key != "worst_case"} | {"instructions_a_step": 7}
    answers = {"sentences": 3, "equal": 3, "as_model": 2, "bleu": 40.4786, "model_bleu": 41.0}
    devices.write(tmp_path, rows("runs/mt", measured(report, answers, {"equal": 3})))
    text = (tmp_path / "README.md").read_text()
    assert "## Classifiers" not in text and "| BLEU of the program | 40.48 |" in text
    assert "| answers equal to those with rounded states | 3 |" in text and "| texts | 3 |" in text


def test_the_documents_say_what_was_measured():
    kept, count = devices.cells(results.load(KEPT)), 0
    known = {line for line, _ in devices.LINES.values()}
    for name in ("browser.md", "many_tasks.md", "microcontroller_figures.md", "microcontroller_translator.md"):
        for (corner, *heads), _, *body in markdown.tables((ROOT / "docs" / name).read_text()):
            if corner in kept:  # the tasks of a program, one in a line
                assert known.issuperset(heads), (name, corner)
                for task, *cells in body:
                    assert cells == [kept[corner][task][line] for line in heads], (name, task)
                    count += len(cells)
            elif not kept.keys().isdisjoint(heads):
                for line, *cells in body:
                    assert line in known, (name, line)
                    assert cells == [kept[program][""].get(line, "") for program in heads], (name, line)
                    count += len(cells)
    assert count > 60
