"""The program in C, compiled with sanitizers, reads and writes only its own memory, whatever it is given."""

import random
import shutil
import subprocess

import numpy as np
import pytest

from lwt.export.c import export, toolchain

FLAGS = "-O0 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
PIECES = [
    *(b"<", b">", b"<!--", b"-->", b"<script>", b"</script >", b"<style", b"&", b"&#", b"&#x", b"&amp", b"&#x110000;"),
    *(
        b"&#99999999999;",
        b"http://",
        b"https://a",
        b"www.",
        b"ftp://",
        b".",
        b")",
        b"\xe2\x96\x81",
        b" ",
        b"\t",
        b"\x01",
    ),
    *(b"\xff", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc2", b"\xed\xa0\x80", b"\xf4\x90", "東京".encode(), "ﷺ".encode()),
    *(b"cold", b"old", b"a", b"x" * 1030, b"warm " * 30, "ÅéŞ№½™".encode()),
]


def lines(count, *, texts):
    """Random lines of pieces and bytes, each of one text or two."""
    generator = random.Random(0)

    def text():
        chosen = generator.choices(PIECES, k=generator.randint(0, 12))
        if generator.random() < 0.3:
            chosen.append(generator.randbytes(generator.randint(0, 40)))
        cut = generator.randint(0, 6) if generator.random() < 0.2 else 0  # in the middle of what was begun
        joined = b"".join(chosen).translate(None, b"\n\0" + b"\t" * (texts == 2))
        return joined[: len(joined) - cut]

    return [b"\t".join(text() for _ in range(texts)) for _ in range(count)]


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc with its sanitizers")
@pytest.mark.parametrize(
    ("kind", "activations", "texts", "cut", "length", "fields"),
    [
        ("embbert", "int8", 1, "middle", 24, dict(layers=2, kernel_size=5, pool="rms")),
        ("bert", "fp16", 2, "middle", 9, dict(width=18, hidden=21, heads=2, pool="pair")),
        ("embedder", "fp16", 1, "end", 8, dict(pool="rms", kernel_size=5)),
    ],
)
def test_random_texts(variant, tmp_path, monkeypatch, kind, activations, texts, cut, length, fields):
    experiment = variant(kind, **fields)
    with experiment.config.unlocked():
        experiment.config.data.update(cut=cut, row_length=length)
    monkeypatch.setattr(export.reference, "sides", lambda _: texts)
    export.write(experiment, tmp_path, activations=activations)
    toolchain.make(tmp_path, "classify", CC="gcc", CFLAGS=FLAGS)
    given = lines(700, texts=texts)
    done = subprocess.run([tmp_path / "classify"], input=b"\n".join([*given, b""]), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    answers = [row.split("\t")[1:] for row in done.stdout.decode().splitlines()]
    assert len(answers) == len(given) and np.isfinite(np.array(answers, float)).all()
