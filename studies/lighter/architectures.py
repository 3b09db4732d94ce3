"""The candidates of an architecture search: their configs, and their costs before training."""

import dataclasses
import functools
import itertools
import math
import random

import jax
import jax.numpy as jnp

from lwt import errors, trees
from lwt.inspect import cost
from lwt.layers import linear, quantized_weight
from lwt.reparam.compression import quantize
from lwt.report import study
from lwt.runs import assembly, config_file
from studies.attention import study as attention_study
from studies.attention import variants

FLOAT = "float32"
FORMATS = (FLOAT, *quantized_weight.FORMATS)
REACH = 8  # number of keys, landmarks, ... of the attentions that limit them


@dataclasses.dataclass(frozen=True)
class Task:
    """A task to search an architecture for.

    Attributes:
        config: config file that all candidates start from; arguments: its arguments.
        length: positions of the timed text, and of its translation.
        space: ``{field of Candidate: its values}``.
    """

    config: str
    arguments: dict
    length: int
    space: dict


SPACE = {
    "layers": (4, 6, 8),
    "width": (64, 96, 128),
    "heads": (2, 4),
    "expansion": (1, 2, 4),
    "attention": ("softmax", "kv_projection_half"),
    "format": (FLOAT, "int8", "int4"),
}
TASKS = {
    "translation": Task("configs/translation.py", {"data": "multi30k"}, 16, SPACE),
    "classification": Task(
        "configs/embbert_finetune.py",
        {"model": "bert_2mb", "recipe": "tuned", "data": "folder:snips"},
        32,
        SPACE | {"width": (32, 64, 96), "attention": ("softmax", "efficient")},
    ),
}


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An architecture and the format of its weights.

    Attributes:
        layers: of the encoder and of the decoder; width: d; heads: h; expansion: f / d.
        attention: one of `variants.names`.
        format: one of `FORMATS`, for kernels and tables; if it is not float32, the rest is float16.
    """

    layers: int
    width: int
    heads: int
    expansion: int
    attention: str
    format: str

    @property
    def architecture(self):
        """The name without the format; candidates that share it share their training runs."""
        return f"l{self.layers}-d{self.width}-h{self.heads}-f{self.expansion * self.width}-{self.attention}"

    @property
    def name(self):
        """The name, with the format."""
        return f"{self.architecture}, {self.format}"


def candidates(space, *, count, seed=0, fits=lambda candidate: True):
    """Draws up to `count` candidates of a space that fit; returns them in the order of the space.

    Args:
        space: ``{field of Candidate: its values}``.
        count: largest number of candidates.
        seed: random seed of the draw.
        fits: whether a candidate is small enough; called until `count` candidates are.

    Raises:
        lwt.errors.ConfigError: an unknown field, attention or format.
    """
    fields = [field.name for field in dataclasses.fields(Candidate)]
    for name in space:
        if name not in fields:
            raise errors.ConfigError(f"--space={name}: {errors.suggest(name, fields)}")
    for key, known in (("attention", variants.names()), ("format", FORMATS)):
        for value in space[key]:
            if value not in known:
                raise errors.ConfigError(f"--space={key}={value}: {errors.suggest(value, known)}")
    for key in set(fields) - {"attention", "format"}:
        for value in space[key]:
            if not isinstance(value, int) or value < 1:
                raise errors.ConfigError(f"--space={key}={value}: expected whole numbers above 0, such as {key}=4:6")
    every = [Candidate(**dict(zip(fields, values))) for values in itertools.product(*(space[f] for f in fields))]
    possible = [one for one in every if one.width % (2 * one.heads) == 0]
    order = random.Random(seed).sample(possible, len(possible))
    return sorted(itertools.islice(filter(fits, order), count), key=possible.index)


def config_of(task, candidate, *, steps, data="", smoke=False):
    """The config of a run of `steps` steps, evaluated once, at the end.

    Args:
        task: a key of `TASKS`.
        data: the ``data`` argument of the task's config; "" for the task's own.
    """
    base = TASKS[task]
    arguments = base.arguments | ({"data": data} if data else {}) | ({"smoke": "true"} if smoke else {})
    config = config_file.load(study.spec_of(base.config, arguments))
    two_stacks = config.model.name == "seq2seq"
    section = variants.sections(candidate.width // candidate.heads, length=config.data.row_length, reach=REACH)[
        candidate.attention
    ]
    counts = ("encoder_layers", "decoder_layers") if two_stacks else ("layers",)
    sizes = dict.fromkeys(counts, candidate.layers) | {"width": candidate.width, "heads": candidate.heads}
    sizes["hidden"] = candidate.expansion * candidate.width
    with config.unlocked():
        config.model = config.model.to_dict() | sizes | attention_study.places(section, config.model.name)
        config.data.packed = variants.abilities(section).keeps_texts_apart
        config.steps = config.eval_every = config.save_every = steps
        config.epochs = 0.0
        config.log_every = max(1, min(config.log_every, steps // 4))
        config.optimizer.schedule.warmup = min(config.optimizer.schedule.warmup, steps // 5)
    return config


def nbytes(config, format):
    """Bytes of a run's weights in a file of a format, without the file's header.

    Args:
        config: from `config_of`; format: one of `FORMATS`.
    """
    base = trees.subtree(cost.shapes(config)[0], "base")
    if format == FLOAT:
        return trees.nbytes(base)
    rounded = jax.eval_shape(lambda base: quantize.Quantize(format=format).expand(base, {}, 0), base)
    total = 0
    for w in rounded.values():
        if linear.is_node(w):
            halved = math.prod(w.shape) // 2 if format == "int4" else 0  # two values per byte
            total += trees.nbytes(w) - halved
        else:
            total += 2 * math.prod(w.shape)
    return total


def call(config, format, *, length):
    """A function that runs one text of `length` positions through random weights and waits for the result.

    A translation takes the encoder and exactly `length` steps of greedy decoding, since random weights end at random.
    """
    model = assembly.make_model(config, cost.vocabulary_of(config))
    weights = assembly.init_weights(model, jax.random.key(0))
    if format != FLOAT:
        weights = quantize.Quantize(format=format).expand(weights, {}, 0)
    run = jax.jit(functools.partial(_translate if hasattr(model, "start") else _classify, model, length))
    return lambda: jax.block_until_ready(run(weights))


def _classify(model, length, weights):
    batch = {name: jnp.ones((1, length), jnp.int32) for name in model.example()}
    return model.apply({"params": trees.unflatten(weights)}, batch)


def _translate(model, length, weights):
    apply = functools.partial(model.apply, {"params": trees.unflatten(weights)})
    ones = jnp.ones((1, length), jnp.int32)
    memory = apply(ones, ones, positions=jnp.arange(length)[None], method="encode")
    cache = apply(memory, ones, length=length, method="start")

    def step(carry, _):
        tokens, past = carry
        logits, new = apply(tokens, {"self": past, "cross": cache["cross"]}, method="step")
        return (logits.argmax(-1).astype(jnp.int32), new["self"]), None

    (tokens, _), _ = jax.lax.scan(step, (ones[:, 0], cache["self"]), None, length=length)
    return tokens
