"""Converts between lwt's ``config.model`` and the config.json of transformers, for models that both libraries have."""

import logging
import math

from lwt import errors, registry
from lwt.attention import softmax
from lwt.huggingface import encoders, marian, vit

LOG = logging.getLogger(__name__)
ACTIVATIONS = {"relu": "relu", "silu": "silu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh"}  # ours -> theirs
SYNONYMS = {"swish": "silu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
SIZE, SHARE, SWITCH = (int, 1, math.inf), (float, 0, 1), (bool, 0, 1)  # type, least and most
LIMITS = {  # of values, by our key; all others are sizes
    **{"dropout": SHARE, "attention_dropout": SHARE, "norm_epsilon": SHARE, "scale_embedding": SWITCH},
    **dict.fromkeys(("layers", "encoder_layers", "decoder_layers"), (int, 1, 1000)),
}
ARCHITECTURES = (*encoders.ARCHITECTURES, *marian.ARCHITECTURES, *vit.ARCHITECTURES)
CLASSES = "single_label_classification"
PROBLEMS = {
    CLASSES: "classify",
    "regression": "regress",
    "multi_label_classification": "multilabel",
}  # their problem_type -> our task
CLASSIFIES = "ForSequenceClassification"  # the end of the names of classes of text classifiers


def of_model(name, model, *, labels=(), task="", pad=0):
    """The config.json of a model, as a dict.

    Args:
        name: ``config.model.name``.
        model: the linen module.
        labels: names of its classes.
        task: ``config.task.name``.
        pad: the tokenizer's id of padding.

    Raises:
        lwt.errors.ConfigError: Hugging Face has no such model; names the key, and what it must be.
    """
    found = architecture(name, model)
    _check_parts(name, model)
    config = {"model_type": found.kind, "torch_dtype": "float32", **found.fixed}
    config["architectures"] = [_class(found, model)]
    config |= {theirs: getattr(model, ours) for ours, theirs in found.keys.items()}
    config[found.activation] = ACTIVATIONS[model.activation]
    if name == "seq2seq":
        return config | marian.more(model)
    if name == "bert":
        if "segments" in found.keys and model.segments < 1:
            raise errors.ConfigError(f"model.segments={model.segments} must be at least 1 for {found.kind!r}")
        config = {"pad_token_id": pad} | config | {found.head_dropout: model.head_dropout}
        config["max_position_embeddings"] += found.layout.offset
        config |= {"type_vocab_size": 1} if model.segments == 1 else {}
        if "embedding_width" in found.keys:
            config["embedding_size"] = model.embedding_width or model.width
    names = labels or [f"LABEL_{i}" for i in range(model.outputs)]
    config["id2label"] = {str(i): label for i, label in enumerate(names)}
    config["label2id"] = {label: i for i, label in enumerate(names)}
    if task:
        config["problem_type"] = next((theirs for theirs, ours in PROBLEMS.items() if ours == task), CLASSES)
    return config


def architecture(name, model):
    """The `names.Architecture` that the linen module of ``config.model.name`` is; raises as `of_model` does."""
    candidates = [found for found in ARCHITECTURES if found.model == name]
    if not candidates:
        kinds = ", ".join(sorted({found.model for found in ARCHITECTURES}))
        raise errors.ConfigError(f"model.name={name!r} is not a model of Hugging Face; it must be one of {kinds}")
    wrong = {found.kind: [k for k, v in found.required.items() if getattr(model, k) != v] for found in candidates}
    best = min(candidates, key=lambda found: (len(wrong[found.kind]), -len(found.required)))
    for key in wrong[best.kind]:
        raise errors.ConfigError(
            f"model.{key}={getattr(model, key)!r} must be {best.required[key]!r} for {best.kind!r}"
        )
    return best


def of_kind(config, *, where):
    """The `names.Architecture` of a config.json; raises as `to_section` does."""
    for found in ARCHITECTURES:
        if found.kind == config.get("model_type"):
            return found
    kinds = ", ".join(found.kind for found in ARCHITECTURES)
    raise errors.CheckpointError(f"{where}: model_type={config.get('model_type')!r} must be one of {kinds}")


def to_section(config, *, where):
    """The keys of ``config.model``, including its name, for the model of a config.json.

    The vocabulary and the classes come from the run that gives the data.

    Args:
        config: the dict.
        where: its file, for error messages.

    Raises:
        lwt.errors.CheckpointError: lwt has no such model; names the key, and what it must be.
    """
    found = of_kind(config, where=where)
    config = {**found.defaults, **config}
    missing = [key for key in (*found.keys.values(), found.activation) if key not in config]
    if missing:
        raise errors.CheckpointError(f"{where} has no key {missing[0]}; transformers writes it")
    for ours, key in found.keys.items():
        if ours != "vocabulary":
            checked(config[key], key, limits=LIMITS.get(ours, SIZE), where=where)
    wanted = dict(found.fixed)
    if found.model == "seq2seq":
        wanted |= {"decoder_attention_heads": config["encoder_attention_heads"]}
        wanted |= {"decoder_ffn_dim": config["encoder_ffn_dim"]}
    for key, value in wanted.items():
        if config.get(key, value) != value:
            raise errors.CheckpointError(
                f"{where}: {key}={config[key]!r} must be {value!r}, as in lwt's {found.model!r}"
            )
    theirs = str(config[found.activation])
    activation = SYNONYMS.get(theirs, theirs)
    if activation not in ACTIVATIONS:
        raise errors.CheckpointError(f"{where}: {found.activation}={theirs!r}; {errors.suggest(theirs, ACTIVATIONS)}")
    section = {ours: config[key] for ours, key in found.keys.items() if ours != "vocabulary"}
    section = {"name": found.model, **section, **found.required, "activation": activation}
    if found.model == "bert":
        section |= _of_encoder(config, found, section=section, where=where)
    return section | {"attention": "softmax", "sizes": None}


def _of_encoder(config, found, *, section, where):
    """The keys of ``model`` that only a text encoder has, from its config.json."""
    more = {"pooler": True, "max_length": section["max_length"] - found.layout.offset}
    if more["max_length"] < 1:
        raise errors.CheckpointError(
            f"{where}: max_position_embeddings={section['max_length']} must be more than {found.layout.offset}"
        )
    if not section.get("shared") and section.get("embedding_width") == section["width"]:
        more["embedding_width"] = 0  # ELECTRA has no projection then
    if section.get("segments") == 3:
        rows = (
            "lwt reads row 1 of them for the first text and row 2 for the second; transformers reads row 0 by default"
        )
        LOG.warning("%s: type_vocab_size=3: %s", where, rows)
    rate = config.get(found.head_dropout)
    rate = section["dropout"] if rate is None else rate
    return more | {"head_dropout": checked(rate, found.head_dropout, limits=SHARE, where=where)}


def task(config, *, where):
    """The name of the task of a text classifier's config.json.

    Raises:
        lwt.errors.CheckpointError: lwt has no such task.
    """
    problem = config.get("problem_type")
    if problem is None:
        return "regress" if len(config.get("id2label") or "ab") == 1 else "classify"
    if problem not in PROBLEMS:
        raise errors.CheckpointError(f"{where}: problem_type={problem!r} must be one of {', '.join(PROBLEMS)}")
    return PROBLEMS[problem]


def labels(config, *, rows, where):
    """The names of the `rows` classes of a config.json, by number; ``LABEL_I`` where it has none.

    Raises:
        lwt.errors.CheckpointError: there are more or fewer, or two have one name.
    """
    named = config.get("id2label") or {str(i): f"LABEL_{i}" for i in range(rows)}
    found = [named.get(str(i)) for i in range(rows)] if isinstance(named, dict) else []
    if len(named) != rows or not all(isinstance(name, str) for name in found) or len({*found}) != rows:
        raise errors.CheckpointError(f"{where}: id2label={named!r:.80} must name each of the {rows} classes once")
    return found


def classifies(config):
    """Whether a config.json is that of a text classifier, so that its head is one of lwt's."""
    return any(str(name).endswith(CLASSIFIES) for name in config.get("architectures") or ())


def checked(value, key, *, limits, where):
    """Returns a value of a JSON file if it is a number within `limits`, its type, least and most.

    Raises:
        lwt.errors.CheckpointError: it is not; names the key.
    """
    kind, least, most = limits
    if not registry.fits(value, kind) or not least <= value <= most or math.isinf(value):
        number = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        within = f" of at least {least:g}" if math.isinf(most) else f" from {least:g} to {most:g}"
        raise errors.CheckpointError(f"{where}: {key}={value!r:.60} must be {number}{'' if kind is bool else within}")
    return value


def _class(found, model):
    """The name of the class in transformers."""
    if getattr(model, "pool", "") == "tokens":
        return vit.TEACHER
    if found.model != "bert":
        return found.classes[0]
    if model.head not in ("none", "classify"):
        raise errors.ConfigError(
            f"model.head={model.head!r} must be 'none' or 'classify': transformers' head for pre-training "
            "has one more layer"
        )
    if model.head == "classify":
        for key, wanted in (("pool", "first"), ("pooler", True), ("ngram_weights", 0)):
            if getattr(model, key) != wanted:
                raise errors.ConfigError(
                    f"model.{key}={getattr(model, key)!r} must be {wanted!r}: transformers' classifiers read position 0"
                )
    return found.classes[model.head == "classify"]


def _check_parts(name, model):
    """Refuses attentions other than softmax, and layers of different sizes."""
    if model.sizes:
        raise errors.ConfigError(f"model.sizes={dict(model.sizes)}: layers of Hugging Face all have one size")
    for key in ("attention", "decoder_attention", "cross_attention"):
        maker = getattr(model, key, None)
        options = {k: v for k, v in getattr(maker, "keywords", {}).items() if k != "block"}
        if maker is not None and (getattr(maker, "func", maker) is not softmax.Attention or options):
            raise errors.ConfigError(f"model.{key} must be 'softmax' without options for transformers' {name!r}")
