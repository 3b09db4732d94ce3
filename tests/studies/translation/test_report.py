"""The page is made from the figures of the evaluations: a faked experiment gives known ones."""

import json
import types

import pytest

from lwt.report import results
from studies.translation import report as translation_report


@pytest.fixture
def workdir(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    (folder / "eval").mkdir(parents=True)
    rows = [{"step": s, "time": 60.0 * s, "train/loss": 4.0 - s, "validation/loss": 3.0 - s} for s in (1, 2)]
    rows[1]["validation/bleu"] = 20.0
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def load(_, *, decoding):
        beams = decoding["beams"]

        def report(*, data):
            stem = translation_report.extremes_name(data, beams)
            (folder / "eval" / stem).write_text(f"### Best translations of {data}")
            return {"bleu": 30.0 + beams, "chrf": 50.0, "sentence_bleu": 0.25, "loss": 1.5, "sentences": 1000,
                    "checkpoint": 2, "bleu_signature": "nrefs:1"}  # fmt: skip

        task = types.SimpleNamespace(decoding=lambda: f"{beams} beams")
        return types.SimpleNamespace(report=report, task=task, step=2, config=types.SimpleNamespace(seed=7))

    monkeypatch.setattr(translation_report.experiment, "load", load)
    return folder


def test_rows_and_page(workdir, tmp_path):
    facts = translation_report.measure(
        str(workdir), "configs/x.py", ["folder:a@test"], beams=[1, 4], made="python -m r"
    )
    names = translation_report.write(tmp_path / "out", facts, folder=workdir)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*names} > {"loss.png", "bleu.png"}
    rows = results.load(tmp_path / "out/results.json")
    bleu = {row["overrides"]["decoding"]: row["value"] for row in rows if row["metric"] == "bleu"}
    assert bleu == {"1 beams": 31.0, "4 beams": 34.0}
    assert rows[-1]["metric"] == "training seconds" and rows[-1]["value"] == 120.0
    text = (tmp_path / "out/README.md").read_text()
    assert "Trained in 2 minutes" in text and "seed 7" in text
    assert "| folder:a@test | 4 beams | 34.00 | 50.00 | 0.2500 | 1.500 | 1,000 |" in text
    assert "### Best translations of folder:a@test" in text


def test_a_bundle_has_no_curves(workdir, tmp_path, monkeypatch):
    (workdir / "metrics.jsonl").unlink()
    monkeypatch.setattr(translation_report.bundle, "is_bundle", lambda folder: folder == str(workdir))
    facts = translation_report.measure(str(workdir), "configs/x.py", ["folder:a@test"], beams=[1], made="python -m r")
    names = translation_report.write(tmp_path / "out", facts, folder=workdir)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*names} == {"README.md", "results.json"}
    assert "training seconds" not in {row["metric"] for row in results.load(tmp_path / "out/results.json")}
    text = (tmp_path / "out/README.md").read_text()
    assert f"`{workdir}` was trained with `--config=configs/x.py`, seed 7." in text and "Trained in" not in text
