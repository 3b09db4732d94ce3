"""Looks into a model while it reads one input: weights of attention heads, and the memories that respond.

One compiled pass of the model's own code records both. A memory is a key and a value of a feed-forward layer; see
`lwt/inspect/ffn_memories.py`.
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
from lwt.inspect import ffn_memories
from lwt.layers import listen

WORDS = 6  # shown per value
KEYS = 12  # shown per layer


@dataclasses.dataclass(frozen=True)
class Attention:
    """The weights `[h t s]` of one attention module, and the tokens at its positions; no tokens for an image."""

    weights: np.ndarray
    queries: tuple
    keys: tuple


@dataclasses.dataclass(frozen=True)
class Memory:
    """A key of a feed-forward layer, at the position where it responds most.

    Attributes:
        key: its index.
        coefficient: the factor of its value there.
        context: the text before the token, the token, and the text after it that the layer can see.
        value: the tokens that the value alone makes likeliest: ``(token, how many times likelier than by chance)``.
    """

    key: int
    coefficient: float
    context: tuple
    value: list


@dataclasses.dataclass(frozen=True)
class Insight:
    """``{module: Attention}``, ``{layer: [Memory]}``, the strongest first, and the name of the values' output table."""

    attentions: dict
    memories: dict
    through: str


class Reader:
    """Reads inputs with a run's model and returns what happens inside.

    Attributes:
        heads: ``{attention: number of heads}``, the encoder's first.
        layers: feed-forward layers with memories, the encoder's first.
    """

    def __init__(self, experiment):
        self._model, self._task, self._tokenizer = experiment.model, experiment.task, experiment.tokenizer
        self._names = _memory_layers(experiment)
        self._pass = jax.jit(self._apply)
        weights, coefficients = jax.eval_shape(self._apply, experiment.weights, experiment.model.example())
        self.heads = {name: weights[name].shape[1] for name in sorted(weights, key=_place)}
        self.layers = tuple(name.removesuffix("/kernel") for name in self._names if name in coefficients)

    def __call__(self, experiment, batch):
        """Reads the first row of a batch from `inputs`, with the run of the constructor or the same `with_weights`."""
        weights, coefficients = jax.device_get(self._pass(experiment.weights, batch))
        attentions = {name: self._attention(name, weights[name][0], batch) for name in self.heads}
        table, through = ffn_memories.output_table(experiment) if self.layers else (None, "")
        memories = {}
        for layer in self.layers:
            name = f"{layer}/kernel"
            values = ffn_memories.value_rows(experiment.weights, name)
            memories[layer] = self._memories(values, table, name, coefficients[name][0], batch)
        return Insight(attentions, memories, through)

    def _apply(self, weights, batch):
        """``({module: weights [b h t s]}, {kernel: coefficients [b t f]})`` of a batch."""
        found = {}
        with attention_weights(found):
            if self._tokenizer is None:  # an image is normalised by its task
                self._task.predict(functools.partial(self._model.apply, {"params": trees.unflatten(weights)}), batch)
                return {n: w for n, w in _whole(found, batch["image"]).items() if _is_map(w)}, {}
            coefficients = listen.inputs(self._model, weights, batch=batch, names=self._names)
        return _whole(found, next(iter(batch.values()))), coefficients

    def _attention(self, name, weights, batch):
        if self._tokenizer is None:
            return Attention(weights, (), ())
        queries, keys = (self._tokens(f"{name}/{part}/kernel", batch, part) for part in ("query", "key"))
        queries = queries[: weights.shape[1]]  # fewer where later layers read only one position
        return Attention(weights[:, : len(queries), : len(keys)], queries, keys)

    def _tokens(self, name, batch, part):
        """The tokens at the positions that a weight reads. A decoder's query is the token that it writes."""
        ids, segments = listen.side(name, batch)
        ids = "targets" if ids == "inputs" and part == "query" else ids
        real = batch[ids][0][batch[segments][0] > 0]
        return tuple(self._tokenizer.piece(int(i)) for i in real)

    def _memories(self, values, table, name, coefficients, batch):
        """The keys of a layer with the largest coefficients `[t f]`; its `values` are `[f d]`, the `table` `[v d]`."""
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
        return before, self._tokenizer.piece(ids[place]), after

    def _words(self, values, table):
        """The likeliest tokens of each value, and how much likelier than by chance: a list per value."""
        tokens, shares, _ = ffn_memories.value_tokens(values, table, answers=np.zeros(len(values), int), count=WORDS)
        name_of = self._tokenizer.piece
        times = shares * len(table)
        return [[(name_of(int(i)), float(x)) for i, x in zip(*row, strict=True)] for row in zip(tokens, times)]


def _memory_layers(experiment):
    """The kernels that hold a run's values; none for images and for models without such layers."""
    if experiment.tokenizer is None:
        return []
    try:
        return ffn_memories.layers(experiment.weights)
    except errors.ConfigError:
        return []


def _place(name):
    """The sort key of an attention: its place in the model."""
    return name.startswith("decoder"), [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", name)]


def attention_weights(found):
    """A context that puts the weights `[b h t s]` of every attention into the dict `found`, by the module's name."""

    def answer(name, module, call, args, kwargs):
        del module
        if name not in found:
            found[name] = None  # calls of the base class, and those made below, are the same attention
            found[name] = _weights(call, *args, mask=kwargs["mask"], dtype=kwargs["dtype"])
        return call(*args, **kwargs)

    return listen.intercept(answer, classes=base.Base, method="mix")


def _weights(mix, q, cache, *, mask, dtype):
    """How much of every position an attention mixes into its output, `[b h t s]`: its output for unit vectors.

    Unit vectors replace the values, as many at a time as the values are wide. This holds for every attention whose
    mixture depends on queries and keys alone.
    """
    values = cache.get("value", cache["key"])  # no values: see `lwt/attention/efficient.py`
    s, k = values.shape[2:]
    units = jnp.pad(jnp.eye(s), ((0, 0), (0, -s % k)))
    parts = [
        mix(q, {**cache, "value": jnp.broadcast_to(units[:, i : i + k], values.shape)}, mask=mask, dtype=dtype)
        for i in range(0, s, k)
    ]
    return jnp.concatenate(parts, axis=-1)[..., :s]


def _whole(found, rows):
    """The attentions that read an input as one row of the batch, not cut into several."""
    return {name: weights for name, weights in found.items() if len(weights) == len(rows)}


def _is_map(weights):
    """Whether the keys form a square map, with or without a class token, and the queries do too or are just one."""
    t, s = weights.shape[2:]
    return t in (1, s) and math.isqrt(s) ** 2 in (s, s - 1)
