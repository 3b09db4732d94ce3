"""Reads feed-forward layers as memories: what triggers their keys, and which tokens their values predict.

After Geva et al. 2020 (arXiv 2012.14913): a layer is ``Σ_i act(x·k_i + b_i) v_i``, with a key k_i, a column of its
first kernel, and a value v_i, a row of its second. A key's triggers are the positions of a data set with the largest
coefficients; a value is a distribution over the vocabulary, ``softmax(v_i Eᵀ)`` with the output embedding E.

An EmbBERT has no such layer, but its convolution path has the same form. There, the activated channels of the
convolution are the coefficients, and the rows of ``contract/kernel``, times their weight -λ_c, are the values. In a
classifier, which has no output embedding, values are read through the input embedding.
"""

import dataclasses
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors, trees
from lwt.inspect import memory_triggers
from lwt.layers import linear, listen
from lwt.runs import assembly

SHOWN = 10  # triggers of a key whose texts are looked up
VALUES = r"(.*/mlp/fc2|.*/contract)/kernel"


@dataclasses.dataclass(frozen=True)
class Layer:
    """The memories of one layer, f of them.

    Attributes:
        name: the kernel that holds the values.
        predicts: what a value is compared with: "the next token", "the token" at the trigger's position, or "the token
            under the mask".
        triggers: from `memory_triggers.strongest`.
        tokens: `[f n]` ids of each value's likeliest tokens; shares: `[f n]` their probabilities.
        rank: `[f]` the number of tokens that the value prefers to the one it is compared with.
        removed: the change of coefficients without the first or last token; see `memory_triggers.removals`.
        vocabulary: the number of tokens to choose from.
    """

    name: str
    predicts: str
    triggers: dict
    tokens: np.ndarray
    shares: np.ndarray
    rank: np.ndarray
    removed: dict
    vocabulary: int


def layers(weights):
    """The names of the kernels that hold values, the encoder's before the decoder's, lower layers first.

    Raises:
        lwt.errors.ConfigError: the model has no such layer.
    """
    found = [name for name in weights if re.fullmatch(VALUES, name)]
    if not found:
        raise errors.ConfigError("the model has neither mlp/fc2 nor contract kernels, whose rows would be the values")

    def numbered(name):
        return [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", name)]

    return sorted(found, key=lambda name: (name.startswith("decoder"), numbered(name)))


def output_table(experiment):
    """``(E [v d], what it is)``: the output embedding of a run, or else its input embedding."""

    def apply(method):
        return experiment.model.apply({"params": trees.unflatten(experiment.weights)}, method=method)

    if hasattr(experiment.model, "output_table"):
        return apply("output_table"), "output embedding"
    if experiment.model.head == "pretrain":
        return apply("output_layer")[0], "output embedding"
    table = linear.dense(experiment.weights["embed/token"])
    for name in ("embed/token_expander/kernel", "embed_project/kernel"):  # of narrow tables
        if name in experiment.weights:
            table = linear.linear(table, experiment.weights[name])
    return table, "input embedding (there is no output one)"


def value_rows(weights, name):
    """The values `[f d]` of a layer, with the weights at which they are added to the states."""
    rows = linear.dense(weights[name])
    if not name.endswith("contract/kernel"):
        return rows
    stem = name.replace("contract/kernel", "difference/conv")
    if stem in weights:
        return -weights[stem] * rows
    return -jnp.exp((weights[f"{stem}_query"] * weights[f"{stem}_key"]).sum()) * rows


def value_tokens(rows, table, *, answers, count=10):
    """``(ids [f n], probabilities [f n], rank [f])`` of values `[f d]` through a table `[v d]`; see `Layer`.

    Args:
        answers: `[f]` ids whose rank is computed.
    """
    logits = linear.linear(rows, table.T)
    shares, ids = jax.lax.top_k(jax.nn.softmax(logits, axis=-1), min(count, logits.shape[1]))
    own = jnp.take_along_axis(logits, jnp.asarray(answers)[:, None], axis=1)
    return tuple(map(np.asarray, (ids, shares, (logits > own).sum(axis=1))))


def study(experiment, *, data="", limit=0, top=50, shown=40, sampled=32):
    """The memories of all layers of a run, and the texts of some triggers.

    Args:
        experiment: an experiment on texts.
        data: ``KIND:NAME@SPLIT``; "" for the run's validation set.
        limit: the number of its records; 0: all.
        top: the number of triggers of a key.
        shown: the number of keys of a layer whose triggers' texts are looked up: those with the most confident values.
        sampled: the number of keys of a layer whose triggers are read again without a token.

    Returns:
        ``([Layer], texts, facts)``; `texts` from `memory_triggers.contexts`, of `SHOWN` triggers.

    Raises:
        lwt.errors.ConfigError: a run on images, or a model without such layers.
    """
    if experiment.tokenizer is None:
        raise errors.ConfigError(f"{experiment.workdir} is a run on images; triggers are texts")
    names = layers(experiment.weights)
    made = assembly.make_data(experiment.config, experiment.workdir, make=False)
    used = made.evaluation(data or experiment.config.data.validation, limit=limit)

    def again():
        return made.batches(used)

    triggers = memory_triggers.strongest(experiment.model, experiment.weights, batches=again(), names=names, top=top)
    removed = memory_triggers.removals(
        experiment.model, experiment.weights, batches=again(), found=triggers, keys=sampled
    )
    table, through = output_table(experiment)
    table = table[: experiment.tokenizer.pieces]
    (first,) = itertools.islice(again(), 1)
    found, wanted = [], {}
    for name in names:
        answers = triggers[name]["answer"][:, 0]
        tokens, shares, rank = value_tokens(value_rows(experiment.weights, name), table, answers=answers)
        decoder = listen.side(name, first)[0] == "inputs"
        masked = "the token, where it is masked the one under the mask" if "masked_targets" in first else "the token"
        predicts = "the next token" if decoder else masked
        found.append(Layer(name, predicts, triggers[name], tokens, shares, rank, removed[name], len(table)))
        surest = np.argsort(-np.where(triggers[name]["coefficient"][:, 0] > 0, shares[:, 0], -1), kind="stable")
        wanted[name] = np.sort(surest[:shown]), SHOWN
    texts = memory_triggers.contexts(triggers, again(), wanted=wanted)
    return found, texts, {"data": used.name, "records": len(used.sources), "table": through, "top": top}
