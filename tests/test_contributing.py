"""The files that CONTRIBUTING.md and its page give to copy work: in a copy of the repository they train and pass."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from lwt.inspect import cost
from lwt.runs import config_file
from tests.reparam import test_contract

ROOT = pathlib.Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "docs/design/studies.md")
TEXT = "".join((ROOT / name).read_text(encoding="utf-8") for name in PAGES)
BLOCK = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SKELETONS = {
    "lwt/attention/yours.py",
    "lwt/reparam/yours.py",
    "lwt/data/sources/yours.py",
    "configs/yours.py",
    "studies/yours/__main__.py",
}
CHECK_SOURCE = """
import itertools
from lwt import errors
from lwt.data import sources
train, test = sources.load("yours:next"), sources.load("yours:next@test", fields=("source", "target"))
assert sources.splits("yours:next") == ["train", "validation", "test"]
assert len(train) == 900 and train[7] == {"source": "next: 7", "target": "8"} == train[3:9][4]
assert train.read(898, 905) == [train[898], train[899]]
assert train.fingerprint == sources.load("yours:next").fingerprint != test.fingerprint
assert not {r["source"] for r in train} & {r["source"] for r in test}
for name, fields in (("yours:next@tset", None), ("yours:next", ("text",))):
    try:
        sources.load(name, fields=fields)
    except errors.DataError as error:
        assert "yours:next" in str(error)
    else:
        raise AssertionError(name)
"""
TRAIN = """
import sys
from lwt.runs import config_file
from tests.configs import smoke
config = config_file.load("configs/yours.py:rank=2,smoke=true")
smoke.cycle(config, sys.argv[1])
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the repository with the files of CONTRIBUTING.md."""
    folder = tmp_path_factory.mktemp("house")
    for name in ("lwt", "configs", "studies", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "train.py", "eval.py"):
        shutil.copy(ROOT / name, folder)
    for name, code in BLOCK.findall(TEXT):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code, encoding="utf-8")
    return folder


def run(house, *arguments):
    """Runs Python in the copy; returns what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(house)}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=house, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_there_is_a_file_of_each_kind(house):
    assert {name for name, _ in BLOCK.findall(TEXT)} == SKELETONS
    if shutil.which("ruff") or (pathlib.Path(sys.executable).parent / "ruff").exists():
        for command in (["check"], ["format", "--check"]):
            run(house, "-m", "ruff", *command, *sorted(SKELETONS))


def test_labels_are_those_of_the_contract():
    table = re.search(r"\| label \| leaf \|\n(.*?)\n\n", TEXT, re.DOTALL)[1]
    assert (
        set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()))) == test_contract.LABELS
    )


def test_the_attention_and_the_reparametrization_keep_the_contracts(house):
    files = ("tests/attention/test_contract.py", "tests/reparam/test_contract.py")
    said = run(house, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "yours", *files)
    assert int(re.search(r"(\d+) passed", said)[1]) >= 15 and "failed" not in said


def test_the_source_keeps_the_contract(house):
    run(house, "-c", CHECK_SOURCE)


def test_the_set_up_trains_and_resumes(house, tmp_path):
    run(house, "-c", TRAIN, tmp_path / "run")


def test_the_study_writes_its_page_and_makes_it_again(house, tmp_path):
    command = ("-m", "studies.yours", f"--out={tmp_path}/page")
    run(house, *command, f"--workdir={tmp_path}/runs", "--seeds=1", "--more=smoke=true")
    page = (tmp_path / "page/README.md").read_text()
    assert "| 4 | " in page and "| 8 | " in page and "(n=1)" in page
    run(house, *command, "--seeds=1", "--more=smoke=true", "--report_only")
    again = (tmp_path / "page/README.md").read_text()
    assert page.split("\n\n", 2)[2] == again.split("\n\n", 2)[2]


def test_the_config_of_the_page_of_concepts_puts_an_adapter_on_a_vit(tmp_path):
    (code,) = re.findall(r"```python\n(from configs.*?)```", (ROOT / "docs/concepts.md").read_text(), re.DOTALL)
    (tmp_path / "yours.py").write_text(code)
    counted = cost.parameters(config_file.load(f"{tmp_path}/yours.py:size=ti16"), outputs=10)
    assert counted["trainable"] == 12 * 3 * 192 * 8 + 192 * 10 + 10  # layers, q k v, width, rank; the head
