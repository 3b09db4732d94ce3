"""What the teachers of a fine-tuning read, and how much of the loss is learned from them."""

import pytest

from lwt import errors
from tests.configs import smoke


def test_teachers_read_masks_or_whole_texts():
    def task(more):
        return smoke.encoder(f"embbert_finetune.py:teacher=runs/{{task}}-a+runs/b,{more}").task

    found = {more: task(more) for more in ("recipe=paper", "recipe=tuned", "recipe=tuned,reads=whole,share=0.9")}
    assert [section.cache for section in found.values()] == [True, False, True]
    assert [section.weight for section in found.values()] == [0.5, 0.5, 0.9]
    assert {section.teacher for section in found.values()} == {("runs/snips-a", "runs/b")}


def test_what_teachers_cannot_read_is_refused():
    for given, wrong in (
        ("teacher=a,reads=masked", r"reads='masked': choose from whole \(there are no masks\)"),
        ("teacher=a,recipe=tuned,reads=none", "reads='none': choose from masked, whole$"),
        ("reads=whole", "reads=whole: it has no effect"),
        ("share=0.9", "share=0.9: it has no effect"),
    ):
        with pytest.raises(errors.ConfigError, match=wrong):
            smoke.encoder(f"embbert_finetune.py:{given}")
