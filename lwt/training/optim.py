"""The optimizer, from first-match rules: clip, then groups of learning rates and weight decays.

Frozen weights never come here: the step differentiates the trainable leaves only, so that there is neither a gradient
nor a moment for the rest, and the clip's global norm runs over what is trained.
"""

import inspect

import jax.numpy as jnp
import optax

from lwt import errors, trees
from lwt.training import adam8

OWN = {"adamw_8bit": adam8.adamw_8bit}  # beside those of optax
NOT_OPTIMIZERS = ("apply", "chain", "clip", "get", "set", "scale", "tree", "global", "cosine", "linear", "exponential")


def _noam(steps, *, width, warmup):
    """``d^-0.5 · min(t^-0.5, t · warmup^-1.5)`` (Vaswani et al. 2017, section 5.3)."""
    return lambda count: width**-0.5 * jnp.minimum((count + 1.0) ** -0.5, (count + 1.0) * warmup**-1.5)


def _cosine(steps, *, warmup=0, end=0.0):
    """Linear warm-up to 1, then half a cosine down to `end` at the last step."""
    return optax.warmup_cosine_decay_schedule(0.0 if warmup else 1.0, 1.0, warmup, max(steps, warmup + 1), end)


def _constant(steps, *, warmup=0):
    """Linear warm-up to 1, then 1."""
    return lambda count: jnp.minimum((count + 1.0) / max(warmup, 1), 1.0)


def _rsqrt(steps, *, warmup):
    """Linear warm-up to 1, then ``√(warmup / t)``."""
    return lambda count: jnp.minimum((count + 1.0) / warmup, (warmup / (count + 1.0)) ** 0.5)


SCHEDULES = {"noam": _noam, "cosine": _cosine, "constant": _constant, "rsqrt": _rsqrt}


def schedule(section, learning_rate, *, steps):
    """``step -> learning rate`` from ``optimizer.schedule``; `learning_rate` is a factor on its shape.

    Raises:
        lwt.errors.ConfigError: an unknown schedule, or arguments that are not its own.
    """
    arguments = dict(section)
    name = arguments.pop("name")
    if name not in SCHEDULES:
        raise errors.ConfigError(f"optimizer.schedule.name={name!r}: {errors.suggest(name, SCHEDULES)}")
    try:
        shape = SCHEDULES[name](steps, **arguments)
        start = float(shape(0))
    except TypeError as error:
        raise errors.ConfigError(f"optimizer.schedule ({name}): {error}") from error
    except (ValueError, ArithmeticError):
        start = -1.0
    if not 0 <= start < float("inf") or arguments.get("warmup", 0) < 0:
        raise errors.ConfigError(f"optimizer.schedule={dict(section)}: its numbers should be positive")
    return lambda count: learning_rate * shape(count)


def _maker(name):
    maker = OWN.get(name, getattr(optax, name, None))
    if not callable(maker) or "learning_rate" not in inspect.signature(maker).parameters:
        known = [n for n in dir(optax) if callable(getattr(optax, n)) and not n.startswith(("_", *NOT_OPTIMIZERS))]
        known += OWN
        raise errors.ConfigError(f"optimizer.name={name!r} is no optimizer of optax; {errors.suggest(name, known)}")
    return maker


def build(section, trainable, *, steps):
    """``(optax transformation, learning-rate schedule)`` for a flat dict of trainable leaves.

    Every leaf belongs to one group: its factor on the learning rate (``rate_rules``; LoRA+'s second rate is one of
    these) and its factor on the weight decay (``decay_rules``). In both lists the first regex that matches the whole
    name wins, and a name that none matches is an error.

    Args:
        section: ``config.optimizer``.
        trainable: flat dict of what is trained.
        steps: optimizer steps of the run, for schedules that end.
    """
    if not 0 < section.learning_rate < float("inf"):
        raise errors.ConfigError(f"optimizer.learning_rate={section.learning_rate} should be a positive number")
    for key in ("weight_decay", "clip_norm"):
        if not section[key] >= 0:
            raise errors.ConfigError(f"optimizer.{key}={section[key]} should be 0 (none) or positive")
    rate = schedule(section.schedule, section.learning_rate, steps=steps)
    maker = _maker(section.name)
    takes_decay = "weight_decay" in inspect.signature(maker).parameters
    if section.weight_decay and not takes_decay:
        raise errors.ConfigError(f"optimizer.weight_decay={section.weight_decay}: {section.name} has none; try adamw")

    def group(rate_factor, decay_factor):
        arguments = dict(section.arguments)
        if takes_decay:
            arguments["weight_decay"] = section.weight_decay * decay_factor
        try:
            return maker(lambda count: rate_factor * rate(count), **arguments)
        except TypeError as error:
            raise errors.ConfigError(f"optimizer.arguments ({section.name}): {error}") from error

    factors = {
        name: (
            float(trees.first_match(name, section.rate_rules, what="optimizer.rate_rules")),
            float(trees.first_match(name, section.decay_rules, what="optimizer.decay_rules")) if takes_decay else 0.0,
        )
        for name in trainable
    }
    labels = {name: f"rate×{r:g} decay×{w:g}" for name, (r, w) in factors.items()}
    groups = {labels[name]: group(*factors[name]) for name in trainable}
    chain = [optax.partition(groups, labels)]
    if section.clip_norm:
        chain.insert(0, optax.clip_by_global_norm(section.clip_norm))
    return optax.chain(*chain), rate
