"""A translator in C gives the ids of the same arithmetic in NumPy, and in NumPy it is the model in JAX."""

import copy
import functools
import re
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.attention import kv_projection
from lwt.attention import linear as linear_attention
from lwt.data import tokenizer
from lwt.export.c import emulator, export, fuzz, reference, toolchain
from lwt.export.c.translation import program
from lwt.layers import linear
from lwt.reparam.compression import quantize

pytestmark = pytest.mark.usefixtures("compiled_once")
PRUNED = {"encoder/layer_0/self_attention": 0, "decoder/layer_0/cross_attention": 1, "decoder/layer_1/mlp": 0}
NARROW = functools.partial(kv_projection.Attention, rank=4)
VARIANTS = {  # the model's fields, the task's, the quantization's
    "paper": (dict(decoder_layers=2), {}, dict(block=0)),
    "int4": (dict(hidden=40), dict(beams=3), dict(format="int4", block=16)),
    "pre-norm": (dict(pre_norm=True, activation="silu"), dict(beams=2, penalty="power"), dict(block=16)),
    "pruned": (dict(decoder_layers=2, sizes=PRUNED, scale_embedding=False), {}, dict(format="int4", block=0)),
    "marian": (dict(source_vocabulary=128, tied_output=False, logits_bias=True), {}, {}),
    "projected": (dict(attention=NARROW, activation="gelu"), dict(beams=2), {}),
    "factors": (dict(decoder_layers=2, sizes=PRUNED), dict(beams=2), dict(format="int4", block=16)),
    "alphabet": ({}, {}, {}),  # of more characters than a byte can number
}
FACTORS = r".*(query|out|cross_attention/key|fc1|fc2)/kernel"
TEXTS = ["add 2: 8 13 2 5", "", "  UPPER ÄÖÜ — naïve € 東京 ", "9 " * 50, "sort 3 1 2 一丅丌乃"]


def factors(shape, generator):
    return linear.Factors(
        *(jnp.asarray(generator.normal(0, 0.4, size), jnp.float32) for size in ((shape[0], 3), (3, shape[1])))
    )


@pytest.fixture(scope="module")
def run(tiny, untrained, tmp_path_factory):
    return untrained(tiny({"data.max_tokens": 24}), tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A tokenizer of 400 Chinese characters and some pairs of them."""
    generator, characters = np.random.default_rng(0), [chr(0x4E00 + 7 * i) for i in range(400)]
    texts = ["".join(generator.choice(characters, 12)) for _ in range(2000)]
    return tokenizer.train(texts, tmp_path_factory.mktemp("large") / tokenizer.FILE, vocabulary=700)


@pytest.fixture(scope="module")
def variant(run, large):
    """``variant(name)``: the run with another model, random quantized weights, and other settings."""

    def make(name):
        fields, settings, quantization = VARIANTS[name]
        other, generator = copy.copy(run), np.random.default_rng(3)
        if name == "alphabet":
            other.tokenizer, fields = large, {"vocabulary": large.vocabulary}
        other.model = run.model.clone(**fields)
        made = trees.flatten(
            jax.eval_shape(lambda: other.model.init(jax.random.key(0), other.model.example()))["params"]
        )
        weights = {name: jnp.asarray(generator.normal(0, 0.4, leaf.shape), jnp.float32) for name, leaf in made.items()}
        if name == "factors":  # of some layers, and of inputs of the source
            weights |= {leaf: factors(w.shape, generator) for leaf, w in weights.items() if re.fullmatch(FACTORS, leaf)}
        other.task = type(run.task)(metrics=("exact_match",), **settings)
        other.weights = quantize.Quantize(**quantization).expand(weights, {}, 0)
        if name == "projected":  # its matrices are multiplied before they are quantized
            other.weights = weights
        return other

    return make


@pytest.fixture(scope="module")
def built(variant, tmp_path_factory):
    """``built(name, activations)``: the run, its `program.Translator` and the folder of the program."""

    @functools.cache
    def build(name, activations):
        experiment, folder = variant(name), tmp_path_factory.mktemp("c")
        export.write(experiment, folder, activations=activations)
        toolchain.make(folder, "translate", CC=toolchain.host(), CFLAGS="-O0 -Werror")
        return experiment, program.Translator(experiment, activations), folder

    return build


def answers(folder, *flags):
    given = "".join(f"{text}\n" for text in TEXTS).encode()
    return subprocess.run([folder / "translate", *flags], input=given, capture_output=True, check=True).stdout.decode()


@pytest.mark.parametrize("activations", ["fp16", "int8"])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_program_gives_the_ids_of_numpy(name, activations, built):
    experiment, translator, folder = built(name, activations)
    rows = [row.split("\t") for row in answers(folder, "--ids").splitlines()]
    sources, found = ([[int(i) for i in row[side].split()] for row in rows] for side in (0, 1))
    assert sources == translator.sources(TEXTS)
    wanted = translator.answers(sources)
    assert found == wanted and len({tuple(answer) for answer in wanted}) > 1
    assert answers(folder).split("\n")[:-1] == experiment.tokenizer.decode(wanted)
    assert "self-test: 0 of 3 failed" in toolchain.make(folder, "test", CC=toolchain.host(), CFLAGS="-O0")


@pytest.mark.parametrize("name", ["paper", "pre-norm", "marian", "projected", "factors"])
def test_logits_of_numpy_are_those_of_jax(name, built):
    experiment, translator, _ = built(name, "fp16")
    source, answer = translator.sources(TEXTS[:1])[0], [tokenizer.BOS, 9, 30, 11]
    batch = {"source": jnp.array([source]), "inputs": jnp.array([answer])}
    for side, ids in (("source", source), ("target", answer)):
        batch |= {
            f"{side}_segments": jnp.ones((1, len(ids)), jnp.int32),
            f"{side}_positions": jnp.arange(len(ids))[None],
        }
    wanted = translator.model.apply({"params": trees.unflatten(translator.values)}, batch)[0]
    caches = translator.network.start([source])
    found = [translator.network.step(np.array([i]), caches, t=t)[0] for t, i in enumerate(answer)]
    wanted = np.asarray(wanted)[:, : experiment.tokenizer.pieces]
    np.testing.assert_allclose(np.stack(found), wanted, atol=0.005 * np.abs(wanted).max())


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc with its sanitizers")
def test_random_texts_find_no_error(built):
    assert fuzz.fuzz(built("int4", "int8")[2], inputs=50) == {"inputs": 50, "findings": 0, "first": []}


def test_the_device_translates_as_the_host(built):
    pytest.importorskip("unicorn", reason="pip install '.[c]' brings the emulator")
    _, _, folder = built("int4", "int8")
    board = emulator.Board(toolchain.read(toolchain.firmware(folder, FLASH_START=emulator.FLASH)[0]))
    assert [board.translate(text)[0] for text in TEXTS] == answers(folder).split("\n")[:-1]
    assert board.self_test() == 0 and 200 < board.stack_used() < 800
    stages = board.stages(lambda: board.translate(TEXTS[0]))
    assert len(stages) == 4 and min(stages) > 100 and stages[2] > 1000 * board.translate(TEXTS[0])[1]


@pytest.mark.skipif(not shutil.which(toolchain.QEMU), reason="needs qemu-system-arm: unicorn has no Cortex-M55")
@pytest.mark.parametrize("core", ["m55", "m33"])  # vectors, and a core without a floating-point unit
def test_other_cores_translate_too(core, built):
    pytest.importorskip("ziglang", reason="pip install '.[c]' brings the compiler")
    assert "self-test: passed" in toolchain.qemu(built("int4", "int8")[2], core=core, compiler="zig")


@pytest.mark.parametrize(
    ("fields", "task", "message"),
    [
        (dict(attention=functools.partial(linear_attention.Attention)), {}, "model.attention is 'linear'"),
        (dict(positions="learned", max_length=64), {}, "model.positions=.learned. must be .sinusoidal."),
        ({}, dict(temperature=1.0), "task.temperature=1.0 and task.force_end=False must be 0 and False"),
    ],
)
def test_what_the_engine_lacks_is_refused(fields, task, message, variant, run):
    other = variant("paper")
    other.model, other.task = other.model.clone(**fields), type(run.task)(**task)
    with pytest.raises(errors.ConfigError, match=message):
        program.Translator(other, "int8").program(TEXTS)


def test_a_run_without_its_test_set_says_what_it_translates(variant, monkeypatch, caplog):
    other = variant("paper")
    program.program(other, "int8")
    assert not caplog.messages

    def gone(*_, **__):
        raise errors.DataError("no folder multi30k_de_en")

    monkeypatch.setattr(type(other.data), "evaluation", gone)
    assert program.texts_of(other, ()) == (reference.TEXTS[0],)
    program.program(other, "int8")
    (said,) = caplog.messages
    assert "test set is not there: built-in English texts replace it; --sentence gives one" in said
