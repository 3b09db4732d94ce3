"""Wrong flags of train.py: one line that names the culprit and what would be right."""

import pytest

from tests import forks

TINY = "--config=tests/training/tiny.py"
WRONG = [
    ([TINY, "--config.stepz=3"], ["--config.stepz=3", "no such key", "steps"]),
    ([TINY, "--config.optimizer.schedule.nmae=noam"], ["schedule.nmae", "no such key", "name"]),
    ([TINY, "--config.steps=abc"], ["--config.steps=abc", "whole number"]),
    (["--config=configs/translation.py:dta=pool"], ["'dta=pool'", "'data'"]),
    (["--config=configs/translation.py:data=pol"], ["data='pol'", "pool"]),
    (["--config=configs/translatoin.py"], ["configs/translatoin.py", "configs/translation.py"]),
    ([TINY, "--confg=3"], ["--confg", "did you mean --config?"]),
    ([TINY, "steps=3"], ["'steps=3'", "--flag=value"]),
    ([TINY, "--processes=2"], ["--processes=2", "--coordinator"]),
]


@pytest.fixture(scope="module")
def answers():
    return forks.answers(["train.py", ["--workdir=none", *arguments]] for arguments, _ in WRONG)


@pytest.mark.parametrize("arguments, parts", WRONG)
def test_wrong_flags_end_with_one_line(answers, arguments, parts):
    code, text = answers[" ".join(["train.py", "--workdir=none", *arguments])]
    assert code == 2
    assert text.startswith("error: ") and text.count("\n") == 1 and all(part in text for part in parts), text
