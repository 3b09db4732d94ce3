"""Pages of docs/results, made again by their commands: what is committed comes out, but for the pixels of pictures."""

import collections
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from PIL import Image

from lwt.report import records

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"
COMMAND = re.compile(r"^ {4}(python -m .*)$", re.MULTILINE)
LARGEST = 150_000  # bytes of a picture
KEPT = {  # pictures of learning curves whose rows were not kept, and of data; the page shows what was drawn then
    "embbert_tinynlp": {"pretraining_paper.png"},
    "radar": {"maps_radar_har.png", "maps_radar_parrad.png"},
    "translation_pool": {"bleu.png", "loss.png"},
}


NOT_KEPT = "memories.html"  # a megabyte that --report_only makes


@pytest.fixture(scope="module")
def remake(tmp_path_factory):
    """``remake(module, *arguments)`` runs a program without data; see `remake.py`."""
    environment = {"LWT_DATA": str(tmp_path_factory.mktemp("data"))}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.studies.remake"], cwd=ROOT, env={**os.environ, **environment},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip

        def remake(*command):
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()
            code, said = json.loads(process.stdout.readline())
            assert code == 0, said

        yield remake
        process.stdin.close()


@pytest.mark.parametrize("name", sorted(path.name for path in RESULTS.iterdir() if path.is_dir()))
def test_a_page_is_made_again_by_its_command(name, remake, tmp_path):
    page, out = RESULTS / name, tmp_path / name
    text = page / "README.md" if (page / "README.md").exists() else page.with_suffix(".md")
    out.mkdir()
    for kept in {records.NAME, "results.json"} | KEPT.get(name, set()):
        if (page / kept).exists():
            shutil.copy(page / kept, out)
    line = COMMAND.search(text.read_text(encoding="utf-8")).group(1)
    given = [part for part in shlex.split(line)[2:] if not part.startswith(("--workdir=", "--out="))]
    workdir = [f"--workdir={tmp_path}/runs"] if "--workdir=" in line else []
    remake(*given, *workdir, f"--out={out}", "--report_only")
    files = [path for path in page.iterdir() if path.name != NOT_KEPT]
    assert {path.name for path in out.iterdir()} - {NOT_KEPT} == {path.name for path in files}
    for path in [text, *files]:
        if path.suffix != ".png":
            made = out.parent / path.relative_to(RESULTS)
            assert made.read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/*.png")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_picture_is_small_and_on_a_page(path):
    with Image.open(path) as image:
        assert image.mode == "P", "lwt.report.style.save writes a palette"
    assert path.stat().st_size < LARGEST
    beside, above = path.parent / "README.md", path.parent.with_suffix(".md")
    text, name = (beside, path.name) if beside.exists() else (above, f"{path.parent.name}/{path.name}")
    assert f"({name})" in text.read_text(encoding="utf-8"), text


def test_the_results_are_small():
    assert sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file() and path.name != NOT_KEPT) < 6e6


FIGURE = r"[-+]?\d[\d,]*[.,]\d+(?: (?:±|to) \d+\.\d+)?"


def figures_not_on_their_page(cell, folder):
    """The figures of ``[figures](page)``, a cell of a table in `folder`, that the page does not have."""
    shown, page = re.fullmatch(r"\[(.+)\]\((.+)\)", cell).groups()
    text = (folder / page).read_text(encoding="utf-8")
    return [
        found
        for found in re.findall(FIGURE, shown)
        if not re.search(rf"(?<![\d.,]){re.escape(found)}(?!\d|[.,]\d)", text)
    ]


def test_claims_have_the_figures_of_the_pages_that_they_link_to():
    text = (RESULTS / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| [^|]+ \| [^|]+ \| ([^|]+) \| [^|]+ \| ([^|]+) \|$", text.partition("## Pages")[0], re.MULTILINE
    )
    assert len(rows) > 30
    for ours, verdict in rows[1:]:
        assert re.match(r"(not )?confirmed|mixed|refuted|not tried", verdict), verdict
        assert ours == "–" or figures_not_on_their_page(ours, RESULTS) == []


def test_the_readme_has_the_figures_of_the_pages_that_it_links_to():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = [cell for row in re.findall(r"^\| .+ \|$", text, re.MULTILINE)[1:6] for cell in row[2:-2].split(" | ")]
    linked = [cell for cell in cells if cell.startswith("[")]
    assert len(linked) >= 5
    for cell in linked:
        assert re.search(FIGURE, cell) and figures_not_on_their_page(cell, ROOT) == []


def test_the_index_leaves_seeds_and_figures_to_the_pages():
    """They change there; the index would have to follow."""
    rows = re.findall(r"^\| \[.+\| (.+) \|$", (RESULTS / "pages.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 30
    assert [text for text in rows if re.search(r"seed|\d\.\d|\d %", text)] == []


def test_no_two_pages_have_the_same_title():
    """The side bar of the site lists them by it."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
    titles = collections.Counter(path.read_text(encoding="utf-8").partition("\n")[0] for path in pages)
    assert [title for title, count in titles.items() if count > 1 or not title.startswith("# ")] == []
