"""The model, the program and the emulated device give the same classes for a whole test set."""

import pytest

from lwt.export.c import check, export

pytest.importorskip("ziglang", reason="pip install 'lwt[c]' brings the compiler")
pytest.importorskip("unicorn", reason="pip install 'lwt[c]' brings the emulator")


def test_all_texts_agree(run, tmp_path):
    export.export(run, tmp_path / "out")
    figures = check.check(run, tmp_path / "out", emulated=4)
    assert figures["agree"] == figures["texts"] > 4 == figures["emulated_agree"]
    assert figures["model_accuracy"] == figures["program_accuracy"]
