"""The WebAssembly gives the bits of the program in C, in Node and on its page in Chromium."""

import copy
import functools
import html
import http.server
import json
import random
import re
import shutil
import subprocess
import threading

import numpy as np
import pytest

from lwt import errors
from lwt.export.c import export, fuzz, reference, toolchain
from lwt.export.wasm import check, folder
from tests.export.c import test_tasks

pytest.importorskip("ziglang", reason="pip install '.[c]' brings the compiler")
pytestmark = pytest.mark.usefixtures("compiled_once")
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="apt install nodejs: it runs WebAssembly")
TEXTS = 300
START = re.compile('<lwt-model texts="(.*?)">')
SHOWN = r"Time[\d.]+ ms(; median of \d+: [\d.]+ ms)?Text\d+ pieces, \d+ unknownmodel.wasm{kb} kB, .*"
READ = {"classifier": 22, "translator": 24}  # pieces of a text that is too long
made, folders, many, others = test_tasks.made, test_tasks.folders, test_tasks.many, test_tasks.others


def texts(*, sides=1):
    """Random lines, of which some are empty, long, or no words; with two sides, a tab is between them."""
    generator = random.Random(1)
    lines = (fuzz.line(generator, texts=sides).decode(errors="replace") for _ in range(TEXTS))
    return [line.replace("\r", " ") for line in lines]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """``pair(experiment, activations)``: the folder, and what the program in C prints for lines of text."""

    def make(experiment, activations, **options):
        place = tmp_path_factory.mktemp("pair")
        folder.export(experiment, place / "browser", activations=activations, **options)
        program = export.write(experiment, place, activations=activations, **options).name
        toolchain.make(place, program, CC=toolchain.host(), CFLAGS="-O0")

        def answer(lines, *flags):
            given = "".join(f"{line}\n" for line in lines).encode()
            return subprocess.run([place / program, *flags], input=given, capture_output=True).stdout.decode()

        return place / "browser", answer

    return make


@pytest.fixture(scope="module")
def classifier(variant, pair):
    return pair(variant("embbert", layers=2, kernel_size=5, pool="rms"), "fp16")


@pytest.fixture(scope="module")
def translator(tiny, untrained, pair, tmp_path_factory):
    run = untrained(tiny({"data.max_tokens": 24, "task.beams": 2}), tmp_path_factory.mktemp("run"))
    return pair(run, "int8")


def said(call):
    """An expression: the message of the error that a call throws."""
    return f"(() => {{ try {{ {call} }} catch (error) {{ return error.message }} }})()"


def assert_same(answers, rows):
    assert len(answers) == len(rows) and all(map(check.equal, answers, rows))


@needs_node
def test_a_classifier_in_node(classifier):
    made, program = classifier
    lines = texts()
    found = check.node(made, "given.map((text) => model.classify(text))", given=lines)
    assert_same(found, program(lines).splitlines())
    for answer in found:
        shares = np.exp(np.subtract(answer["logits"], max(answer["logits"])))
        np.testing.assert_allclose(answer["probabilities"], shares / shares.sum(), rtol=1e-5, atol=1e-7)
    tested = check.node(made, "model.selfTest()")
    assert tested["failures"] == 0 and tested["bits"] == program([], "--self-test").split()[-1]
    long = "cold " * 100_000  # more than the memory that the program starts with
    before, answer, after = check.node(made, "[model.memory, model.classify(given), model.memory]", given=long)
    assert answer["cut"] and answer["tokens"] == 24 and after > before + 400_000
    assert_same([answer], program([long]).splitlines())
    shown = check.node(made, "[{...model}, model.classify('a\\0old'), model.classify('a old')]")
    assert shown[0]["labels"] == ["a", 'b "quoted"', "c??/ é"]
    assert shown[0]["bytes"] == (made / folder.WASM).stat().st_size
    assert shown[1] == shown[2]


@needs_node
def test_two_texts_in_node(variant, pair, monkeypatch):
    monkeypatch.setattr(reference, "sides", lambda _: 2)
    made, program = pair(variant("bert", width=18, hidden=21, heads=2, pool="pair"), "int8")
    lines = texts(sides=2)
    records = [line.split("\t") for line in lines]
    found = check.node(made, "given.map((texts) => model.classify(...texts))", given=records)
    assert_same(found, program(lines).splitlines())
    assert len(json.loads(html.unescape(START.search((made / "index.html").read_text())[1]))) == 2
    assert check.node(made, said("model.classify('one')")) == "classify: 1 texts; the model reads 2"


@needs_node
def test_a_number_in_node(variant, pair):
    experiment = copy.copy(variant("embedder", outputs=1))
    experiment.labels = ()
    made, program = pair(experiment, "int8")
    lines = texts()[:50]
    assert_same(check.node(made, "given.map((text) => model.classify(text))", given=lines), program(lines).splitlines())
    assert "Regression;" in (made / "model.d.ts").read_text()


@needs_node
def test_many_tasks_in_node(run, many, others, pair, tmp_path):
    made, program = pair(run, "int8", many=many)
    assert (made / "tasks.bin").read_bytes() == (made.parent / "tasks.bin").read_bytes()
    assert "Tasks>;" in (made / "model.d.ts").read_text()
    lines = texts()[:100]
    shown = check.node(made, "[model.tasks, model.task, model.labels]")
    assert shown == [["topic", "mood"], "topic", ["class 0", "class 1", "w é"]]
    for task, classes in (("mood", 2), ("topic", 3), ("mood", 2)):
        answers = f"(model.select({task!r}), given.map((text) => model.classify(text)))"
        found = check.node(made, answers, given=lines)
        assert_same(found, program(lines, task).splitlines())
        assert {len(answer["probabilities"]) for answer in found} == {classes}
        assert all(abs(sum(answer["probabilities"]) - 1) < 1e-5 for answer in found)
    assert check.node(made, "model.selfTest()") == {"failures": 0, "bits": program([], "--self-test").split()[-1]}
    assert check.node(made, said("model.select('none')")) == "select: there is no task none; choose from topic, mood"

    export.write(run, tmp_path, activations="int8", many=others)
    slots = [*(tmp_path / "tasks.bin").read_bytes()]
    replace = (
        "model.replace(new Uint8Array(given.slots)), model.select('topic'), given.lines.map((x) => model.classify(x))"
    )
    found = check.node(made, f"[{replace}, model.tasks].slice(2)", given={"slots": slots, "lines": lines})
    assert_same(found[0], program(lines, "topic", tmp_path / "tasks.bin").splitlines())
    assert found[1] == ["mood", "topic"]
    damaged = said("model.replace(new Uint8Array(given))")
    other = slots[:30] + [slots[30] ^ 1] + slots[31:]
    message = "slot 0 is empty or damaged"
    assert check.node(made, f"[{damaged}, model.tasks, model.task]", given=other) == [
        message,
        ["topic", "mood"],
        "topic",
    ]
    chosen = f"(model.select('mood'), {damaged}, model.classify('a cold one'), model.task)"
    assert check.node(made, chosen, given=other) == "mood"
    assert check.node(made, damaged, given=slots[1:]) == "replace: 1199 bytes; the slots have 1200"


@needs_node
def test_a_translator_in_node(translator):
    made, program = translator
    lines = texts()
    found = check.node(made, "given.map((text) => model.translate(text))", given=lines)
    assert [answer["text"] for answer in found] == program(lines).split("\n")[:-1]
    ids = [[len(side.split()) for side in row.split("\t")] for row in program(lines, "--ids").splitlines()]
    assert [[answer["pieces"] + 1, answer["answerPieces"]] for answer in found] == ids
    assert check.node(made, "model.selfTest().bits") == program([], "--self-test").split()[-1]
    assert check.node(made, said("model.translate(3)")) == "translate: 3 is not a string"


@pytest.fixture(scope="module")
def address():
    """``address(folder)`` serves it, and gives the address."""
    servers = []

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    def serve(made):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=made))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("kind", ["classifier", "translator"])
def test_the_page_in_chromium(kind, request, browser, address):
    made, program = request.getfixturevalue(kind)
    start, tab, wrong, asked = address(made), browser.new_page(), [], []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(start)
    tab.locator("#figures dt").first.wait_for()
    for text in ("cold old € 東京", "<b>sort</b> 3 1 2"):
        tab.fill("textarea", "")
        tab.type("textarea", text)
        wanted = program([text]).rstrip("\n").split("\t")
        answer = tab.locator("#answer > p, .class:first-child span:first-child").text_content()
        assert answer == wanted[0]
        figures = tab.locator("#figures").text_content()
        assert re.fullmatch(SHOWN.format(kb=round((made / folder.WASM).stat().st_size / 1000)), figures), figures
    tab.fill("textarea", "cold " * 100)
    assert tab.locator(".notice").text_content().startswith(f"The text is too long: the model read {READ[kind]} pieces")
    tab.fill("textarea", " ")
    assert tab.locator("#answer").text_content() == "Type a text."
    tab.fill("textarea", "cold")
    assert tab.locator(".notice").count() == 0
    assert tab.locator(".class").count() == (3 if kind == "classifier" else 0)
    assert wrong == [] and all(url.startswith((start, "data:")) for url in asked), asked


def test_the_compiler_does_not_mix_programs(run, many, tmp_path):
    """Its cache may hold what other programs were compiled from; with a wrong object, the second is not linked."""
    for name, options in {"one": {}, "many": {"many": many}}.items():
        (tmp_path / name).mkdir()
        export.write(run, tmp_path / name, activations="int8", **options)
        folder.build(tmp_path / name, tmp_path / name / folder.WASM)
    one, several = ((tmp_path / name / folder.WASM).read_bytes() for name in ("one", "many"))
    assert b"select" not in one and b"select" in several  # the names of exported functions


def test_what_cannot_be_written(variant, tmp_path, monkeypatch):
    experiment = variant("embbert", layers=1, kernel_size=4)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(errors.ConfigError, match="other already holds something"):
        folder.export(experiment, tmp_path / "other")
    with pytest.raises(errors.ConfigError, match="did you mean 'fp16'"):
        folder.export(experiment, tmp_path / "out", activations="fp61")
    monkeypatch.setattr(folder, "COMPILER", (*folder.COMPILER, "-std=none"))
    with pytest.raises(errors.ConfigError, match="ziglang does not compile the program: "):
        folder.export(experiment, tmp_path / "out")
    monkeypatch.setattr(folder.extras, "available", lambda _: False)
    with pytest.raises(errors.ConfigError, match=r"needs ziglang, which is not installed: pip install 'lwt\[c\]'"):
        folder.export(experiment, tmp_path / "out")
    assert not (tmp_path / "out").exists()
