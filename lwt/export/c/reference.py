"""What the C program has to say: rows of ids and logits, by the code that trained the model."""

import functools
import json
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np

from lwt import trees
from lwt.data import text
from lwt.data.batches import bucketed, tokenized
from lwt.data.kinds import labelled, supervised
from lwt.layers import listen

TEXTS = (
    "Play the newest song by Anna on the radio, please!",
    "what will the weather be like tomorrow at 9 o'clock?",
    "Ünïcödé — naïve café; ﬁne ½ price ™ (№5) 東京 \U0001f600",
    "i'm not sure that i feel well about it",
    "",
)
NOWHERE = r"(?!)"  # matches no name
# Modules of a model, by its class and where its norms stand, whose input or output the program keeps as states.
INPUTS = {"Embedder": r"conv", "Bert post": r"block_\d+"}
OUTPUTS = {
    "Embbert": r"block_\d+/norm",
    "Bert post": r"block_\d+/self_attention/(key|value)",
    "Bert inline": r"block_\d+/self_attention(_norm|/key|/value)",
}


def sides(opened):
    """How many texts a record has, one or two."""
    return len(json.loads(pathlib.Path(opened.workdir, supervised.LABELS).read_text())["fields"])


def row(opened, texts):
    """Ids of a text, or of the two of a pair, with the special tokens: ``(ids [t], segments [t])``."""
    cleaner = text.Cleaner(**opened.config.data.clean)
    found = [tokenized.Ragged.of(opened.tokenizer.encode([cleaner.clean(side)])) for side in texts]
    examples = labelled.Examples(tuple(found), None, opened.config.data.row_length, opened.config.data.cut)
    drawn = examples.draw(np.arange(1), None)
    batch = examples.batch(drawn, int(drawn["length"][0]), None)
    return batch["ids"][0], batch["segments"][0]


def logits(opened, weights, pairs, *, activations="", batch=32):
    """Logits `[n outputs]` of texts or pairs, in float32 but for the states.

    Args:
        opened: an `experiment.Experiment`.
        weights: flat dict.
        pairs: tuples of one or two texts.
        activations: what the program's states are rounded to, "fp16" or "int8"; "": they are not.
        batch: texts that are computed at a time.
    """
    found = [row(opened, texts) for texts in pairs]
    apply = _compiled(opened.model.clone(dtype="float32"), activations)
    lengths, tree, results = (
        bucketed.lengths(opened.config.data.row_length),
        trees.unflatten(weights),
        [None] * len(found),
    )
    order = sorted(range(len(found)), key=lambda i: len(found[i][0]))
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        length = next(n for n in lengths if n >= len(found[chosen[-1]][0]))
        arrays = [np.zeros((batch, length), np.int32) for _ in range(2)]
        for place, i in enumerate(chosen):
            for array, values in zip(arrays, found[i], strict=True):
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
    """Rows of integers up to 127 times a step; halves are rounded away from zero."""
    step = jnp.abs(x).max(-1, keepdims=True) / 127
    units = x / jnp.where(step > 0, step, 1)
    return jnp.trunc(units + jnp.where(units < 0, -0.5, 0.5)) * step
