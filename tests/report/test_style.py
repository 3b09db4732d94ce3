"""How pictures are saved."""

import io

import numpy as np
import pytest
from PIL import Image

from lwt.report import style


def test_a_palette_keeps_the_picture(tmp_path):
    with style.drawing(tmp_path / "new/a.png", "Title") as (drawn, axes):
        for i in range(len(style.COLORS)):
            axes.plot([0, 1], [i, i + 1], **style.look(i))
    full = io.BytesIO()
    drawn.savefig(full, dpi=style.DPI)
    with Image.open(tmp_path / "new/a.png") as small, Image.open(full) as image:
        assert small.mode == "P" and small.info["dpi"] == pytest.approx((150, 150), abs=0.1)
        change = np.abs(np.asarray(small.convert("RGB"), int) - np.asarray(image.convert("RGB"), int))
    assert change.mean() < 0.5 and np.percentile(change, 97) == 0
    assert (tmp_path / "new/a.png").stat().st_size < full.tell() / 2
    style.save(drawn, tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "new/a.png").read_bytes()


@pytest.mark.parametrize("values, begins, marks", [((50, 60), 49.5, 1), ((20, 90), 0, 0), ((0, 90), -4.5, 0)])
def test_an_axis_begins_at_zero_or_has_a_mark(values, begins, marks, tmp_path):
    with style.drawing(tmp_path / "a.png", "Title") as (drawn, axes):
        axes.plot([0, 1], values)
    assert axes.get_ylim()[0] == pytest.approx(begins)
    assert len(axes.lines) == 1 + marks
