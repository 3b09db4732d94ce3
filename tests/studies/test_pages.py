"""Pages of docs/results, made again: what is committed comes out, but for command lines and the pixels of pictures."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from lwt.report import records

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"
COMMAND = re.compile(r"^ {4}python -m .*$", re.MULTILINE)
OF_RECORDS = sorted(path.parent.name for path in RESULTS.glob(f"*/{records.NAME}"))


def without_commands(path):
    text = COMMAND.sub("", path.read_text(encoding="utf-8"))
    return re.sub(r'"command": "(\\.|[^"\\])*"', "", text) if path.suffix == ".json" else text


def assert_same(page, made, *, files=None):
    """Compares the files of a page with those of the folder `made`; both have the same pictures."""
    names = files or {path.name for path in page.iterdir()}
    assert names <= {path.name for path in made.iterdir()}
    for name in sorted(names):
        if not name.endswith(".png"):
            assert without_commands(made / name) == without_commands(page / name), name


@pytest.mark.parametrize("name", [name for name in OF_RECORDS if name != "radar"])
def test_a_page_is_made_from_its_records_alone(name, tmp_path):
    page, out = RESULTS / name, tmp_path / "out"
    out.mkdir()
    shutil.copy(page / records.NAME, out)
    line = COMMAND.search((page / "README.md").read_text(encoding="utf-8")).group()
    given = [part for part in shlex.split(line)[1:] if not part.startswith(("--workdir=", "--out="))]
    done = subprocess.run(
        [sys.executable, *given, f"--out={out}", "--report_only"],
        cwd=ROOT, env={**os.environ, "LWT_DATA": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert_same(page, out)
