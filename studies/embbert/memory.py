"""What the models of EmbBERT-Q's paper need: its tables, its formulas, and what is counted from real weights.

    python -m studies.embbert.memory
    python -m studies.embbert.memory --budget=560_000 --weight_bytes=1.05 --activation_bytes=2 --schedule=rows \\
        --space=v=4096:8192,l=256

Prints, as Markdown: every layer by the formulas of Tables 1, 13 and 14; Table 2, with the figures of the paper, of the
formulas, of the weights that each model makes, and of the compiler for one example; the memory of the quantized
EmbBERT, counted in several ways (with --artefact=FILE also that of a file); and the best configurations within a byte
budget (section 3.3).
"""

import dataclasses
import math
import os

import jax
import jax.numpy as jnp
from absl import flags

from lwt import errors, registry, trees
from lwt.layers import linear
from lwt.machine import command_line
from lwt.reparam.compression import quantize
from lwt.report import results
from studies.embbert import formulas, memory_search

SIZES = dict(v=8192, l=256, d=128, r=16, a=1, k=32, n=4)  # EmbBERT's, Table 2
TINY = dict(width=128, hidden=512, activation="gelu", segments=2, max_length=512, embedding_norm=True, pooler=True)
CLASSES = 2  # of the task head that the quantized model carries


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of Table 2.

    Attributes:
        cost: by the formulas.
        vocabulary, model: of the model whose weights are counted: rows of its table, and its config section.
        paper: thousands of weights, thousands of activations, total kB, as printed (but for "MB" in its place).
    """

    cost: formulas.Cost
    vocabulary: int
    model: dict
    paper: tuple


def table_2():
    """The rows of Table 2 by title.

    BERT-Tiny is the published one (v=30522, α=4); the printed v=32768 and α=2 would be 4.5 M weights, not 4.4 M.
    """
    f = formulas
    small = dict(v=8192, l=256, d=320, r=32)
    bert, tiny = dict(v=2048, l=256, d=80, a=2, h=2, n=2), dict(v=30522, l=512, d=128, a=4, h=2, n=2)
    mamba = dict(v=2048, l=256, d=64, a=1, k=4, s=6, n=5)
    return {
        "BERT(2MB)": Row(f.bert(**bert), 2048, {"name": "bert"}, (289, 213, 2008)),
        "MAMBA(2MB)": Row(f.mamba(**mamba), 2048, {"name": "mamba"}, (220, 265, 1941)),
        "Embedder": Row(f.embedder_only(**small), 8192, {"name": "embedder"}, (293, 164, 1826)),
        "Embedder + conv": Row(
            f.embedder_only(**small, k=16), 8192, {"name": "embedder", "kernel_size": 16}, (298, 164, 1848)
        ),
        "EmbBERT": Row(f.embbert(**SIZES), 8192, {"name": "embbert"}, (357, 131, 781)),
        "BERT-Tiny": Row(f.bert(**tiny), 30522, {"name": "bert", **TINY}, (4400, 786, 20746)),
    }


def ablations():
    """``{title: Cost}`` of the models of section 6 that Table 2 leaves out, in the sizes of their configs."""
    f = formulas
    return {
        "BERT + NE": f.bert_ne(v=8192, l=256, d=90, r=16, a=2, h=2, n=2),
        "BERT + EA": f.bert_ea(v=2048, l=256, d=84, a=2, n=3),
        "BERT + NE + EA": f.bert_ne_ea(v=8192, l=256, d=128, r=16, a=89 / 128, n=4),
    }


def layers(*, v, l, d, r, a, k, h, n, s):  # noqa: E741
    """``{layer: Cost}`` of every row of Tables 1, 13 and 14."""
    f = formulas
    return {
        "Embedder": f.embedder(v=v, l=l, d=d),
        "Nano Embedder": f.nano_embedder(v=v, l=l, d=d, r=r),
        "Normalization": f.norm(l=l, d=d),
        "Feed forward": f.feed_forward(l=l, d=d, a=a),
        "Attention": f.attention(l=l, d=d, h=h),
        "Efficient attention": f.efficient_attention(l=l, d=d),
        "Conv skip": f.conv_skip(l=l, d=d, a=a, k=k),
        "Attention + conv skip": f.efficient_skip(l=l, d=d, a=a, k=k),
        "MAMBA block": f.mamba_block(l=l, d=d, a=a, k=4, s=s),
        "EmbBERT, all": f.embbert(v=v, l=l, d=d, r=r, a=a, k=k, n=n),
    }


def make(row, *, head="classify", **more):
    """The model of a row."""
    more.update(head=head, outputs=CLASSES)
    return registry.MODELS.make({**row.model, **more}, key="model", vocabulary=row.vocabulary)


def shapes(model):
    """Flat ``{name: shape and type}`` of the weights that a model makes; nothing is computed."""
    return trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example())["params"]))


def body(flat):
    """The weights without the task head, which the paper leaves out too."""
    return {name: leaf for name, leaf in flat.items() if not name.startswith("head/")}


def compiled(model, length):
    """``(temporary bytes, FLOPs)`` of the compiled forward pass for one example of `length` positions, in float32."""
    batch = {name: jax.ShapeDtypeStruct((1, length), jnp.int32) for name in model.example()}
    weights = trees.unflatten(shapes(model))
    program = jax.jit(lambda weights, batch: model.apply({"params": weights}, batch)).lower(weights, batch).compile()
    return int(program.memory_analysis().temp_size_in_bytes), int(program.cost_analysis()["flops"])


def llm_int8(flat):
    """Bytes of the weights as the paper's code holds them: the linear layers' kernels in int8, λ vectors in float32,
    everything else, the task head and the tables included, in float16.

    (Scales of the rows, 4 bytes each, are not counted: with them the printed 781 kB is not met.)
    """

    def width(name):
        linear = name.endswith("/kernel") and "/conv/" not in name and not name.startswith("head/")
        return 1 if linear else 4 if "/difference/" in name else 2

    return sum(width(name) * math.prod(leaf.shape) for name, leaf in flat.items())


def quantized_bytes(model, *, vector=4, reparam=None):
    """Bytes of the integers, the scales, and all else at `vector` bytes per value: an artefact without its header."""
    weights = trees.unflatten(shapes(model))

    def expand(base):
        return (reparam or quantize.Quantize()).expand(trees.flatten(base), {}, 0)

    return sum(
        trees.nbytes(w) if linear.is_node(w) else vector * math.prod(w.shape)
        for w in jax.eval_shape(expand, weights).values()
    )


def readings(artefact=""):
    """``{reading: (bytes of weights, bytes of activations)}`` of the quantized EmbBERT.

    A head of two classes is counted, but by the paper's formula, which leaves it out.

    Args:
        artefact: a file that `lwt/runs/integer_file.py` wrote, to be measured; "" for none.

    Raises:
        lwt.errors.ConfigError: the file is not there.
    """
    row = table_2()["EmbBERT"]
    flat, collapsed = shapes(make(row)), make(row, collapsed=True)
    paper, count = int(row.cost.activations) * 2, trees.count(body(flat))
    rows = max(formulas.row_by_row(**{name: SIZES[name] for name in "lda"}).values()) * 2
    found = {
        "the paper's formula: 1.08 B a weight, 2 B an activation": (round(1.08 * count), paper),
        "the paper's code: LLM.int8": (llm_int8(flat), paper),
        "ours: int8 in blocks of 64, scales, vectors in float32": (quantized_bytes(collapsed), paper),
        "ours, vectors in float16": (quantized_bytes(collapsed, vector=2), paper),
        "ours, vectors in float32, a block computed row by row": (quantized_bytes(collapsed), rows),
    }
    if artefact:
        if not os.path.isfile(artefact):
            raise errors.ConfigError(f"--artefact={artefact}: there is no such file; runs/integer_file.py writes one")
        for title, activations in (("", paper), (", a block computed row by row", rows)):
            found[f"the file {os.path.basename(artefact)}{title}"] = (os.path.getsize(artefact), activations)
    return found


def page(budget, *, artefact="", **search):
    """Everything that the program prints."""

    def number(x):
        return f"{x:,}"

    header = ["layer", "weights", "activations", "memory accesses", "summations", "multiplications"]
    costs = layers(**SIZES, h=1, s=6).items()
    parts = ["Layers, at EmbBERT's sizes (h=1, d_s=6)", results.markdown(header, [_line(*item) for item in costs])]
    lines = []
    for title, row in table_2().items():
        model = make(row)
        temporary, flops = compiled(model, model.max_length)
        cost, (weights, activations, total) = row.cost, row.paper
        counted = trees.count(body(shapes(model)))
        ours = counted * 4 + int(cost.activations) * 4
        lines.append(
            [title, f"{weights:,} K", *map(number, (int(cost.weights), counted)), f"{activations} K"]
            + [*map(number, (int(cost.activations), temporary)), f"{total:,} kB", number(ours)]
            + [*map(number, (int(cost.sums + cost.products), flops))]
        )
    header = ["model", "weights: paper", "formulas", "counted", "activations: paper", "formulas", "compiled, B"]
    header += ["total: paper", "counted + formulas, float32 B", "operations: formulas", "compiled"]
    parts += ["Table 2 (the paper's 781 kB are those of EmbBERT-Q, see below)", results.markdown(header, lines)]
    lines = [[title, *map(number, (w, a, w + a))] for title, (w, a) in readings(artefact).items()]
    header = ["EmbBERT-Q in memory, bytes", "weights", "activations", "total"]
    parts += ["Readings of the paper's 781 kB", results.markdown(header, lines)]
    found, many = memory_search.best(budget, **search)
    lines = [[str(i + 1), *(number(value) for value in one.values())] for i, one in enumerate(found)]
    names = list(memory_search.SPACE)
    header = ["", *names, *list(found[0])[len(names) :]]
    parts += [f"{many:,} configurations within {budget:,} bytes; the best", results.markdown(header, lines)]
    return "\n".join(f"## {part}\n" if i % 2 == 0 else part for i, part in enumerate(parts))


def _line(title, cost):
    return [title, *(f"{int(value):,}" for value in dataclasses.astuple(cost))]


def main():
    """The program: prints the page."""
    values = flags.FLAGS
    bytes_of = dict(weight=values.weight_bytes, activation=values.activation_bytes)
    search = dict(schedule=values.schedule, criterion=values.criterion, top=values.top, space=parse(values.space))
    print(page(values.budget, artefact=values.artefact, **bytes_of, **search))


def parse(items):
    """``["v=4096:8192", "l=256"]`` -> ``{"v": (4096, 8192), "l": (256,)}``.

    Raises:
        lwt.errors.ConfigError: an item that does not look so.
    """
    space = {}
    for item in items:
        name, _, sizes = item.partition("=")
        if name in space:
            raise errors.ConfigError(f"--space={item}: {name} is given twice")
        try:
            space[name] = tuple(int(size) for size in sizes.split(":"))
        except ValueError as error:
            raise errors.ConfigError(f"--space={item}: it should look like v=4096:8192,l=256") from error
    return space


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    flags.DEFINE_integer("budget", 2 << 20, "Bytes for weights and activations.", lower_bound=1)
    flags.DEFINE_float("weight_bytes", 4.0, "Bytes of a weight.", lower_bound=0)
    flags.DEFINE_float("activation_bytes", 4.0, "Bytes of an activation.", lower_bound=0)
    flags.DEFINE_enum("schedule", "paper", ["paper", "rows"], "Activations: the paper's formula, or row by row.")
    flags.DEFINE_enum("criterion", "encoder", sorted(memory_search.CRITERIA), "What the best has most of.")
    flags.DEFINE_integer("top", 10, "How many configurations to list.", lower_bound=1)
    flags.DEFINE_string("artefact", "", "A quantized EmbBERT on disk, to be measured too.")
    flags.DEFINE_list("space", [], "Sizes to try, such as v=4096:8192,l=256; the others: see memory_search.SPACE.")
    command_line.run(main, required=[])
