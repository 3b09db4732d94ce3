"""The optimizer of a run: a clip, then groups of leaves with their own learning rate and weight decay.

Frozen weights have no gradient and no moments: the step differentiates the trainable leaves only, so that the global
norm of the clip is theirs alone, and `labels` puts all other leaves into a group that never moves.
"""

import inspect
import math

import jax.numpy as jnp
import optax

from lwt import errors, trees
from lwt.training import adam8

OWN = {"adamw_8bit": adam8.adamw_8bit}  # beside those of optax
# These need the loss as a function (lbfgs), or cannot take a schedule as their learning rate.
UNFIT = ("lbfgs", "optimistic_adam", "rprop", "sm3")
FROZEN = "frozen"  # label of the leaves that are not trained
EMBEDDING_RATE = 0.005  # of the authors' LoRA+: 1e-6 for tables, where the usual rate is 2e-4


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


def names():
    """The optimizers that a config can name: those of optax that take a schedule as learning rate, and lwt's own."""
    return sorted([name for name in dir(optax) if _is_optimizer(name)] + list(OWN))


def _is_optimizer(name):
    maker = getattr(optax, name)
    if not callable(maker) or not name[0].islower() or name.startswith("scale_by_") or name in UNFIT:
        return False
    return "learning_rate" in inspect.signature(maker).parameters


def _maker(name):
    """``(the function that makes an optimizer, whether it takes a weight decay)``."""
    if name not in names():
        raise errors.ConfigError(f"optimizer.name={name!r}: {errors.suggest(name, names())}")
    maker = OWN.get(name) or getattr(optax, name)
    return maker, "weight_decay" in inspect.signature(maker).parameters


def lora_plus(label, ratio):
    """The factor of LoRA+ on the learning rate of an adapter's leaf (Hayou et al. 2024, arXiv 2402.12354).

    =============  =====================  ===================================================================
    label          factor                 reason
    =============  =====================  ===================================================================
    b, vector      ratio                  starts at zero, or is a vector: features move when it moves
    embedding_b    0.005                  rows of a table are seen rarely, so each step of Adam is large
    embedding_a    0.005 · ratio          the starts are swapped (a is zero), and so is the ratio
    all others     1
    =============  =====================  ===================================================================

    The ratio is λ = η_B/η_A. The authors' scripts use 80, 10 and 1, depending on the task, others use 16; the learning
    rate should be somewhat below that of plain LoRA. The authors' code gives tables an absolute rate of 1e-6.

    Args:
        label: of the leaf, from the reparametrization; None for a leaf of the base.
        ratio: λ, above 0; or 0: no LoRA+, all factors are 1.
    """
    if not ratio:
        return 1.0
    factors = {"b": ratio, "vector": ratio, "embedding_b": EMBEDDING_RATE, "embedding_a": EMBEDDING_RATE * ratio}
    return float(factors.get(label, 1.0))


def labels(section, trainable, *, frozen=(), reparam=None):
    """The groups of a run's leaves: ``{leaf: label}``, and ``{label: (rate factor, decay factor)}``.

    The rate factor of a leaf is that of the first of ``rate_rules`` whose regex matches its whole name, times the
    factor of `lora_plus`; the decay factor comes from ``decay_rules`` likewise. Frozen leaves have the label `FROZEN`.

    Args:
        section: ``config.optimizer``.
        trainable, frozen: names of the run's leaves.
        reparam: the run's reparametrization, which labels the leaves ``adapter/...``.

    Raises:
        lwt.errors.ConfigError: a rule matches no leaf, or a trainable leaf matches no rule; ``lora_plus`` is not 0,
            but no trainable leaf is one that it treats differently.
    """
    used = ("rate_rules", "decay_rules") if _maker(section.name)[1] else ("rate_rules",)
    for key in used:
        for pattern, _ in section[key]:
            trees.matching([*trainable, *frozen], pattern, what=f"optimizer.{key}")
    if not 0 <= section.lora_plus < math.inf:
        raise errors.ConfigError(f"optimizer.lora_plus={section.lora_plus} should be a ratio above 0, or 0 (none)")
    adapter = trees.subtree(dict.fromkeys([*trainable, *frozen]), "adapter")
    roles = trees.with_prefix(reparam.labels(adapter), "adapter") if reparam else {}
    if section.lora_plus and all(lora_plus(roles.get(leaf), math.inf) == 1 for leaf in trainable):
        raise errors.ConfigError(
            f"optimizer.lora_plus={section.lora_plus}: no trainable leaf is the matrix b of an adapter; it should be 0"
        )
    found, factors = dict.fromkeys(frozen, FROZEN), {}
    for leaf in trainable:
        own = {key: float(trees.first_match(leaf, section[key], what=f"optimizer.{key}")) for key in used}
        rate, decay = own["rate_rules"] * lora_plus(roles.get(leaf), section.lora_plus), own.get("decay_rules", 0.0)
        found[leaf] = f"rate×{rate:g} decay×{decay:g}"
        factors[found[leaf]] = rate, decay
    return found, factors


def build(section, trainable, *, steps, frozen=(), reparam=None):
    """``(optax transformation, learning-rate schedule)`` for flat dicts of leaves.

    Args:
        section: ``config.optimizer``.
        trainable: names of what is trained.
        steps: optimizer steps of the run, for schedules that end.
        frozen, reparam: see `labels`. A frozen leaf has no state, and its update is zero.

    Raises:
        lwt.errors.ConfigError: an unknown optimizer or schedule, wrong arguments, a number outside its range; and see
            `labels`.
    """
    if not 0 < section.learning_rate < math.inf:
        raise errors.ConfigError(f"optimizer.learning_rate={section.learning_rate} should be a positive number")
    for key in ("weight_decay", "clip_norm"):
        if not section[key] >= 0:
            raise errors.ConfigError(f"optimizer.{key}={section[key]} should be 0 (none) or positive")
    rate = schedule(section.schedule, section.learning_rate, steps=steps)
    maker, takes_decay = _maker(section.name)
    if section.weight_decay and not takes_decay:
        raise errors.ConfigError(f"optimizer.weight_decay={section.weight_decay}: {section.name} has none; try adamw")
    found, factors = labels(section, trainable, frozen=frozen, reparam=reparam)

    def group(rate_factor, decay_factor):
        arguments = dict(section.arguments)
        if takes_decay:
            arguments["weight_decay"] = section.weight_decay * decay_factor
        try:
            return maker(lambda count: rate_factor * rate(count), **arguments)
        except TypeError as error:
            raise errors.ConfigError(f"optimizer.arguments ({section.name}): {error}") from error

    groups = {label: group(*own) for label, own in factors.items()}
    if FROZEN in found.values():
        groups[FROZEN] = optax.set_to_zero()
    chain = [optax.partition(groups, lambda params: {leaf: found[leaf] for leaf in params})]
    if section.clip_norm:
        chain.insert(0, optax.clip_by_global_norm(section.clip_norm))
    return optax.chain(*chain), rate
