"""What a config costs before it is run: parameters, bytes, FLOPs. No data is read and no weight is made.

    python -m lwt.inspect.cost --config=configs/translation.py:data=pool
    python -m lwt.inspect.cost --config=configs/lora_ranks.py:base=runs/pool,rank=16 --rows=8

prints one JSON object:

    parameters              total (all that is stored), trainable, model (the base without task heads), groups
    parameter_bytes         of all that is stored
    optimizer_bytes         of the optimizer's state, which exists for trainable leaves only
    activation_bytes        temporaries of the compiled forward and backward pass on one training batch
    flops_per_example       {forward, forward_backward}; an example is one row, on both sides
    rows, row_length        the batch that was compiled
    vocabulary, backend     what it was compiled with, and for

FLOPs are the compiler's own count of the operations that it left, padding included, and loops as often as they run
(`lwt/inspect/flops.py`). The vocabulary's cross-entropy is a loop over chunks of positions: FLOPs are counted with a
single chunk, and the memory with the config's own ``task.chunk``.
"""

import collections
import dataclasses
import functools
import json
import os
import re

import jax
import jax.numpy as jnp
from absl import flags
from ml_collections import config_flags

from lwt import errors, trees
from lwt.data import tokenizer
from lwt.data.batches import masked_examples, pair_examples
from lwt.inspect import flops
from lwt.machine import command_line
from lwt.reparam import compose
from lwt.runs import assembly
from lwt.training import build, checks, optim

HEADS = r"base/(\w+_)?(head|classifier)/.*"  # weights of a task on top of the model
TITLES = {"embed": "embedding"}


def parameters(config, *, vocabulary=0, outputs=0):
    """Exact counts: ``{"total", "trainable", "model", "groups": {"embedding", "encoder", "decoder", "adapter", ...}}``.

    Args:
        config: see `configs/common.py`.
        vocabulary: rows of the table; 0 for those of `vocabulary_of`.
        outputs: classes; 0 for the model's own default.
    """
    trainable, frozen = shapes(config, vocabulary=vocabulary, outputs=outputs)
    groups = collections.Counter()
    heads = 0
    for name, leaf in {**trainable, **frozen}.items():
        kind, first, *_ = name.split("/")
        groups[kind if kind == "adapter" else TITLES.get(first, first)] += trees.count(leaf)
        heads += trees.count(leaf) if re.fullmatch(HEADS, name) else 0
    return {
        "total": groups.total(),
        "trainable": trees.count(trainable),
        "model": groups.total() - groups["adapter"] - heads,
        "groups": {name: count for name, count in sorted(groups.items()) if count},
    }


def measure(config, *, rows=0, row_length=0):
    """Everything that the program prints, as a dict.

    Args:
        config: see `configs/common.py`.
        rows, row_length: of the batch to compile for; 0 for the config's.
    """
    rows, row_length = rows or config.data.rows, row_length or config.data.row_length
    if rows < 1 or row_length < 1:
        raise errors.ConfigError(f"a batch of {rows} rows of {row_length} positions: both should be at least 1")
    trainable, frozen = shapes(config)
    batch = batch_of(config, rows, row_length)
    seed = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0)))
    loss = functools.partial(_loss, config)
    traced = lambda f: jax.jit(f).trace(trainable, frozen, batch, seed)  # noqa: E731
    forward = traced(loss(train=False, chunk=rows * row_length))
    both = traced(jax.value_and_grad(loss(train=True, chunk=rows * row_length)))
    as_trained = traced(jax.value_and_grad(loss(train=True))).lower().compile()
    return {
        "parameters": parameters(config),
        "parameter_bytes": trees.nbytes({**trainable, **frozen}),
        "optimizer_bytes": optimizer_bytes(config),
        "activation_bytes": int(as_trained.memory_analysis().temp_size_in_bytes),
        "flops_per_example": {
            "forward": round(flops.count(forward) / rows),
            "forward_backward": round(flops.count(both) / rows),
        },
        "rows": rows,
        "row_length": row_length,
        "vocabulary": vocabulary_of(config),
        "backend": jax.default_backend(),
    }


def optimizer_bytes(config, *, vocabulary=0, outputs=0):
    """Bytes of the optimizer's state: the moments of the trainable leaves, and a few counters."""
    trainable, frozen = shapes(config, vocabulary=vocabulary, outputs=outputs)
    reparam = compose.build(config.reparam)
    optimizer, _ = optim.build(config.optimizer, trainable, steps=config.steps, frozen=frozen, reparam=reparam)
    return trees.nbytes(jax.eval_shape(optimizer.init, trainable))


def shapes(config, *, vocabulary=0, outputs=0):
    """``(trainable, frozen)`` flat dicts of `jax.ShapeDtypeStruct`, split as training splits them.

    Raises:
        lwt.errors.ConfigError: what training would refuse too: an unknown name, a rule that matches no weight.
    """
    checks.check(config)
    model = _model(config, vocabulary or vocabulary_of(config), outputs=outputs)
    reparam = compose.build(config.reparam)
    return jax.eval_shape(lambda: assembly.initial_params(config, model, reparam=reparam))


def _model(config, vocabulary, *, outputs=0):
    """The model; how many classes the data has is not known here: if it is not said, its own default stands in."""
    return assembly.make_model(config, vocabulary, outputs=1 if _regression(config) else outputs)


def _regression(config):
    return assembly.task_section(config.task).name == "regress"


def vocabulary_of(config):
    """Rows of the table: those of the tokenizer that the run would take over (from ``init_from`` or
    ``data.tokenizer.path``), if it is there; else ``data.tokenizer.vocabulary``, for pairs as a multiple of 64; none
    for images."""
    if config.data.kind == "images":
        return 0
    section, of_pairs = config.data.tokenizer, config.data.kind == "pairs"
    path = section.path or os.path.join(config.init_from, tokenizer.FILE)
    if (section.path or config.init_from) and os.path.exists(path):
        return tokenizer.Tokenizer(path, specials=tokenizer.SEQ2SEQ if of_pairs else tokenizer.ENCODER).vocabulary
    return -(-section.vocabulary // 64) * 64 if of_pairs else section.vocabulary


def batch_of(config, rows, row_length):
    """A training batch of `jax.ShapeDtypeStruct`: the names, shapes and types that the config's kind of data has."""
    whole, kind = (rows, row_length), config.data.kind
    if kind == "pairs":
        shapes = dict.fromkeys(pair_examples.KEYS, whole)
    elif kind == "labelled":
        shapes = {"ids": whole, "segments": whole, "label": (rows,)}
    elif kind == "images":
        shapes = {"image": (rows, *_model(config, 0).example()["image"].shape[1:]), "weight": (rows,), "label": (rows,)}
    else:
        places = (rows, masked_examples.Masking.of(config.data.masking).count(row_length))
        shapes = {"ids": whole, "segments": whole, "next_sentence": (rows,)}
        shapes |= dict.fromkeys(("masked_positions", "masked_targets", "masked_weights"), places)
    numbers = {"image", "weight", "masked_weights"} | ({"label"} if _regression(config) else set())
    dtype = lambda name: jnp.float32 if name in numbers else jnp.int32  # noqa: E731
    return {name: jax.ShapeDtypeStruct(shape, dtype(name)) for name, shape in shapes.items()}


def _loss(config, *, train, chunk=0):
    """The loss that `build.build` makes, as ``(trainable, frozen, batch, seed) -> sum``; the seed is key data."""
    model, task = _model(config, vocabulary_of(config)), assembly.make_task(config)
    if chunk and hasattr(task, "chunk"):
        task = dataclasses.replace(task, chunk=chunk)

    whole = build.make_loss(model, task, reparam=compose.build(config.reparam), train=train)
    return lambda trainable, frozen, batch, seed: whole(trainable, frozen, batch, 0, jax.random.wrap_key_data(seed))[0]


def main():
    """The program: measures the config of the flags."""
    values = flags.FLAGS
    print(json.dumps(measure(values.config, rows=values.rows, row_length=values.row_length)))


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    config_flags.DEFINE_config_file("config", None, "A file of configs/, with arguments: FILE.py:key=value,...")
    flags.DEFINE_integer("rows", 0, "Rows of the batch; 0 for the config's.")
    flags.DEFINE_integer("row_length", 0, "Positions of a row; 0 for the config's.")
    command_line.run(main, required=["config"])
