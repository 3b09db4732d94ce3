"""Distillation: a task learnt from its labels and from a teacher, a model that has learnt it."""

import dataclasses
import re

import jax
import jax.numpy as jnp

from lwt import errors
from lwt.layers import linear, listen, text_head
from lwt.layers.losses import soft_loss
from lwt.tasks import classify, masked_lm, regress

MODULE = re.compile(r"(?P<stack>(?:.*/)?)(?:layer|block)_(?P<index>\d+)(?:/(?P<part>\w*attention))?")
REAL = {"encoder/": "source_segments", "decoder/": "target_segments"}  # where the positions of other stacks are
OWN = {"soft_loss", "layer_loss", "distilled"}  # sums that the wrapped task has not


@dataclasses.dataclass(frozen=True)
class Distill:
    """``(1-w) · task + w · soft + hidden · states + attention · attentions``, all as means over what `task` counts.

    ``soft`` is `soft_loss.divergence` at temperature T from the teacher's outputs: of classes; of the next token at
    every target position, or of the masked ones (Hinton et al. 2015, section 2; for translation the word level of Kim
    and Rush 2016, arXiv 1606.07947, section 3.1). Of a number it is the squared difference. Of pre-training, the
    next-sentence head learns from its labels alone.

    ``states`` is the mean squared difference of the outputs of blocks, ``attentions`` that of the outputs of attention
    modules, averaged over entries, positions and layers. Layer i of the student's n learns from layer ⌊i N/n⌋ of N, and
    where widths differ, a learned `[d d']` matrix comes between (Jiao et al. 2020, TinyBERT, arXiv 1909.10351, section
    3.1). Deviation: TinyBERT compares the scores of attention; here it is the modules' outputs, which every attention
    has, whatever its heads, and which costs no array `[t s]`.

    The model of the run answers as it would without all this: evaluation and decoding are those of `task`.

    Attributes:
        task: the task itself; in a config, its section.
        teacher: workdir of the teacher's run, of the same tokenizer and classes. Of records with one output there may
            be several, a tuple: what is learnt is the mean of their outputs. Where `cache` applies, they may have other
            tokenizers.
        checkpoint: of the teacher, "best", "last" or a step.
        temperature: T.
        weight: w, the share of the soft loss.
        hidden, attention: weights of the two matchings; 0: none.
        cache: compute the teacher's outputs once, where a record has one output and nothing but this is learnt from.
            Without it, the teacher is asked in every step, and reads what the student reads: of a text, the words that
            word dropout left (Beyer et al. 2022, arXiv 2106.05237, section 3, "consistent teaching", there of images).

    Raises:
        lwt.errors.ConfigError: a value out of its range; from `loss` and `init`, layers that do not fit together.
    """

    task: object
    teacher: str | tuple = ()
    checkpoint: str = "best"
    temperature: float = 2.0
    weight: float = 0.5
    hidden: float = 0.0
    attention: float = 0.0
    cache: bool = True

    def __post_init__(self):
        if not self.teachers or not all(self.teachers):
            raise errors.ConfigError("task.teacher is empty; it should be the workdir of the run to learn from")
        if not self.temperature > 0 or not 0 <= self.weight <= 1 or min(self.hidden, self.attention) < 0:
            raise errors.ConfigError(
                f"task.temperature={self.temperature} should be above 0, task.weight={self.weight} in [0, 1], and "
                f"task.hidden={self.hidden} and task.attention={self.attention} not negative"
            )

    @property
    def teachers(self):
        """The workdirs of the teachers."""
        return (self.teacher,) if isinstance(self.teacher, str) else tuple(self.teacher)

    @property
    def matches_layers(self):
        """Whether layers are compared, and not outputs alone."""
        return self.hidden > 0 or self.attention > 0

    def init(self, key, apply, teacher, batch):
        """The matrices between layers of different widths, ``{"NAME/kernel": [d d']}`` by the student's module.

        Args:
            apply, teacher: of student and teacher, with their weights bound.
            batch: a training batch; only its shapes matter.
        """
        if not self.matches_layers:
            return {}

        def layers(batch):
            mine = _Watched(apply, self._wanted)
            self.task.loss(mine, batch, train=False)
            return mine.layers, mine.repeated(teacher).layers

        mine, theirs = jax.eval_shape(layers, batch)
        made = {}
        for i, (name, other) in enumerate(pairs(mine, theirs)):
            width, wanted = mine[name].shape[-1], theirs[other].shape[-1]
            if width != wanted:
                normal = jax.random.normal(jax.random.fold_in(key, i), (width, wanted))
                made[f"{name}/kernel"] = normal * width**-0.5
        return made

    def loss(self, apply, batch, *, train=True, rngs=None, teacher, projections):
        """``(sum, count, sums)``: the task's own with ``soft_loss`` and ``layer_loss`` beside it.

        Args:
            teacher: the teacher's `apply` with its weights bound.
            projections: what `init` made, or became of it.
        """
        mine = _Watched(apply, self._wanted)
        value, count, sums = self.task.loss(mine, batch, train=train, rngs=rngs)
        theirs = mine.repeated(teacher)
        soft, of = self._soft(mine, theirs)
        soft = count * soft / jnp.maximum(of, 1.0)
        total = (1 - self.weight) * value + self.weight * soft
        sums = sums | {"soft_loss": soft, "distilled": count}
        if self.matches_layers:
            layers = count * self._differences(mine, theirs, projections)
            total, sums = total + layers, sums | {"layer_loss": layers}
        return total, count, sums

    def evaluate(self, apply, batch):
        """The task's own sums; no teacher is needed."""
        return self.task.evaluate(apply, batch)

    def finish(self, sums):
        """The task's own figures; of training also ``soft_loss`` and ``layer_loss``, as means."""
        figures = self.task.finish({name: value for name, value in sums.items() if name not in OWN})
        count = max(float(sums.get("distilled", 0.0)), 1.0)
        return figures | {name: float(sums[name]) / count for name in ("soft_loss", "layer_loss") if name in sums}

    def _soft(self, mine, theirs):
        """``(sum, count)`` of what the student's outputs are from the teacher's."""
        batch = mine.asked[0][0]
        if mine.asked[1] is None:  # one output a record
            real = classify.real_rows(batch)
            if isinstance(self.task, regress.Regress):
                apart = jnp.square(mine.given - theirs.given.reshape(mine.given.shape))[:, 0]
            else:
                real &= (batch["label"] >= 0) & (batch["label"] < mine.given.shape[-1])
                apart = soft_loss.divergence(mine.given, theirs.given, self.temperature)
            return jnp.where(real, apart, 0.0).sum(), real.sum()
        if isinstance(self.task, masked_lm.MaskedLm):
            weights, places = batch["masked_weights"], batch["masked_positions"][..., None]
            hidden = [jnp.take_along_axis(x.given, places, axis=1, mode="clip") for x in (mine, theirs)]
            heads = [x(method="output_layer") for x in (mine, theirs)]
        else:
            weights, hidden = batch["target_segments"] > 0, (mine.given, theirs.given)
            heads = [(x(method="output_table"), None) for x in (mine, theirs)]
        student, teacher = ((x, *head) for x, head in zip(hidden, heads))
        options = dict(temperature=self.temperature, dtype=self.task.dtype, chunk=self.task.chunk)
        return soft_loss.soft_loss(student, teacher, weights, **options), weights.sum()

    def _differences(self, mine, theirs, projections):
        """The weighted means over layers, a mean over positions and entries each."""
        batch, found = mine.asked[0][0], {}
        for name, other in pairs(mine.layers, theirs.layers):
            stack, part = kind(name)
            x, y = mine.layers[name], theirs.layers[other]
            if f"{name}/kernel" in projections:
                x = linear.linear(x, projections[f"{name}/kernel"])
            if x.shape != y.shape:
                raise errors.ConfigError(
                    f"task.hidden, task.attention: {name} gives {x.shape}, and the teacher's {other} {y.shape}; only "
                    "layers that read a batch in the same way can be compared"
                )
            apart, real = jnp.square(x - y).mean(-1), batch.get(REAL.get(stack, "segments"))
            real = jnp.ones(apart.shape) if real is None else (real > 0) * 1.0
            mean = (real * apart).sum() / jnp.maximum(real.sum(), 1.0)
            found.setdefault("attention" if part else "hidden", []).append(mean)
        return sum(getattr(self, key) * sum(means) / len(means) for key, means in found.items())

    def _wanted(self, name):
        """Whether the output of a module is compared."""
        match = MODULE.fullmatch(name)
        return match is not None and (self.attention if match["part"] else self.hidden) > 0


class _Watched:
    """A model's `apply` that records its arguments, its outputs and those of its layers.

    The batch is recorded after word dropout, so that the teacher reads the words that the student read.
    """

    def __init__(self, apply, wanted):
        self._apply, self._wanted, self.layers = apply, wanted, {}

    def __call__(self, *args, method=None, **options):
        if method not in (None, "hidden_states"):
            return self._apply(*args, method=method, **options)
        layers = listen.record(self._wanted, lambda _, output: output)
        batches = listen.record(lambda _: True, lambda _, batch: batch, classes=text_head.TextModel, method="thinned")
        with layers as outputs, batches as read:
            given = self._apply(*args, method=method, **options)
        self.layers = {name: values[0] for name, values in outputs.items()}
        for values in read.values():
            args = (values[0], *args[1:])
        self.asked, self.given = (args, method), given
        return given

    def repeated(self, apply):
        """Asks another model the same, in evaluation mode."""
        other = _Watched(apply, self._wanted)
        args, method = self.asked
        other(*args, method=method, train=False)
        return other


def kind(name):
    """``(stack, part)`` of a module: of ``decoder/layer_2/cross_attention`` ``("decoder/", "cross")``; a block itself
    has the part "", and an attention that is no cross-attention "self"."""
    match = MODULE.fullmatch(name)
    return match["stack"], match["part"] and ("cross" if "cross" in match["part"] else "self") or ""


def pairs(mine, theirs):
    """Which module of the student learns from which of the teacher's: ``[(name, name)]``.

    Args:
        mine, theirs: names of modules.

    Raises:
        lwt.errors.ConfigError: the teacher has none for some of the student's, or there are none.
    """
    mine, theirs = _by_kind(mine), _by_kind(theirs)
    if not mine or mine.keys() - theirs.keys():
        raise errors.ConfigError(
            f"task.hidden, task.attention: the student has the layers {[*mine] or 'none'} to compare, the teacher "
            f"{[*theirs] or 'none'}; learn from the outputs alone, or from another teacher"
        )
    found = []
    for key, names in mine.items():
        others = theirs[key]
        last = [max((i + 1) * len(others) // len(names), 1) - 1 for i in range(len(names))]
        found += [(name, others[at]) for name, at in zip(names, last)]
    return found


def _by_kind(names):
    found = {}
    for name in sorted(names, key=lambda name: int(MODULE.fullmatch(name)["index"])):
        found.setdefault(kind(name), []).append(name)
    return found
