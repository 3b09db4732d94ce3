"""The optimizer of a run: a clip, then groups of leaves with their own learning rate and weight decay.

Frozen weights have no gradient and no moments: the step differentiates the trainable leaves only, so that the global
norm of the clip is theirs alone, and `labels` puts all other leaves into a group that never moves.
"""

import inspect
import logging
import math
import re

import jax.numpy as jnp
import optax

from lwt import errors, trees, values
from lwt.training import adam8

LOG = logging.getLogger(__name__)
OWN = {"adamw_8bit": adam8.adamw_8bit}  # beside those of optax
# These need the loss as a function (lbfgs), or cannot take a schedule as their learning rate.
UNFIT = ("lbfgs", "optimistic_adam", "rprop", "sm3")
FROZEN = "frozen"  # label of the leaves that are not trained
SHARES = r"b\d|rho|decay|momentum"  # arguments of optimizers in [0, 1)
EMBEDDING_RATE = 0.005  # of the authors' LoRA+: 1e-6 for tables, where the usual rate is 2e-4


def _noam(steps, *, width, warmup):
    """``d^-0.5 · min(t^-0.5, t · warmup^-1.5)`` (Vaswani et al. 2017, section 5.3)."""
    return lambda count: width**-0.5 * jnp.minimum((count + 1.0) ** -0.5, (count + 1.0) * warmup**-1.5)


def _cosine(steps, *, warmup=0, end=0.0):
    """Linear warm-up to 1 at step `warmup` (0: at the first), then half a cosine, down to `end` at the last step."""
    peak = max(warmup, 1)

    def shape(count):
        progress = jnp.clip((count + 1.0 - peak) / max(steps - peak, 1), 0.0, 1.0)
        return jnp.minimum((count + 1.0) / peak, end + (1.0 - end) * 0.5 * (1.0 + jnp.cos(jnp.pi * progress)))

    return shape


def _constant(steps, *, warmup=0):
    """Linear warm-up to 1, then 1."""
    return lambda count: jnp.minimum((count + 1.0) / max(warmup, 1), 1.0)


def _rsqrt(steps, *, warmup):
    """Linear warm-up to 1, then ``√(warmup / t)``."""
    return lambda count: jnp.minimum((count + 1.0) / warmup, (warmup / (count + 1.0)) ** 0.5)


SCHEDULES = {"noam": _noam, "cosine": _cosine, "constant": _constant, "rsqrt": _rsqrt}
STRETCHED = ("cosine",)  # schedules whose shape depends on the length of the run
OF_SCHEDULES = {"width": values.whole(1), "warmup": values.whole(0), "end": values.real(0, 1)}


def shorten_warmup(config):
    """Shortens a warm-up that outlasts a run of few epochs, in which the rate would only rise, to a tenth of it."""
    section, steps = config.optimizer.schedule, config.steps
    if config.epochs and section.name in ("cosine", "constant") and section.get("warmup", 0) >= steps:
        told = "optimizer.schedule.warmup=%d outlasts the %d steps: %d instead"
        LOG.warning(told, section.warmup, steps, steps // 10)
        section.warmup = steps // 10


def schedule(section, learning_rate, *, steps):
    """``step -> learning rate`` from ``optimizer.schedule``; `learning_rate` is a factor on its shape."""
    arguments = dict(section)
    name = arguments.pop("name")
    if name not in SCHEDULES:
        raise errors.ConfigError(f"optimizer.schedule.name={name!r}: {errors.suggest(name, SCHEDULES)}")
    try:
        inspect.signature(SCHEDULES[name]).bind(steps, **arguments)
    except TypeError as error:
        raise errors.ConfigError(f"optimizer.schedule ({name}): {error}") from error
    for key, value in arguments.items():
        wanted = values.whole(1) if key == "warmup" and name in ("noam", "rsqrt") else OF_SCHEDULES[key]
        wanted.require(f"optimizer.schedule.{key}", value)
    shape = SCHEDULES[name](steps, **arguments)
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
    if name in UNFIT:
        raise errors.ConfigError(f"optimizer.name={name!r} needs more than gradients and a schedule; try adamw")
    if name not in names():
        raise errors.ConfigError(f"optimizer.name={name!r}: {errors.suggest(name, names())}")
    maker = OWN.get(name) or getattr(optax, name)
    return maker, "weight_decay" in inspect.signature(maker).parameters


def _check_arguments(section, maker):
    """Raises ConfigError for an unknown argument of an optimizer, or one outside its type or range."""
    choices = dict(inspect.signature(maker).parameters)
    own = [choices.pop(name, None) and name for name in ("learning_rate", "weight_decay")]
    for name, value in section.arguments.items():
        key = f"optimizer.arguments.{name}"
        if name in own:
            raise errors.ConfigError(f"{key}={value!r} should be given as optimizer.{name}")
        if name not in choices:
            raise errors.ConfigError(f"{key}: {section.name} has no such argument; {errors.suggest(name, choices)}")
        default = choices[name].default
        if isinstance(default, bool) or name.endswith("mask"):
            wanted = values.choice(None, True, False)
        elif name.endswith("dtype") or name.startswith("dtype"):
            wanted = values.choice(None, "float32", "bfloat16")
        elif name in ("key", "seed"):
            wanted = values.whole(0)
        else:
            wanted = values.real(0, 1, below=True) if re.fullmatch(SHARES, name) else values.real(0)
        if value is not default:
            wanted.require(key, value)


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

    A leaf of the base has the label None; with ratio 0 all factors are 1.
    """
    if not ratio:
        return 1.0
    factors = {"b": ratio, "vector": ratio, "embedding_b": EMBEDDING_RATE, "embedding_a": EMBEDDING_RATE * ratio}
    return float(factors.get(label, 1.0))


def labels(section, trainable, *, frozen=(), reparam=None):
    """The groups of a run's leaves: ``{leaf: label}``, and ``{label: (rate factor, decay factor)}``.

    The rate factor of a leaf is that of the first of ``rate_rules`` whose regex matches its whole name, times the
    factor of `lora_plus`; the decay factor comes from ``decay_rules`` likewise. Frozen leaves, and those that only the
    reparametrization itself changes, have the label `FROZEN`.
    Vectors of an adapter, such as DoRA's magnitudes, do not decay unless a rule other than ``.*`` says so.

    Args:
        section: ``config.optimizer``.
        trainable, frozen: names of the run's leaves.
        reparam: the run's reparametrization, which labels the leaves ``adapter/...``.

    Raises:
        lwt.errors.ConfigError: a rule has no effect, or a trainable leaf matches no rule; ``lora_plus`` is not 0, but
            no trainable leaf is one that it treats differently.
    """
    used = ("rate_rules", "decay_rules") if _maker(section.name)[1] else ("rate_rules",)
    for key in used:
        trees.require_effect([*trainable, *frozen], section[key], what=f"optimizer.{key}")
    adapter = trees.subtree(dict.fromkeys([*trainable, *frozen]), "adapter")
    roles = trees.with_prefix(reparam.labels(adapter), "adapter") if reparam else {}
    if section.lora_plus and all(lora_plus(roles.get(leaf), math.inf) == 1 for leaf in trainable):
        raise errors.ConfigError(
            f"optimizer.lora_plus={section.lora_plus}: no trainable leaf is the matrix b of an adapter; it should be 0"
        )
    found, factors = dict.fromkeys(frozen, FROZEN), {}
    for leaf in trainable:
        if roles.get(leaf) == "state":
            found[leaf] = FROZEN
            continue
        own = {key: _first_rule(leaf, section[key], what=f"optimizer.{key}") for key in used}
        rate = own["rate_rules"][1] * lora_plus(roles.get(leaf), section.lora_plus)
        pattern, decay = own.get("decay_rules", ("", 0.0))
        if roles.get(leaf) == "vector" and trees.matches_everything(pattern):
            decay = 0.0
        found[leaf] = f"rate×{rate:g} decay×{decay:g}"
        factors[found[leaf]] = rate, decay
    return found, factors


def _first_rule(leaf, rules, *, what):
    """The first ``(regex, number)`` that matches a leaf."""
    pattern = trees.first_match(leaf, [(pattern, pattern) for pattern, _ in rules], what=what)
    return pattern, float(dict(reversed(rules))[pattern])


def build(section, trainable, *, steps, frozen=(), reparam=None, learning_rate=None):
    """``(optax transformation, learning-rate schedule)`` for flat dicts of leaves.

    Args:
        section: ``config.optimizer``.
        trainable: names of what is trained.
        steps: optimizer steps of the run, for schedules that end.
        frozen, reparam: see `labels`. A frozen leaf has no state, and its update is zero.
        learning_rate: None for that of `section`; a traced scalar makes one compiled step serve all rates.
    """
    learning_rate = section.learning_rate if learning_rate is None else learning_rate
    rate = schedule(section.schedule, learning_rate, steps=steps)
    maker, takes_decay = _maker(section.name)
    if section.weight_decay and not takes_decay:
        raise errors.ConfigError(f"optimizer.weight_decay={section.weight_decay}: {section.name} has none; try adamw")
    _check_arguments(section, maker)
    found, factors = labels(section, trainable, frozen=frozen, reparam=reparam)

    def group(rate_factor, decay_factor):
        arguments = dict(section.arguments)
        if takes_decay:
            arguments["weight_decay"] = section.weight_decay * decay_factor
        try:
            return maker(lambda count: rate_factor * rate(count), **arguments)
        except (TypeError, ValueError) as error:
            raise errors.ConfigError(f"optimizer.arguments ({section.name}): {error}") from error

    groups = {label: group(*own) for label, own in factors.items()}
    if FROZEN in found.values():
        groups[FROZEN] = optax.set_to_zero()
    chain = [optax.partition(groups, lambda params: {leaf: found[leaf] for leaf in params})]
    if section.clip_norm:
        chain.insert(0, optax.clip_by_global_norm(section.clip_norm))
    return optax.chain(*chain), rate
