"""Distillation: a student learns a task from its labels and from a teacher, a trained model."""

import dataclasses
import re

import jax
import jax.numpy as jnp

from lwt import errors, values
from lwt.layers import linear, listen, text_head
from lwt.layers.losses import soft_loss
from lwt.tasks import classify, masked_lm, regress

MODULE = re.compile(r"(?P<stack>(?:.*/)?)(?:layer|block)_(?P<index>\d+)(?:/(?P<part>\w*attention))?")
REAL = {"encoder/": "source_segments", "decoder/": "target_segments"}  # batch key of a stack's positions
OWN = {"soft_loss", "layer_loss", "distilled"}  # sums that the wrapped task does not have


@dataclasses.dataclass(frozen=True)
class Distill:
    """``(1-w) · task + w · soft + hidden · states + attention · attentions``, all as means over what `task` counts.

    ``soft`` is `soft_loss.divergence` at temperature T from the teacher's classes, next tokens or masked tokens (Hinton
    et al. 2015, section 2; for translation the word level of Kim and Rush 2016, arXiv 1606.07947, section 3.1). For a
    number it is the squared difference. In pre-training, the next-sentence head learns from its labels alone.

    ``states`` is the mean squared difference of the outputs of blocks, ``attentions`` that of the outputs of attention
    modules, averaged over entries, positions and layers. Layer i of the student's n learns from layer ⌊i N/n⌋ of N, and
    where widths differ, a learned `[d d']` matrix comes between (Jiao et al. 2020, TinyBERT, arXiv 1909.10351, section
    3.1). Deviation: TinyBERT compares attention scores. Here it is the modules' outputs: every attention has them,
    whatever its heads, and they need no `[t s]` array.

    Attributes:
        task: the task itself; in a config, its section.
        teacher: workdir of the teacher's run, with the same tokenizer and classes. Where a record has one output it may
            be a tuple of several, and the student learns from the mean of their outputs. Where `cache` applies, the
            teachers may have other tokenizers.
        checkpoint: of the teacher, "best", "last" or a step.
        temperature: T.
        weight: w, the share of the soft loss.
        hidden, attention: weights of the two comparisons of layers; 0 for none.
        cache: compute the teacher's outputs once, where a record has one output and no layers are compared. Otherwise
            the teacher runs in every step and reads what the student reads, after word dropout (Beyer et al. 2022,
            arXiv 2106.05237, section 3, "consistent teaching", there for images).

    Raises:
        lwt.errors.ConfigError: a value is out of range; in `loss` and `init`, layers do not fit together.
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
            raise errors.ConfigError("task.teacher is empty; give the workdir of the teacher's run")
        positive = values.real(0)
        values.require("task", self, weight=values.real(0, 1), hidden=positive, attention=positive)
        values.require("task", self, temperature=values.real(0, above=True))

    @property
    def teachers(self):
        """The workdirs of the teachers."""
        return (self.teacher,) if isinstance(self.teacher, str) else tuple(self.teacher)

    @property
    def matches_layers(self):
        """Whether layers are compared, and not only outputs."""
        return self.hidden > 0 or self.attention > 0

    def init(self, key, apply, *, teacher, batch):
        """Makes the matrices between layers of different widths, ``{"NAME/kernel": [d d']}`` by the student's module.

        Args:
            apply, teacher: the `apply` of student and teacher, with their weights bound.
            batch: a training batch.
        """
        if not self.matches_layers:
            return {}

        def layers(batch):
            student = _Recorder(apply, self._wanted)
            self.task.loss(student, batch, train=False)
            return student.layers, student.repeat_with(teacher).layers

        student, teacher = jax.eval_shape(layers, batch)
        made = {}
        for i, (name, other) in enumerate(pairs(student, teacher)):
            width, wanted = student[name].shape[-1], teacher[other].shape[-1]
            if width != wanted:
                normal = jax.random.normal(jax.random.fold_in(key, i), (width, wanted))
                made[f"{name}/kernel"] = normal * width**-0.5
        return made

    def loss(self, apply, batch, *, train=True, rngs=None, teacher, projections):
        """``(sum, count, sums)`` of the combined loss; the sums are the task's, ``soft_loss`` and ``layer_loss``.

        Args:
            teacher: the teacher's `apply` with its weights bound.
            projections: the matrices that `init` made, as trained so far.
        """
        student = _Recorder(apply, self._wanted)
        value, count, sums = self.task.loss(student, batch, train=train, rngs=rngs)
        teacher = student.repeat_with(teacher)
        soft, of = self._soft(student, teacher)
        soft = count * soft / jnp.maximum(of, 1.0)
        total = (1 - self.weight) * value + self.weight * soft
        sums = sums | {"soft_loss": soft, "distilled": count}
        if self.matches_layers:
            layers = count * self._differences(student, teacher, projections)
            total, sums = total + layers, sums | {"layer_loss": layers}
        return total, count, sums

    def evaluate(self, apply, batch):
        """The task's own sums; they need no teacher."""
        return self.task.evaluate(apply, batch)

    def finish(self, sums):
        """The task's own figures; in training also ``soft_loss`` and ``layer_loss``, as means."""
        figures = self.task.finish({name: value for name, value in sums.items() if name not in OWN})
        count = max(float(sums.get("distilled", 0.0)), 1.0)
        return figures | {name: float(sums[name]) / count for name in ("soft_loss", "layer_loss") if name in sums}

    def _soft(self, student, teacher):
        """``(sum, count)`` of the divergence between the outputs of student and teacher."""
        batch = student.args[0]
        if student.method is None:  # one output per record
            real = classify.real_rows(batch)
            if isinstance(self.task, regress.Regress):
                apart = jnp.square(student.output - teacher.output.reshape(student.output.shape))[:, 0]
            else:
                real &= (batch["label"] >= 0) & (batch["label"] < student.output.shape[-1])
                apart = soft_loss.divergence(student.output, teacher.output, temperature=self.temperature)
            return jnp.where(real, apart, 0.0).sum(), real.sum()
        if isinstance(self.task, masked_lm.MaskedLm):
            weights, places = batch["masked_weights"], batch["masked_positions"][..., None]
            hidden = [jnp.take_along_axis(x.output, places, axis=1, mode="clip") for x in (student, teacher)]
            heads = [x(method="output_layer") for x in (student, teacher)]
        else:
            weights, hidden = batch["target_segments"] > 0, (student.output, teacher.output)
            heads = [(x(method="output_table"), x(method="output_bias")) for x in (student, teacher)]
        sides = ((x, *head) for x, head in zip(hidden, heads))
        options = dict(temperature=self.temperature, dtype=self.task.dtype)
        return soft_loss.soft_loss(*sides, weights=weights, **options), weights.sum()

    def _differences(self, student, teacher, projections):
        """The weighted means over layers of the mean squared difference over positions and entries."""
        batch, found = student.args[0], {}
        for name, other in pairs(student.layers, teacher.layers):
            stack, part = role(name)
            x, y = student.layers[name], teacher.layers[other]
            if f"{name}/kernel" in projections:
                x = linear.linear(x, projections[f"{name}/kernel"])
            if x.shape != y.shape:
                raise errors.ConfigError(
                    f"task.hidden, task.attention: the student's {name} gives {x.shape}, the teacher's {other} "
                    f"{y.shape}; only layers that read a batch in the same way can be compared"
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


class _Recorder:
    """A model's `apply` that records its arguments (after word dropout), its outputs and those of its layers."""

    def __init__(self, apply, wanted):
        self._apply, self._wanted, self.layers = apply, wanted, {}

    def __call__(self, *args, method=None, **options):
        if method not in (None, "hidden_states"):
            return self._apply(*args, method=method, **options)
        layers = listen.record(self._wanted, lambda _, output: output)
        batches = listen.record(lambda _: True, lambda _, batch: batch, classes=text_head.TextModel, method="thinned")
        with layers as outputs, batches as read:
            output = self._apply(*args, method=method, **options)
        self.layers = {name: found[0] for name, found in outputs.items()}
        for found in read.values():
            args = (found[0], *args[1:])
        self.args, self.method, self.output = args, method, output
        return output

    def repeat_with(self, apply):
        """Gives the recorded arguments to another model, in evaluation mode; returns its `_Recorder`."""
        other = _Recorder(apply, self._wanted)
        other(*self.args, method=self.method, train=False)
        return other


def role(name):
    """``(stack, part)`` of a module: ``("decoder/", "cross")`` for ``decoder/layer_2/cross_attention``.

    The part of other attentions is "self", and that of a block itself "".
    """
    match = MODULE.fullmatch(name)
    return match["stack"], match["part"] and ("cross" if "cross" in match["part"] else "self") or ""


def pairs(student, teacher):
    """Which module of the student learns from which of the teacher: ``[(name, name)]``, from their names.

    Raises:
        lwt.errors.ConfigError: the student has no such modules, or one without a counterpart in the teacher.
    """
    student, teacher = _by_role(student), _by_role(teacher)
    if not student or student.keys() - teacher.keys():
        raise errors.ConfigError(
            f"task.hidden, task.attention: the student has the layers {[*student] or 'none'} to compare, the teacher "
            f"{[*teacher] or 'none'}; learn from the outputs alone, or from another teacher"
        )
    found = []
    for key, names in student.items():
        others = teacher[key]
        last = [max((i + 1) * len(others) // len(names), 1) - 1 for i in range(len(names))]
        found += [(name, others[at]) for name, at in zip(names, last)]
    return found


def _by_role(names):
    """``{role: [name]}``, by ascending index of the layer."""
    found = {}
    for name in sorted(names, key=lambda name: int(MODULE.fullmatch(name)["index"])):
        found.setdefault(role(name), []).append(name)
    return found
