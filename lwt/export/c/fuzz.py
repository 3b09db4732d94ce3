"""Gives random texts to the exported program, compiled with sanitizers: it may read and write only its own memory.

    python -m lwt.export.c.fuzz --folder=firmware --inputs=100000
    python -m lwt.export.c.fuzz --folder=translator --inputs=1000 --seed=1

Texts are made of pieces on which cleaning and both tokenizers branch, and of random bytes. The last line is JSON, the
numbers of inputs and findings. A finding is a report of a sanitizer, a missing answer, or a logit that is not finite.
Inside the arena, sanitizers check the arrays of known length only.
"""

import math
import pathlib
import random
import shutil
import subprocess
import tempfile

from absl import flags

from lwt import errors, files
from lwt.export.c import export, toolchain
from lwt.machine import command_line

FLAGS = "-O3 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
AT_ONCE = 1000  # inputs of a process
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
    *(b"cold", b"old", b"a", b"x" * 1030, b"warm " * 30, "ÅéŞ№½™".encode(), "각".encode(), b"[MASK]", b"[SEP]", b"'"),
]


def line(generator, *, texts=1):
    """A random line of bytes with one text, or with two and a tab between."""

    def text():
        chosen = generator.choices(PIECES, k=generator.randint(0, 12))
        if generator.random() < 0.3:
            chosen.append(generator.randbytes(generator.randint(0, 40)))
        cut = generator.randint(0, 6) if generator.random() < 0.2 else 0  # in the middle of what was begun
        joined = b"".join(chosen).translate(None, b"\n\0" + b"\t" * (texts == 2))
        return joined[: len(joined) - cut]

    return b"\t".join(text() for _ in range(texts))


def fuzz(folder, *, inputs, seed=0, texts=1):
    """Tests an exported folder, a `pathlib.Path`; returns ``{"inputs", "findings", "first"}``.

    Args:
        folder: an exported classifier or translator; it is built in a temporary copy.
        inputs: number of random lines.
        seed: of the random numbers.
        texts: of a record, one or two.

    Raises:
        lwt.errors.ConfigError: GCC or make is missing, or the program is not built.
    """
    generator, findings = random.Random(seed), []
    name = "translate" if (folder / "src/search.c").exists() else "classify"
    if not shutil.which("gcc"):
        raise errors.ConfigError("gcc is not installed; it has the sanitizers")
    with tempfile.TemporaryDirectory() as place:
        own = pathlib.Path(place, "program")
        shutil.copytree(folder, own, ignore=shutil.ignore_patterns(name))
        toolchain.make(own, name, CC="gcc", CFLAGS=FLAGS)
        for start in range(0, inputs, AT_ONCE):
            lines = [line(generator, texts=texts) for _ in range(min(AT_ONCE, inputs - start))]
            found = _finding(own / name, lines)
            if found:
                findings.append(f"inputs {start} to {start + len(lines) - 1}: {found}")
    return {"inputs": inputs, "findings": len(findings), "first": findings[:1]}


def _finding(program, lines):
    """What is wrong with the answers of the program, or ""."""
    done = subprocess.run([program], input=b"\n".join([*lines, b""]), capture_output=True)
    answers = done.stdout.decode(errors="replace").split("\n")[:-1]
    if done.returncode:
        return done.stderr.decode(errors="replace").strip()[-2000:]
    if len(answers) != len(lines):
        return f"{len(answers)} answers"
    if program.name != "classify":
        return ""
    cells = [answer.split("\t") for answer in answers]
    numbers = [float(number) for row in cells for number in row[1:] or row]  # a regression prints no label
    return "" if all(map(math.isfinite, numbers)) else "a logit is not finite"


def main():
    """The program: prints the figures."""
    values = flags.FLAGS
    folder = pathlib.Path(values.folder)
    texts = files.load_json(folder / export.REPORT).get("texts", 1)
    command_line.report(fuzz(folder, inputs=values.inputs, seed=values.seed, texts=texts))


if __name__ == "__main__":  # flags belong to the program
    flags.DEFINE_string("folder", None, "Exported folder.")
    flags.DEFINE_integer("inputs", 100_000, "Number of random texts.", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "Seed of the random texts.", lower_bound=0)
    command_line.run(main, required=["folder"])
