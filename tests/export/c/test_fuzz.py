"""The program in C, compiled with sanitizers, reads and writes only its own memory, whatever it is given."""

import shutil

import pytest

from lwt.export.c import export, fuzz

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc with its sanitizers")


@pytest.mark.parametrize(
    ("kind", "activations", "texts", "cut", "length", "fields"),
    [
        ("embbert", "int8", 1, "middle", 24, dict(layers=2, kernel_size=5, pool="rms")),
        ("bert", "fp16", 2, "middle", 9, dict(width=18, hidden=21, heads=2, pool="pair")),
        ("embedder", "fp16", 1, "end", 8, dict(pool="rms", kernel_size=5)),
        ("mamba", "int8", 1, "end", 24, dict(width=18, layers=2, pool="rms")),
    ],
)
def test_random_texts(variant, tmp_path, monkeypatch, kind, activations, texts, cut, length, fields):
    experiment = variant(kind, **fields)
    with experiment.config.unlocked():
        experiment.config.data.update(cut=cut, row_length=length)
    monkeypatch.setattr(export.reference, "sides", lambda _: texts)
    export.write(experiment, tmp_path, activations=activations)
    assert fuzz.fuzz(tmp_path, inputs=700, texts=texts) == {"inputs": 700, "findings": 0, "first": []}


def test_an_error_is_found(variant, tmp_path):
    export.write(variant("embedder", pool="rms"), tmp_path, activations="fp16")
    path = tmp_path / "src/encode.c"
    text = path.read_text()
    assert text.count("ids->ids[at] = id;") == 1
    path.write_text(text.replace("ids->ids[at] = id;", "ids->ids[at + LWT_ARENA_BYTES] = id;"))
    found = fuzz.fuzz(tmp_path, inputs=20)
    assert found["findings"] == 1 and "inputs 0 to 19" in found["first"][0]


def test_a_number_that_is_not_finite_is_found(tmp_path):
    program = tmp_path / "classify"
    for answer, found in (("nan", "a logit is not finite"), ("x\\tinf", "a logit is not finite"), ("1.5", "")):
        program.write_text(f"#!/bin/sh\nprintf '{answer}\\n'\n")
        program.chmod(0o755)
        assert fuzz._finding(program, [b"a"]) == found
