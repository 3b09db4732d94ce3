"""A run whose model and weights can be replaced, and the answers of the C program made from it."""

import copy
import json
import pathlib
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import trees
from lwt.export.c import export, toolchain
from lwt.layers import linear, quantized_weight
from lwt.models import bert, embbert, embedder, mamba
from lwt.runs import config_file

ROOT = pathlib.Path(__file__).parents[2]
WORDS = "cold old bold warm long dark young slow great small café “quoted” naïve x2 — 'tis £5".split()


@pytest.fixture(scope="session")
def run(tmp_path_factory, untrained):
    """A tiny EmbBERT with random weights, for texts in two classes."""
    folder = tmp_path_factory.mktemp("c")
    (folder / "texts").mkdir()
    rows = [{"text": f"{WORDS[i % 17]} {WORDS[i % 7]} {i}", "label": f"class {i % 2}"} for i in range(60)]
    (folder / "texts/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = f"{ROOT}/configs/embbert_finetune.py:data=folder:{folder}/texts,vocabulary=160,smoke=true"
    config = config_file.load(spec)
    config.model.update(width=16, reduced=4, layers=1, kernel_size=3, max_length=32)
    config.data.row_length = 24
    return untrained(config, folder / "run")


@pytest.fixture(scope="session")
def variant(run):
    """``variant(kind, **fields)``: the run with another model and random, already quantized weights.

    `kind` is "embbert", "embedder", "bert" or "mamba"; `fields` are the model's. `factors` is the rank of the kernels
    of blocks; 0: they are no factors.
    """
    kinds = {"embbert": embbert.Embbert, "embedder": embedder.Embedder, "bert": bert.Bert, "mamba": mamba.Mamba}

    def make(kind, *, seed=0, factors=0, **fields):
        own = run.model
        generator = np.random.default_rng(seed)
        common = dict(vocabulary=own.vocabulary, max_length=32, width=20, head="classify", outputs=3)
        common |= {} if kind == "mamba" else {"reduced": 6}
        other = copy.copy(run)
        other.config = run.config.copy_and_resolve_references()
        other.model, other.labels = (
            kinds[kind](**common | fields),
            ("a", 'b "quoted"', "c??/\té"),
        )  # a tab would end the label
        other.weights = {}
        for name, leaf in _shapes(other.model).items():
            sides = [leaf.shape]
            if factors and name.startswith("block_") and name.endswith(("query/kernel", "contract/kernel")):
                sides = [(leaf.shape[0], factors), (factors, leaf.shape[1])]
            made = [_weight(shape, name, generator) for shape in sides]
            other.weights[name] = linear.Factors(*made) if len(made) > 1 else made[0]
        return other

    return make


def _shapes(model):
    return trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"])


def _weight(shape, name, generator):
    if len(shape) < 2 or name.endswith("a_log"):
        return jnp.asarray(generator.normal(0, 0.4, shape) + name.endswith("scale"), jnp.float32)
    scales = generator.uniform(0.2, 1, (-(-shape[0] // 64), *shape[1:])) * 0.01
    values = jnp.asarray(generator.integers(-127, 128, shape), jnp.int8)
    return quantized_weight.Quantized(values, jnp.asarray(scales, jnp.float16), block=min(64, shape[0]))


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """``program(experiment, activations)`` builds the program; ``answer(lines, *flags)`` gives the lines it prints."""

    def build(experiment, activations):
        folder = tmp_path_factory.mktemp(activations)
        export.write(experiment, folder, activations=activations)
        toolchain.make(folder, "classify", CC=toolchain.host(), CFLAGS="-O0")  # takes a third of the time to compile

        def answer(lines, *flags):
            data = b"".join(line if isinstance(line, bytes) else line.encode() for line in lines)
            done = subprocess.run([folder / "classify", *flags], input=data, capture_output=True, check=True)
            return done.stdout.decode().splitlines()

        answer.folder = folder
        return answer

    return build
