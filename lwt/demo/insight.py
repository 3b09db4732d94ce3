"""What happens inside of a model while it reads one input: the weights of attention heads, the memories that answer.

Both come out of the ordinary code of the model, in one compiled pass. A memory is a key and a value of a feed-forward
layer; see `lwt/inspect/ffn_memories.py`.
"""

import dataclasses
import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors, trees
from lwt.attention.parts import base
from lwt.inspect import ffn_memories, memory_report
from lwt.layers import listen

WORDS = 6  # of a value
KEYS = 12  # of a layer


@dataclasses.dataclass(frozen=True)
class Attention:
    """One attention's weights.

    Attributes:
        weights: `[h t s]`; rows of softmax attention sum to 1.
        queries, keys: what stands at the positions, texts; of an image, empty.
    """

    weights: np.ndarray
    queries: tuple
    keys: tuple


@dataclasses.dataclass(frozen=True)
class Memory:
    """A key that answers, at the position where it answers most.

    Attributes:
        key: its number.
        coefficient: what its value is multiplied with there.
        context: the text before, the token there, and the text behind it that the layer can see.
        value: the tokens that the value by itself makes likeliest: ``(token, how many times likelier than by chance)``.
    """

    key: int
    coefficient: float
    context: tuple
    value: list


@dataclasses.dataclass(frozen=True)
class Insight:
    """What was found of one input.

    Attributes:
        attentions: ``{module: Attention}``.
        memories: ``{layer: [Memory]}``, the strongest first.
        through: what the values are seen through, in words.
    """

    attentions: dict
    memories: dict
    through: str


class Reader:
    """Reads inputs with a run's model.

    Args:
        opened: an `experiment.Experiment`.

    Attributes:
        heads: ``{module: its heads}`` of the attentions that there are, the encoder's first.
        layers: feed-forward layers with memories, alike.
    """

    def __init__(self, opened):
        self._model, self._task, self._tokenizer = opened.model, opened.task, opened.tokenizer
        self._names = _memory_layers(opened)
        self._pass = jax.jit(self._apply)
        weights, coefficients = jax.eval_shape(self._apply, opened.weights, opened.model.example())
        self.heads = {name: weights[name].shape[1] for name in sorted(weights, key=_place)}
        self.layers = tuple(name.removesuffix("/kernel") for name in self._names if name in coefficients)

    def __call__(self, run, batch):
        """An `Insight`.

        Args:
            run: the run that was opened, or one `with_weights`.
            batch: of numpy arrays, its first row the input, from `inputs`.
        """
        weights, coefficients = jax.device_get(self._pass(run.weights, batch))
        attentions = {name: self._attention(name, weights[name][0], batch) for name in self.heads}
        table, through = ffn_memories.output_table(run) if self.layers else (None, "")
        memories = {}
        for layer in self.layers:
            name = f"{layer}/kernel"
            values = ffn_memories.value_rows(run.weights, name)
            memories[layer] = self._memories(values, table, name, coefficients[name][0], batch)
        return Insight(attentions, memories, through)

    def _apply(self, weights, batch):
        """``({module: weights [b h t s]}, {kernel: coefficients [b t f]})`` of a batch."""
        found = {}
        with attention_weights(found):
            if self._tokenizer is None:  # an image is normalised by its task
                self._task.predict(functools.partial(self._model.apply, {"params": trees.unflatten(weights)}), batch)
                return {n: w for n, w in _whole(found, batch["image"]).items() if _is_map(w)}, {}
            coefficients = listen.inputs(self._model, weights, batch, self._names)
        return _whole(found, next(iter(batch.values()))), coefficients

    def _attention(self, name, weights, batch):
        if self._tokenizer is None:
            return Attention(weights, (), ())
        queries, keys = (self._tokens(f"{name}/{part}/kernel", batch, part) for part in ("query", "key"))
        queries = queries[: weights.shape[1]]  # fewer, where one position alone is read on
        return Attention(weights[:, : len(queries), : len(keys)], queries, keys)

    def _tokens(self, name, batch, part):
        """What stands at the positions of the side that a weight reads. A decoder's query is the token it writes."""
        ids, segments = listen.side(name, batch)
        ids = "targets" if ids == "inputs" and part == "query" else ids
        real = batch[ids][0][batch[segments][0] > 0]
        return tuple(memory_report.piece(self._tokenizer, int(i)) for i in real)

    def _memories(self, values, table, name, coefficients, batch):
        """The keys of a layer with the largest coefficients `[t f]` at the positions of the input.

        Args:
            values: `[f d]`; table: `[v d]`, what they are seen through.
            name: of the layer's kernel.
        """
        side, segments = listen.side(name, batch)
        ids = batch[side][0][batch[segments][0] > 0].tolist()
        coefficients = coefficients[: len(ids)]
        strongest, places = coefficients.max(axis=0), coefficients.argmax(axis=0)
        keys = np.argsort(-strongest, kind="stable")[:KEYS]
        found = zip(keys, self._words(values[keys], table[: self._tokenizer.pieces]), strict=True)
        context = functools.partial(self._context, ids, ahead=side != "inputs")
        return [
            Memory(int(key), float(strongest[key]), context(int(places[key])), words)
            for key, words in found
            if strongest[key] > 0
        ]

    def _context(self, ids, place, *, ahead):
        before, after = self._tokenizer.decode([ids[:place], ids[place + 1 :] if ahead else []])
        return before, memory_report.piece(self._tokenizer, ids[place]), after

    def _words(self, values, table):
        """The likeliest tokens of some values, and how much likelier than by chance: a list for each."""
        tokens, shares, _ = ffn_memories.value_tokens(values, table, np.zeros(len(values), int), count=WORDS)
        name_of = functools.partial(memory_report.piece, self._tokenizer)
        times = shares * len(table)
        return [[(name_of(int(i)), float(x)) for i, x in zip(*row, strict=True)] for row in zip(tokens, times)]


def _memory_layers(opened):
    """The kernels that hold the values of a run on texts; none where the model has no such layers."""
    if opened.tokenizer is None:
        return []
    try:
        return ffn_memories.layers(opened.weights)
    except errors.ConfigError:
        return []


def _place(name):
    """The place of an attention in the model: for sorting."""
    return name.startswith("decoder"), [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", name)]


def attention_weights(found):
    """A context that puts the weights `[b h t s]` of every attention into the dict `found`, by the module's name."""

    def answer(name, module, call, args, kwargs):
        del module
        if name not in found:
            found[name] = None  # calls of the base class, and those made below, are the same attention
            found[name] = _weights(call, *args, dtype=kwargs["dtype"])
        return call(*args, **kwargs)

    return listen.intercept(answer, classes=base.Base, method="mix")


def _weights(mix, q, cache, mask, *, dtype):
    """How much of every position `[b h t s]` an attention mixes into its output: what it makes of unit vectors.

    They take the place of the values, as many at a time as these are wide, so that this holds for every attention that
    mixes values by what queries and keys say alone: with its sparse pattern, its landmarks, or its normalisation.
    """
    values = cache.get("value", cache["key"])  # no values: see `lwt/attention/efficient.py`
    s, k = values.shape[2:]
    units = jnp.pad(jnp.eye(s), ((0, 0), (0, -s % k)))
    parts = [
        mix(q, {**cache, "value": jnp.broadcast_to(units[:, i : i + k], values.shape)}, mask, dtype=dtype)
        for i in range(0, s, k)
    ]
    return jnp.concatenate(parts, axis=-1)[..., :s]


def _whole(found, rows):
    """Those attentions that see an input as one row of the batch, and not cut into several."""
    return {name: weights for name, weights in found.items() if len(weights) == len(rows)}


def _is_map(weights):
    """Whether the keys are those of a square map, with or without a class token ahead, and so the queries, or one."""
    t, s = weights.shape[2:]
    return t in (1, s) and math.isqrt(s) ** 2 in (s, s - 1)
