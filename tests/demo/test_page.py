"""The page as a user sees it: the program in its own process, opened in Chromium."""

import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zlib

import numpy as np
import PIL.Image
import pytest

from lwt import errors
from lwt.demo import page, pictures, session

ROOT = pathlib.Path(__file__).parents[2]
SECONDS = 90  # for compilation on a busy machine
TEXT = "the cold year was bolder"


@pytest.fixture(scope="module")
def start(cache):
    """``start(*arguments) -> Popen`` starts the program."""
    started = []

    def start(*arguments):
        own = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "lwt.demo", *arguments],
            cwd=ROOT,
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def address_of(process, lines=None):
    """The address that the program prints; what it prints later fills the list `lines`."""
    lines = [] if lines is None else lines
    for line in process.stdout:
        lines.append(line)
        if found := re.match(r"open (http\S+)", line):
            reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
            reader.start()  # a full pipe would block the program
            return found[1]
    raise AssertionError("".join(lines))


def request(url, data=None, *, host=None):
    """``(status, text)`` of a request."""
    asked = urllib.request.Request(url, data and json.dumps(data).encode(), {"Content-Type": "application/json"})
    if host is not None:
        asked.add_header("Host", host)
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def call(address, *values):
    """What the page answers to a call of its button by a program: the last event of the stream."""
    status, text = request(f"{address}gradio_api/call/run", {"data": values})
    assert status == 200, text
    _, events = request(f"{address}gradio_api/call/run/{json.loads(text)['event_id']}")
    return events.strip().split("\n\n")[-1]


def test_in_a_browser(browser, start, classifier, adapted, tmp_path):
    given = [f"--adapter={name}={folder}" for name, folder in adapted.items()]
    address = address_of(start(f"--workdir={classifier.workdir}", f"--port={free_port()}", *given))
    wanted = session.Session(classifier.workdir, adapters=adapted)
    tab = browser.new_page()
    tab.set_default_timeout(SECONDS * 1000)
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(address)

    tab.click("#run")
    assert "text is empty" in tab.text_content("[role=alert]")
    tab.fill("#given-0 textarea", TEXT)
    for name in wanted.names:
        if name == "base":
            tab.click("#run")
        else:
            tab.get_by_label(name, exact=True).check()
        label, share = max(wanted.answer((TEXT,), adapter=name).items(), key=lambda pair: pair[1])
        tab.locator("#answer").filter(has_text=re.compile(rf"{label}\s*{round(100 * share)}%")).wait_for()
    assert not tab.locator("[role=alert]").count()

    picture = tab.locator("#attention img")
    picture.wait_for()
    all_heads = picture.get_attribute("src")
    tab.get_by_label("Head").click()
    tab.get_by_role("option", name="1", exact=True).click()
    tab.wait_for_function("all => document.querySelector('#attention img').src != all", arg=all_heads)
    tab.get_by_role("tab", name="Memories").click()
    rows = tab.locator("table.memories tr")
    rows.nth(1).wait_for()
    strongest = wanted.look((TEXT,), adapter="dora").memories[wanted.layers[-1]][0]
    assert f"{strongest.key}{strongest.coefficient:.2f}" in rows.nth(1).text_content()

    (tmp_path / "days.csv").write_text(f"text\n{TEXT}\n")
    tab.get_by_text("A whole table").click()
    tab.set_input_files("#given-table input[type=file]", tmp_path / "days.csv")
    with tab.expect_download() as download:
        tab.locator("#answered-table a[download]").first.click()
    label, share = max(wanted.answer((TEXT,), adapter="dora").items(), key=lambda pair: pair[1])
    answered = pathlib.Path(download.value.path()).read_text().splitlines()
    assert answered[1].startswith(f"{TEXT},{label},{share:.2f}"[:-1])
    (tmp_path / "wrong.csv").write_text("title\nx\n")
    tab.get_by_role("button", name="Clear").last.click()
    tab.set_input_files("#given-table input[type=file]", tmp_path / "wrong.csv")
    tab.locator("#table-message [role=alert]").filter(has_text="wrong.csv").wait_for()
    tab.set_viewport_size({"width": 390, "height": 844})
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    tab.get_by_role("tab", name="Attention").click()
    picture = tab.locator("#attention img").bounding_box()
    assert 0 <= picture["x"] < 390 < picture["width"], picture  # it scrolls inside the page, from its left edge on
    assert all(url.startswith((address, "data:", "blob:")) for url in asked), asked  # no requests to other machines


def test_hostile_requests_get_one_answer_and_ctrl_c_ends_the_program(start, classifier):
    lines, port = [], free_port()
    process = start(f"--workdir={classifier.workdir}", f"--port={port}")
    address = address_of(process, lines)
    for host, status in (
        ("localhost", 200), (f"127.0.0.1:{port}", 200), (f"[::1]:{port}", 200), ("LOCALHOST", 200),
        ("example.org", 400), (f"localhost.example.org:{port}", 400), ("[::1", 400), ("", 400),
    ):  # fmt: skip
        assert request(address, host=host)[0] == status, host
    for path, data in (
        ("call/nothing", {"data": []}),
        ("run/nothing", {"data": [TEXT]}),
        ("call/run", {"data": 5}),
        ("call/run", {}),
        ("queue/join", {"data": ["a"], "fn_index": 99, "session_hash": "x"}),
        ("file=/etc/passwd", None),
    ):
        assert 400 <= request(f"{address}gradio_api/{path}", data)[0] < 500, path
    names = ("base", "greedy", "block_0/self_attention", page.ALL, "block_0/mlp/fc2")
    for given, words in (
        ([TEXT, *names], "complete"),
        (["", *names], "text is empty"),
        ([None, *names], "not text"),
        (["a" * 1_000_000, *names], "1,000,000 characters"),
        (["\ud800", *names], "surrogate"),
        ([TEXT, "nobody", *names[1:]], "error"),
        ([TEXT, {"a": 1}, *names[1:]], "error"),
        ([TEXT, *names[:2], "no/layer", *names[3:]], "error"),
        ([TEXT], "error"),
        ([], "error"),
    ):
        assert words in call(address, *given), given
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=SECONDS) == 0
    end = time.monotonic() + SECONDS
    while "stopped\n" not in lines:  # the reader may be behind
        assert time.monotonic() < end, "".join(lines)
        time.sleep(0.1)
    assert not [line for line in lines if "Traceback" in line], "".join(lines)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--workdir=nowhere"], "error: nowhere is not the workdir of a run"),
        (["--workdir={run}", "--adapter=lora"], "error: --adapter=lora must be NAME=FOLDER"),
    ],
)
def test_a_wrong_start_is_one_line(start, classifier, flags, message):
    process = start(*(flag.format(run=classifier.workdir) for flag in flags))
    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 2 and output.startswith(message) and output.count("\n") == 1


@pytest.mark.parametrize("host", ["nonexistent.invalid", "192.0.2.1", "::1"])
def test_an_unknown_host_is_named(classifier, host):
    with pytest.raises(errors.ConfigError, match=f"--host={host} --port=7860: cannot serve the page there"):
        page.launch(session.Session(classifier.workdir), host=host, port=7860)


def test_a_translation_without_a_browser(translator):
    served = session.Session(translator.workdir)
    made = page.Page(served)
    attention, layer = next(iter(served.heads)), served.layers[0]
    answered, seen = made.run("add 2: 8 13 2 5", "base", "greedy", attention, page.ALL, layer)
    answer = served.answer(("add 2: 8 13 2 5",))
    assert answer in answered.values()
    found = served.look(("add 2: 8 13 2 5",), answer=answer)
    assert pictures.memories(found.memories[layer], found.through) in seen.values()
    (refused,) = made.run("7 " * 80, "base", "greedy", attention, page.ALL, layer)
    assert any("this model reads at most 64" in str(value) for value in refused.values())


def test_images_that_cannot_be_read_get_one_message(photographer, tmp_path):
    served = session.Session(photographer.workdir)
    made = page.Page(served)
    grey = PIL.Image.fromarray(np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16))
    grey.save(tmp_path / "grey.png")
    png = (tmp_path / "grey.png").read_bytes()
    header = png[:16] + struct.pack(">II", 100_000, 100_000) + png[24:29]  # 10,000 megapixels
    bomb = header + struct.pack(">I", zlib.crc32(header[12:])) + png[33:]
    for name, content in {"cut.png": png[:50], "text.png": b"no image", "empty.png": b"", "bomb.png": bomb}.items():
        (tmp_path / name).write_bytes(content)
    choices = ("base", "greedy", next(iter(served.heads)), page.ALL, "")
    answered, seen = made.run(str(tmp_path / "grey.png"), *choices)
    assert served.answer((str(tmp_path / "grey.png"),)) in answered.values() and seen[made._plot]
    names = ("cut.png", "text.png", "empty.png", "bomb.png", "no.png", "")
    for given in (None, 3, *(str(tmp_path / name) for name in names)):
        (refused,) = made.run(given, *choices)
        assert refused[made._message].startswith('<p role="alert">'), given
