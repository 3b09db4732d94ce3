"""The page of all models."""

from studies.lighter import pareto
from tests.studies.lighter import test_fronts


def test_the_page_of_all_models(tmp_path):
    points = [test_fronts.point("mt"), test_fronts.point("mt-r2", quality=0.5, bytes=12, milliseconds=2.5)]
    (picture,) = pareto.write(tmp_path / "page", points, machine="m", command_line="c")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| mt-r2 | seq2seq | 0.50 | 1 | 12 | 2.50 |" in text and f"(page/{picture})" in text
    assert (tmp_path / "page" / picture).stat().st_size > 5_000 and "\n    c\n" in text
