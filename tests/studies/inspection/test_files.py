"""The page of files keeps what was measured of each, and the documents say the same."""

import pathlib

import pytest

from lwt.report import results
from studies.inspection import files
from tests import markdown

ROOT = pathlib.Path(__file__).parents[3]
KEPT = ROOT / "docs/results/files/results.json"
TEXTS = [("litert", "float32"), ("litert", "dynamic"), ("litert", "int8"), ("onnx", "float32"), ("onnx", "dynamic")]
SERVICE = [("service", "float32"), ("service", "int8")]


@pytest.fixture
def reports(monkeypatch):
    """Exports that write nothing; the calls with their arguments."""
    calls = []

    def export(kind, report):
        def made(source, path, **options):
            calls.append((kind, pathlib.Path(path).suffix, options))
            return dict(report)

        return made

    speed = {"milliseconds": 1.5, "jax_milliseconds": 2.25, "records": 8, "agreement": 0.875}
    of_class = {"bytes": 1_234, "relative_error": 7.2e-7, "accuracy": 0.5, "jax_accuracy": 0.25, "loss": 1.0} | speed
    of_pair = {"bytes": {"encode": 1_000, "step": 2_000}, "bleu": 40.126, "jax_bleu": 40.0} | speed
    served = {"bytes": 99, "largest_error": 0.04, "p50_milliseconds": 0.7, "p99_milliseconds": 20.0, "records": 8,
              "texts_per_second": 1_780, "accuracy": 0.5, "lwt_accuracy": 0.25, "agreement": 1.0}  # fmt: skip
    monkeypatch.setattr(files.classify, "export", export("classify", of_class))
    monkeypatch.setattr(files.translate, "export", export("translate", of_pair))
    monkeypatch.setattr(files.folder, "write", export("service", served))
    return calls


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, [("litert", "float32"), ("litert", "dynamic"), ("onnx", "float32"), ("onnx", "dynamic")]),
        ({"of_text": True}, TEXTS + SERVICE),
        ({"of_images": True}, [("litert", "float32"), ("litert", "dynamic"), ("onnx", "float32"), ("onnx", "dynamic")]),
        ({"of_vectors": True}, SERVICE),
    ],
)
def test_which_files_a_run_can_have(changes, expected):
    class Task:
        pass

    class Model:
        def example(self):
            return {"image": 0} if "of_images" in changes else {"ids": 0}

    task = Task()
    if not changes:
        task.generate = None
    elif "of_vectors" not in changes:
        task.predict = None
    source = type("Run", (), {"task": task, "model": Model()})
    assert files.files_of(source) == expected


def test_what_is_kept_of_a_file(reports):
    class Run:
        class task:
            predict = None

    text = files.measure(Run, "litert", "dynamic", records=8)
    assert reports == [("classify", ".tflite", {"runtime": "litert", "format": "dynamic", "records": 8})]
    assert text["bytes"] == 1_234 and "loss" not in text and {*text} <= {*files.COLUMNS}
    served = files.measure(Run, "service", "int8", data="folder:a@test")
    assert reports[-1] == ("service", "", {"precision": "int8", "records": None, "data": "folder:a@test"})
    assert served["milliseconds"] == 0.7 and served["relative_error"] == 0.04 and served["jax_accuracy"] == 25
    Run.task.generate = None
    assert files.measure(Run, "onnx", "float32")["bytes"] == 3_000 and reports[-1][:2] == ("translate", "")


def test_the_page(reports, tmp_path):
    class Run:
        test = "folder:snips@test"

        class task:
            predict = None

        class model:
            example = dict

    found = []
    for name in ("runs/snips-float32", "runs/other"):
        found += files.rows_of(Run, name=name, command_line=f"c {name}", records=8, data="")
    assert files.write(tmp_path, found) == ["README.md", "results.json"]
    text = (tmp_path / "README.md").read_text()
    assert "## snips-float32\n\nEmbBERT with 358,151 weights" in text and "## other\n\n    c runs/other\n" in text
    assert "| LiteRT int8 | 1,234 | 1.50 | 2.25 |  |  | 7.2e-07 | 87.50 % | 50.00 % | 25.00 % | 8 |" in text
    assert "| service float32 | 99 | 0.70 |  | 20.00 | 1,780 | 0.04 | 100.00 % | 50.00 % | 25.00 % | 8 |" in text
    assert {row["split"] for row in results.load(tmp_path / "results.json")} == {"folder:snips@test"}


def test_the_documents_say_what_was_measured():
    kept, count = files.cells(results.load(KEPT)), 0
    for name in ("microcontroller_figures.md", "phone.md", "serve.md"):
        for (corner, *heads), _, *body in markdown.tables((ROOT / "docs" / name).read_text()):
            for file, *cells in body if corner in kept else ():
                assert cells == [kept[corner][file].get(column, "") for column in heads], (name, corner, file)
                count += len(cells)
    assert count > 60
