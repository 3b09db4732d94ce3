"""The ids and logits that the C program must reproduce, from the code that trained the model."""

import functools
import json
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np

from lwt import trees
from lwt.data import labels, text
from lwt.data.batches import bucketed, labelled_examples, tokenized
from lwt.layers import listen

TEXTS = (
    "Play the newest song by Anna on the radio, please!",
    "what will the weather be like tomorrow at 9 o'clock?",
    "Ünïcödé — naïve café; ﬁne ½ price ™ (№5) 東京 \U0001f600",
    "i'm not sure that i feel well about it",
    "",
)
NOWHERE = r"(?!)"  # matches no name
# Modules whose input or output the program keeps as states, by class of the model and place of its norms.
INPUTS = {"Embedder": r"conv", "Bert post": r"block_\d+", "Mamba": r"block_\d+/mixer/conv"}
OUTPUTS = {
    "Embbert": r"block_\d+/norm",
    "Bert post": r"block_\d+/self_attention/(key|value)",
    "Bert inline": r"block_\d+/self_attention(_norm|/key|/value)",
}


def sides(experiment):
    """The number of texts in a record, one or two."""
    return len(json.loads(pathlib.Path(experiment.workdir, labels.FILE).read_text())["fields"])


def row(experiment, texts):
    """Encodes a text, or the two of a pair, with the special tokens; returns ``(ids [t], segments [t])``."""
    tokenizer, section = experiment.tokenizer, experiment.config.data
    cleaner = text.AsIs() if tokenizer.cleans else text.Cleaner(**section.clean)
    encoded = [tokenized.RaggedArray.of(tokenizer.encode([cleaner.clean(side)])) for side in texts]
    options = {"max_length": section.row_length, "frame": tokenizer.frame, "cut": section.cut}
    examples = labelled_examples.LabelledExamples(tuple(encoded), None, **options)
    drawn = examples.draw(np.arange(1), None)
    batch = examples.batch(drawn, int(drawn["length"][0]), None)
    return batch["ids"][0], batch["segments"][0]


def logits(experiment, weights, *, records, activations="", batch=32):
    """Computes logits `[n outputs]` of records, in float32 except for the states.

    Args:
        weights: flat dict.
        records: tuples of one or two texts.
        activations: type that states are rounded to, "fp16" or "int8"; "": no rounding.
        batch: records per call of the model.
    """
    rows = [row(experiment, texts) for texts in records]
    apply = _compiled(experiment.model.clone(dtype="float32"), activations)
    lengths, tree = bucketed.bucket_lengths(experiment.config.data.row_length), trees.unflatten(weights)
    results = [None] * len(rows)
    order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]))
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        length = next(n for n in lengths if n >= len(rows[chosen[-1]][0]))
        arrays = [np.zeros((batch, length), np.int32) for _ in range(2)]
        for place, i in enumerate(chosen):
            for array, values in zip(arrays, rows[i], strict=True):
                array[place, : len(values)] = values
        answers = np.asarray(apply(tree, dict(zip(("ids", "segments"), arrays, strict=True))))
        for place, i in enumerate(chosen):
            results[i] = answers[place]
    return np.stack(results)


@functools.cache
def _compiled(model, activations):
    kind = type(model).__name__ + (f" {model.norm_place}" if hasattr(model, "norm_place") else "")
    rounded = {"": lambda x: x, "fp16": lambda x: x.astype("float16").astype("float32"), "int8": _int8}[activations]
    inputs, outputs = (places.get(kind, NOWHERE) for places in (INPUTS, OUTPUTS))

    def keep(name, module, call, args, kwargs):
        del module
        if re.fullmatch(inputs, name):
            args = (rounded(args[0]), *args[1:])
        y = call(*args, **kwargs)
        return rounded(y) if re.fullmatch(outputs, name) else y

    def apply(tree, batch):
        with listen.intercept(keep):
            return model.apply({"params": tree}, batch)

    return jax.jit(apply)


def _int8(x):
    """Rounds each row to multiples, up to 127, of its own step; halves are rounded away from zero."""
    step = jnp.abs(x).max(-1, keepdims=True) / 127
    units = x / jnp.where(step > 0, step, 1)
    return jnp.trunc(units + jnp.where(units < 0, -0.5, 0.5)) * step
