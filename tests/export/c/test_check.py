"""The model, the program and the emulated device give the same classes for a whole test set."""

import pytest

from lwt import errors
from lwt.export.c import check, export

pytest.importorskip("ziglang", reason="pip install '.[c]' brings the compiler")
pytest.importorskip("unicorn", reason="pip install '.[c]' brings the emulator")


def test_all_texts_agree(run, tmp_path):
    export.export(run, tmp_path / "out")
    figures = check.check(run, tmp_path / "out", emulated=4)
    assert figures["agree"] == figures["texts"] > 4 == figures["emulated_agree"]
    assert figures["model_accuracy"] == figures["program_accuracy"]
    few = check.check(run, tmp_path / "out", records=3)
    assert few["agree"] == few["texts"] == 3
    with pytest.raises(errors.ConfigError, match="out answers '.*', which is not a label of the run"):
        check.answers(tmp_path / "out", ["cold"], labels=("a", "b"))
    with pytest.raises(errors.ConfigError, match="out/classify answers 2 of 1 texts"):
        check.answers(tmp_path / "out", ["cold\nold"], labels=run.labels)
    for content, message in (("{", "is damaged"), ("{}", "does not name the type")):
        (tmp_path / "out" / export.REPORT).write_text(content)
        with pytest.raises(errors.LwtError, match=f"{export.REPORT} {message}"):
            check.check(run, tmp_path / "out")
