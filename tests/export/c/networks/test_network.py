"""Every network in C gives the logits of the model in JAX with the same integer weights and the same states."""

import functools

import numpy as np
import pytest

from lwt import errors
from lwt.attention import efficient, linear
from lwt.export.c import export, literals, reference, toolchain, weights
from lwt.export.c.networks import network as networks

pytestmark = pytest.mark.usefixtures("compiled_once")
TEXTS = ["a cold old one", "", "bold warm long dark young slow great small " * 6, "£5 — naïve", "x2"]
EFFICIENT = functools.partial(efficient.Attention)
EA = dict(attention=EFFICIENT, heads=1, activation="silu", norm="rms", norm_place="inline", dropout=0.0)
PAPER = dict(norm="layer", use_bias=False, segments=2, pool="first")
VARIANTS = {
    "embbert": ("embbert", dict(width=136, layers=2, kernel_size=5, pool="rms")),  # more than one block of inputs
    "embbert paper": ("embbert", dict(layers=2, kernel_size=32, heads=2, expansion=2, **PAPER)),
    "embedder": ("embedder", dict(pool="rms", norm="none", use_bias=False)),
    "embedder conv": ("embedder", dict(pool="rms", kernel_size=5, ngram_weights=1000)),
    "bert": ("bert", dict(width=18, hidden=21, heads=2, pool="rms")),  # heads of 9 channels
    "bert tiny": ("bert", dict(hidden=40, activation="gelu", segments=2, embedding_norm=True, pooler=True)),
    "bert mean": ("bert", dict(segments=1, pool="mean", pooler=True)),  # a pooler that this head does not read
    "distilbert": ("bert", dict(segments=0, embedding_norm=True, pooler=True, pooler_activation="relu")),
    "bert pair": ("bert", dict(width=18, hidden=21, heads=2, pool="pair")),
    "embbert factors": ("embbert", dict(width=136, layers=2, kernel_size=5, pool="rms", factors=7)),
    "mamba": ("mamba", dict(layers=2)),
    "mamba wide": ("mamba", dict(width=18, layers=1, expansion=2, state=3, kernel_size=5, time_rank=5, pool="pair")),
    "mamba first": ("mamba", dict(layers=1, kernel_size=1, pool="first")),
    "bert ne ea": ("bert", dict(hidden=15, layers=3, embedding="nano", **EA)),
}
# Root mean square of the difference, relative to that of the logits, with the model's states rounded like the
# program's. Sums of integers are exact, and operands have 16 bits. The remaining difference is a state that is rounded
# to the neighbouring step: 2^-11 of a value, or 1/127 of the largest value in a row.
TOLERANCES = {"fp16": 0.001, "int8": 0.01}


def relative(found, wanted):
    return np.sqrt(np.square(found - wanted).mean() / np.square(wanted).mean())


def answers(lines):
    rows = [line.split("\t") for line in lines]
    return [row[0] for row in rows], np.array([[float(x) for x in row[1:]] for row in rows])


@pytest.mark.parametrize("name", VARIANTS)
def test_the_program_gives_the_logits_of_the_model(name, variant, program):
    kind, fields = VARIANTS[name]
    experiment = variant(kind, **fields)
    for activations, tolerance in TOLERANCES.items():
        options = {"records": [(text,) for text in TEXTS], "activations": activations, "batch": len(TEXTS)}
        wanted = reference.logits(experiment, weights.of(experiment)[0], **options)
        answer = program(experiment, activations)
        labels, found = answers(answer([text + "\n" for text in TEXTS]))
        assert relative(found, wanted) <= tolerance, (activations, found, wanted)
        assert labels == [literals.one_line(experiment.labels[i]) for i in found.argmax(1)]
        assert answer([], "--self-test")[0].startswith("self-test: 0 of 5 failed")


def test_factors_save_multiplications(variant):
    fields = dict(width=136, layers=2, kernel_size=5)
    for pool, rows in {"rms": lambda tokens: 2 * tokens, "first": lambda tokens: tokens + 1}.items():
        whole, low = (variant("embbert", pool=pool, factors=rank, **fields) for rank in (0, 7))
        before, after = (networks.of(x.model, weights.Source(weights.of(x)[0])) for x in (whole, low))
        inner = 136 * whole.model.expansion
        saved = 136 * 136 - 7 * 272 + inner * 136 - 7 * (inner + 136)
        assert before.macs(9) - after.macs(9) == saved * rows(9)


def test_the_self_test_fails_when_a_weight_changes(variant, program):
    answer = program(variant("embbert", layers=2, kernel_size=4), "fp16")
    path = answer.folder / "src/model.c"
    text = path.read_text()
    start = text.index("w_block_1_attention_out[")
    values = text.index("{\n", start) + 2
    path.write_text(text[:values] + "127," * 40 + text[text.index(",\n", values) + 1 :])
    with pytest.raises(errors.ConfigError, match="make test fails"):
        toolchain.make(answer.folder, "test")


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("embbert", dict(head="pretrain"), "model.head='pretrain' must be 'classify'"),
        ("embbert", dict(attention=functools.partial(linear.Attention)), "model.attention is 'linear'"),
        ("bert", dict(sizes={"block_0/mlp": 7}, hidden=8), "model.sizes"),
        ("bert", dict(shared=True), "model.shared=True must be empty or 0"),
        ("bert", dict(embedding_width=12), "model.embedding_width=12 must be empty or 0"),
        ("embbert", dict(kernel_size=80), "model.kernel_size=80 must be at most reparam.block=64"),
    ],
)
def test_unsupported_models_are_refused(kind, fields, message, variant, tmp_path):
    experiment = variant(kind, **fields)
    with pytest.raises(errors.ConfigError, match=message):
        export.export(experiment, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
