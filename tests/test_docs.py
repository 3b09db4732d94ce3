"""The site builds without a warning, its pages are found from the front page, and links point to what is there."""

import ast
import html.parser
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *(path for path in sorted(DOCS.rglob("*.md")) if DOCS / "_build" not in path.parents)]
LINK = re.compile(r"\[[^]]*\]\(<?([^)>\s]+)>?[^)]*\)")
FENCE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def links(path):
    """Targets of the relative links and pictures of a Markdown page, without those in code."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return [target for target in LINK.findall(text) if not re.match(r"\w+:|#", target)]


class Hrefs(html.parser.HTMLParser):
    """Collects what the links and pictures of a page of HTML point to, and the ids that others can point to."""

    def __init__(self, path):
        super().__init__()
        self.found, self.ids = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.found |= {value for name, value in attributes if name in ("href", "src") and value}
        self.ids |= {value for name, value in attributes if name == "id"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site, and its pages read: ``{path: Hrefs}``."""
    pytest.importorskip("sphinx")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", str(DOCS), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    assert done.returncode == 0, done.stderr
    return out, {path: Hrefs(path) for path in out.rglob("*.html") if "_static" not in path.parts}


def local(folder, href):
    """Path and anchor that a link from `folder` leads to; None if it leaves the site."""
    if re.match(r"\w+:|//", href):
        return None
    path, _, anchor = re.sub(r"\?[^#]*", "", href).partition("#")
    return pathlib.Path(os.path.normpath(folder / path)) if path else None, anchor


def test_every_page_is_reached_from_the_first(site):
    out, pages = site
    reached, waiting = set(), [out / "index.html"]
    while waiting:
        path = waiting.pop()
        if path in reached or path not in pages:
            continue
        reached.add(path)
        targets = [local(path.parent, href) for href in pages[path].found]
        waiting += [target[0] for target in targets if target and target[0]]
    wanted = {(out / path.relative_to(DOCS)).with_suffix(".html") for path in PAGES[1:]}
    assert wanted - reached == set()


def test_every_link_of_the_site_leads_somewhere(site):
    out, pages = site
    lost = []
    for page, read in pages.items():
        for href in read.found:
            target = local(page.parent, href)
            if target is None:
                continue
            path, anchor = target[0] or page, target[1]
            if not path.exists() or (anchor and path in pages and anchor not in pages[path].ids):
                lost.append(f"{page.relative_to(out)}: {href}")
    assert lost == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_point_to_what_is_there(path):
    assert [target for target in links(path) if not (path.parent / target.partition("#")[0]).exists()] == []


WRITTEN = [path for path in PAGES[1:] if path != DOCS / "results/pareto.md"]
WRITTEN = [path for path in WRITTEN if path.parents[1] != DOCS / "results"]  # programs write the others from records
WRITTEN += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "pretrained/README.md")]
WORDS, CELL, SENTENCE = 1500, 120, 40  # words of a page, letters of a cell, words of a sentence


def shown(text):
    """Markdown as a reader sees it: without the targets of links, and without marks of code and emphasis."""
    return re.sub(r"[*`]|\\(?=\|)", "", re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text))


def too_long(text):
    """``(line, what)`` of what is too long for a reader: the page, and its cells and sentences outside of code."""
    text = re.sub(r"^(```|~~~).*?^\1$", lambda code: re.sub("[^\n]", "", code[0]), text, flags=re.DOTALL | re.MULTILINE)
    found, begun, sentence = [], 0, ""
    lines = [*text.splitlines(), ""]
    for number, line in enumerate(lines, 1):
        bare, text_goes_on = line.strip(), sentence and not re.match(r"\s*([-*|#]|\d+\.) ?", line)
        if bare and text_goes_on:
            sentence += f" {bare}"
            continue
        for part in re.split(r"(?<!al)[.!?][\"”)*]*\s+", shown(re.sub(r"`[^`]*`", "code", sentence))):
            found += [(begun, f"a sentence of {len(part.split())} words")] if len(part.split()) > SENTENCE else []
        begun, code = number, line.startswith(("    ", "|", "#"))
        sentence = "" if code else re.sub(r"^([-*]|\d+\.) +", "", bare)
        cells = re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", lambda code: code[0].replace("|", "/"), bare))
        for cell in cells[1:-1] if bare.startswith("|") else ():
            size = len(shown(cell).strip())
            found += [(number, f"a cell of {size} letters")] if size > CELL else []
    return found


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_are_short_and_so_are_their_sentences_and_cells(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.split()) <= WORDS
    assert [f"{path.relative_to(ROOT)}:{line}: {what}" for line, what in too_long(text)] == []


def test_what_is_too_long_is_found_with_its_line():
    words = "word " * (SENTENCE // 2)
    page = f"# T\n\n- {words}\n  {words}and more.\n\n{words}end. {words}end.\n\n| a | [{'x' * (CELL + 1)}](y) |\n"
    assert too_long(page) == [(3, "a sentence of 42 words"), (8, "a cell of 121 letters")]
    assert too_long(f"```\n{words * 3}\n```\n\n    {words * 3}\n\n| [{'x' * CELL}]({'y' * CELL}) |\n") == []


def rows(path):
    """``{header: rows}`` of the tables of a Markdown page, as their lines."""
    found, lines = {}, path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines[1:], 1):
        if re.fullmatch(r"\|[ :|-]+\|", line):
            body = itertools.takewhile(lambda line: line.startswith("|"), lines[number + 1 :])
            found.setdefault(lines[number - 1], set()).update(body)
    return found


def test_a_table_with_the_header_of_a_result_repeats_its_rows():
    """A page that shows rows of a table of docs/results/ says what the table says."""
    measured = {}
    for path in (DOCS / "results").glob("*/README.md"):
        for header, body in rows(path).items():
            measured.setdefault(header, set()).update(body)
    shown = [
        (str(path.relative_to(ROOT)), row, row in measured[header])
        for path in PAGES
        if DOCS / "results" not in path.parents
        for header, body in rows(path).items()
        if header in measured and header.count("|") > 3
        for row in body
    ]
    assert len(shown) >= 5 and [found for found in shown if not found[2]] == []


CLAIM = re.compile(r"^\| [^|]+ \| [^|]+ \| \[([^]|]+)\]\((\S+/results/\S+\.md)\) \|", re.MULTILINE)  # its third cell
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\d\w])")


def test_the_figures_of_claims_are_on_the_pages_that_they_link_to():
    """A number with decimals or thousands is a number of the page, rounded to its digits."""
    lost, count = [], 0
    for path in (DOCS / "papers").glob("*.md"):
        for shown, link in CLAIM.findall(path.read_text(encoding="utf-8")):
            page = (path.parent / link).read_text(encoding="utf-8")
            measured = [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", page)]
            for number in NUMBER.findall(shown):
                value, half = float(number.replace(",", "")), 0.5001 * 10.0 ** -len(number.partition(".")[2])
                count += bool(re.search("[.,]", number))
                if re.search("[.,]", number) and not any(abs(value - other) <= half for other in measured):
                    lost.append((path.name, shown, number))
    assert count > 100 and lost == []


def test_every_package_is_in_the_reference(site):
    out, pages = site
    named = {
        f"api-{path.relative_to(ROOT).with_suffix('').as_posix().replace('/', '-').replace('_', '-')}"
        for path in (ROOT / "lwt").rglob("[a-z]*.py")
    }
    ids = set().union(*(read.ids for path, read in pages.items() if path.parent.name == "api"))
    assert named - ids == set()


def test_the_search_finds_probability(site, browser):
    tab = browser.new_page()
    tab.goto(f"{(site[0] / 'search.html').as_uri()}?q=probability")
    found = tab.locator("#search-results a").first
    found.wait_for()
    assert found.get_attribute("href").partition("#")[0].partition("?")[0] == "answers.html"


def test_errors_of_the_troubleshooting_are_those_of_the_code():
    """Each holds a text of the code, of at least 12 letters."""
    quoted = re.findall(r"^    error: (.*)", (DOCS / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE)
    sources = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "lwt").rglob("*.py")]
    parts = {
        node.value.strip()
        for node in itertools.chain(*map(ast.walk, sources))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 12 <= len(node.value.strip()) < 200
    }
    assert len(quoted) > 10
    assert [error for error in quoted if not any(part in error for part in parts)] == []


MODEL = """
const found = { label: "b", probabilities: [0.25, 0.75], unknown: 0 };
const answer = (text) => ({ ...found, pieces: text.length, cut: text.length > 99 });
const model = { labels: ["a", "b"], bytes: 281600, memory: 458752, classify: answer, tasks: ["x", "y"] };
export const load = async () => ({ ...model, select(name) { this.labels = [name, "b"]; } });
"""


@pytest.mark.parametrize("made", [True, False])
def test_the_page_of_models_on_a_phone(site, browser, made):
    files = {name: (site[0] / name).read_text() for name in ("try.html", "_static/element.js")}
    files |= {f"models/{name}/model.js": MODEL for name in ("snips-int4", "multi30k-int4")} if made else {}

    def answer(route):
        name = route.request.url.removeprefix("http://site/").partition("?")[0]
        kind = "text/javascript" if name.endswith(".js") else "text/html"
        route.fulfill(body=files.get(name, ""), status=200 if name in files else 404, content_type=kind)

    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.route("**/*", answer)
    tab.goto("http://site/try.html")
    tab.locator("#answer .notice, #answer .class:first-child").nth(1).wait_for()
    answers = tab.locator("#answer")
    if made:
        example = tab.locator("lwt-model button").last
        example.click()
        assert tab.locator("textarea").last.input_value() == example.text_content()
        assert answers.last.inner_text().split() == ["b", "75.0", "%", "a", "25.0", "%"]
        tab.locator("select").last.select_option("y")
        assert answers.last.inner_text().split() == ["b", "75.0", "%", "y", "25.0", "%"]
        assert f"{len(example.text_content())} pieces" in tab.locator("#figures").last.text_content()
        assert "282 kB" in tab.locator("#figures").last.text_content()
        tab.locator("textarea").first.fill("long " * 20)
        assert "read 100 pieces of it and left out the others" in answers.first.inner_text()
    else:
        assert all(
            "make docs compiles it where ziglang is installed" in said
            for said in tab.locator("lwt-model").all_inner_texts()
        )
        assert "models/snips-int4/model.js" in answers.first.inner_text()
    assert tab.evaluate("document.documentElement.scrollWidth") == 390


def test_make_writes_the_models_of_the_page():
    folders = re.findall(r'folder="(\S+)/"', (DOCS / "try.md").read_text())
    asked = subprocess.run(
        ["make", "--dry-run", "--always-make", "docs"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    for folder in folders:
        assert (
            f"--workdir=pretrained/{pathlib.Path(folder).name} --activations=int8 --out=docs/_build/{folder}" in asked
        )
    assert len(folders) == 2


def test_no_page_is_wider_than_its_window(site, browser):
    tab = browser.new_page()
    for page, width in itertools.product(("index", "tutorials/classify", "results/README"), (390, 1100, 1200, 1400)):
        tab.set_viewport_size({"width": width, "height": 844})
        tab.goto((site[0] / f"{page}.html").as_uri())
        assert (page, tab.evaluate("document.documentElement.scrollWidth")) == (page, width)


def test_the_endpoint_of_the_page_answers(tmp_path):
    (code,) = re.findall(r"```python\n(import http.*?)```", (DOCS / "serve.md").read_text(), re.DOTALL)
    (tmp_path / "predict.py").write_text(
        "import numpy\nclass load:\n    def __init__(self, folder): pass\n"
        "    def predict_proba(self, texts): return numpy.array([[len(text), 0.5] for text in texts])\n"
        "    def choose(self, shares): return ['a' for _ in shares]\n"
    )
    code = code.replace("8000", "0").replace("server.serve_", "print(server.server_port, flush=True)\nserver.serve_")
    (tmp_path / "endpoint.py").write_text(code)
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "endpoint.py"], cwd=tmp_path, **options) as server:
        try:
            address = f"http://127.0.0.1:{int(server.stdout.readline())}"
            answer = json.load(urllib.request.urlopen(address, b'["four", "no"]', timeout=20))
            assert answer == {"labels": ["a", "a"], "probabilities": [[4, 0.5], [2, 0.5]]}
            for wrong in (b"four", b'"four"', b"[4]"):
                with pytest.raises(urllib.request.HTTPError, match="400: send a JSON list of texts"):
                    urllib.request.urlopen(address, wrong, timeout=20)
        finally:
            server.kill()
