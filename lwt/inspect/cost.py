"""Computes what a config costs before it runs: parameters, bytes, FLOPs. It reads no data and makes no weights.

    python -m lwt.inspect.cost --config=configs/translation.py:data=pool
    python -m lwt.inspect.cost --config=configs/lora_ranks.py:base=runs/pool,rank=16 --rows=8

prints one JSON object:

    parameters              total (everything stored), trainable, model (the base without task heads), groups
    parameter_bytes         of everything stored
    optimizer_bytes         of the optimizer's state, for trainable leaves only
    activation_bytes        temporaries of the compiled forward and backward pass on one training batch
    flops_per_example       {forward, forward_backward}; an example is one row, on both sides
    rows, row_length        shape of the compiled batch
    vocabulary, backend     rows of the table, and the platform compiled for

FLOPs are the compiler's own count after optimization, padding and every round of a loop included
(`lwt/inspect/flops.py`). The vocabulary's cross-entropy loops over chunks of positions: FLOPs are counted with a
single chunk, memory with the config's ``task.chunk``.
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

from lwt import errors, trees
from lwt.data import tokenizer, tokenizer_files
from lwt.data.batches import compared_examples, masked_examples, pair_examples
from lwt.inspect import flops
from lwt.machine import command_line
from lwt.reparam import compose
from lwt.runs import assembly, config_file, hub
from lwt.training import build, checks, optim

HEADS = r"base/(\w+_)?(head|classifier)/.*"  # the task's weights on top of the model
TITLES = {"embed": "embedding"}


def parameters(config, *, vocabulary=0, outputs=0, made=None):
    """Exact counts: ``{"total", "trainable", "model", "groups": {"embedding", "encoder", "decoder", "adapter", ...}}``.

    Args:
        vocabulary: rows of the table; 0: `vocabulary_of` the config.
        outputs: classes; 0: the model's default.
        made: what `shapes` gave for the config; None: it is called.
    """
    trainable, frozen = made or shapes(config, vocabulary=vocabulary, outputs=outputs)
    groups, copies = collections.Counter(), _copies(config)
    heads = 0
    for name, leaf in {**trainable, **frozen}.items():
        kind, first, *_ = name.split("/")
        count = trees.count(leaf) * (copies if name in trainable else 1)
        groups[kind if kind == "adapter" else TITLES.get(first, first)] += count
        heads += count if re.fullmatch(HEADS, name) else 0
    return {
        "total": groups.total(),
        "trainable": copies * trees.count(assembly.learned(compose.build(config.reparam), trainable)),
        "model": groups.total() - groups["adapter"] - heads,
        "groups": {name: count for name, count in sorted(groups.items()) if count},
    }


def measure(config, *, rows=0, row_length=0):
    """Everything that the program prints, for a batch of this shape; 0: the config's."""
    rows, row_length = rows or config.data.rows, row_length or config.data.row_length
    if rows < 1 or row_length < 1 or rows * row_length >= 1 << 31:
        size = f"{rows:,} rows of {row_length:,} positions"
        raise errors.ConfigError(f"a batch of {size}: both must be at least 1, and their product below 2^31")
    made = trainable, frozen = shapes(config)
    batch = batch_of(config, rows=rows, row_length=row_length)
    seed = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0)))
    loss = functools.partial(_loss, config)

    def traced(function):
        return jax.jit(function).trace(trainable, frozen, batch, seed)

    forward = traced(loss(train=False, chunk=rows * row_length))
    both = traced(jax.value_and_grad(loss(train=True, chunk=rows * row_length)))
    as_trained = traced(jax.value_and_grad(loss(train=True))).lower().compile()
    return {
        "parameters": parameters(config, made=made),
        "parameter_bytes": trees.nbytes({**trainable, **frozen}),
        "optimizer_bytes": optimizer_bytes(config, made=made),
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


def optimizer_bytes(config, *, vocabulary=0, outputs=0, made=None):
    """Bytes of the optimizer's state: the moments of the trainable leaves, and a few counters; see `parameters`."""
    trainable, frozen = made or shapes(config, vocabulary=vocabulary, outputs=outputs)
    reparam = compose.build(config.reparam)
    optimizer, _ = optim.build(config.optimizer, trainable, steps=config.steps, frozen=frozen, reparam=reparam)
    return _copies(config) * trees.nbytes(jax.eval_shape(optimizer.init, trainable))


def _copies(config):
    """How often the trained weights are there: once for each task of a run of several."""
    return len(config.tasks) or 1


def shapes(config, *, vocabulary=0, outputs=0):
    """``(trainable, frozen)`` flat dicts of `jax.ShapeDtypeStruct`, split as training splits them.

    Raises:
        lwt.errors.ConfigError: training would refuse the config too: an unknown name, a rule that matches no weight.
    """
    checks.check(config)
    model = model_of(config, vocabulary or vocabulary_of(config), outputs=outputs)
    reparam = compose.build(config.reparam)
    return jax.eval_shape(lambda: assembly.initial_params(config, model, reparam=reparam))


def model_of(config, vocabulary, *, outputs=0):
    """The model. The number of classes in the data is unknown here: without `outputs`, the model's default is used."""
    return assembly.make_model(config, vocabulary, outputs=1 if _regression(config) else outputs)


def _regression(config):
    return assembly.task_section(config.task).name == "regress"


def vocabulary_of(config):
    """Rows of the table.

    They are those of the tokenizer in ``data.tokenizer.path`` or ``init_from``, if it exists; else
    ``data.tokenizer.vocabulary``, for pairs rounded up to a multiple of 64; 0 for images.
    """
    if config.data.kind == "images":
        return 0
    section, of_pairs = config.data.tokenizer, config.data.kind == "pairs"
    path = section.path or tokenizer_files.path_in(hub.folder(config.init_from))
    if (section.path or config.init_from) and os.path.exists(path):
        return tokenizer_files.load(path, specials=tokenizer.SEQ2SEQ if of_pairs else tokenizer.ENCODER).vocabulary
    return -(-section.vocabulary // 64) * 64 if of_pairs else section.vocabulary


def batch_of(config, *, rows, row_length):
    """A training batch of `jax.ShapeDtypeStruct`, with the names, shapes and types of the config's kind of data."""
    positions, kind = (rows, row_length), config.data.kind
    if kind == "pairs":
        target = min(row_length, config.data.target_row_length or row_length)
        shapes = pair_examples.shapes(rows, lengths=(row_length, target))
    elif kind in ("labelled", "compared"):
        several = (model_of(config, vocabulary_of(config)).outputs,) if config.task.name == "multilabel" else ()
        shapes = {"ids": positions, "segments": positions, "label": (rows, *several)}
        if kind == "compared":
            shapes |= {f"{compared_examples.SECOND}{name}": positions for name in ("ids", "segments")}
    elif kind == "images":
        shapes = {
            "image": (rows, *model_of(config, 0).example()["image"].shape[1:]),
            "weight": (rows,),
            "label": (rows,),
        }
    else:
        places = (rows, masked_examples.Masking.of(config.data.masking).count(row_length))
        shapes = {"ids": positions, "segments": positions, "next_sentence": (rows,)}
        shapes |= dict.fromkeys(("masked_positions", "masked_targets", "masked_weights"), places)
    numbers = {"image", "weight", "masked_weights"} | (
        {"label"} if _regression(config) or kind == "compared" else set()
    )
    return {
        name: jax.ShapeDtypeStruct(shape, jnp.float32 if name in numbers else jnp.int32)
        for name, shape in shapes.items()
    }


def _loss(config, *, train, chunk=0):
    """The loss that `build.build` makes, as ``(trainable, frozen, batch, seed) -> sum``; the seed is key data."""
    model, task = model_of(config, vocabulary_of(config)), assembly.make_task(config)
    if chunk and hasattr(task, "chunk"):
        task = dataclasses.replace(task, chunk=chunk)
    loss = build.make_loss(model, task, reparam=compose.build(config.reparam), train=train)
    return lambda trainable, frozen, batch, seed: loss(trainable, frozen, batch, 0, jax.random.wrap_key_data(seed))[0]


def main():
    """The program: measures the config given by the flags."""
    values = flags.FLAGS
    print(json.dumps(measure(values.config, rows=values.rows, row_length=values.row_length)))


if __name__ == "__main__":
    config_file.define()
    flags.DEFINE_integer("rows", 0, "Rows of the batch; 0: the config's.", lower_bound=0)
    flags.DEFINE_integer("row_length", 0, "Positions of a row; 0: the config's.", lower_bound=0)
    command_line.run(main, required=["config"])
