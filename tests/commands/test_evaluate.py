"""Wrong flags of eval.py, and of ``lwt predict``: one line that names the culprit and what would be right."""

import pytest

from tests import forks

WRONG = {
    "eval.py --workdir=none": "none is not the workdir of a run",
    "eval.py --workdir=none --threshold=0.5": "--threshold has no effect without --predict",
    "eval.py --workdir=none --beams=4 --temperature=1": "--beams and --temperature exclude each other",
    "lwt predict none.txt --workdir=none --split=test": "--predict and --split exclude each other",
    "lwt predict none.txt": "give --workdir",
}


@pytest.fixture(scope="module")
def answers():
    calls = [command.split(" ", 2 if command.startswith("lwt") else 1) for command in WRONG]
    return forks.answers([" ".join(program), rest.split()] for *program, rest in calls)


@pytest.mark.parametrize("command", WRONG)
def test_wrong_flags_end_with_one_line(answers, command):
    code, text = answers[command]
    assert code == 2 and text.startswith("error: ") and text.count("\n") == 1 and WRONG[command] in text, text
