"""Converts between lwt's ``config.model`` and the config.json of transformers, for models that both libraries have."""

import math

from lwt import errors, registry
from lwt.attention import softmax

ACTIVATIONS = {"relu": "relu", "silu": "silu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh"}  # ours -> theirs
SYNONYMS = {"swish": "silu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
POSITIONS = 512  # rows of Marian's computed table: transformers reads no longer text
REQUIRED = {  # values that a model of lwt must have
    "bert": {"embedding": "full", "embedding_norm": True, "norm": "layer", "norm_place": "post", "pooler": True},
    "seq2seq": {"pre_norm": False},
    "vit": {"stem": "patches", "positions": "learned", "pool": "token"},
}
KEYS = {  # ours -> theirs, with equal values
    "bert": {
        "vocabulary": "vocab_size",
        "max_length": "max_position_embeddings",
        "width": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "hidden": "intermediate_size",
        "segments": "type_vocab_size",
        "norm_epsilon": "layer_norm_eps",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    },
    "seq2seq": {
        "vocabulary": "vocab_size",
        "width": "d_model",
        "heads": "encoder_attention_heads",
        "hidden": "encoder_ffn_dim",
        "encoder_layers": "encoder_layers",
        "decoder_layers": "decoder_layers",
        "scale_embedding": "scale_embedding",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    "vit": {
        "image_size": "image_size",
        "channels": "num_channels",
        "patch": "patch_size",
        "width": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "hidden": "intermediate_size",
        "norm_epsilon": "layer_norm_eps",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    },
}
SIZE, SHARE, SWITCH = (int, 1, math.inf), (float, 0, 1), (bool, 0, 1)  # type, least and most
LIMITS = {  # of values, by our key; all others are sizes
    **{"dropout": SHARE, "attention_dropout": SHARE, "norm_epsilon": SHARE, "scale_embedding": SWITCH},
    **dict.fromkeys(("layers", "encoder_layers", "decoder_layers"), (int, 1, 1000)),
}
TYPES = {"bert": "bert", "seq2seq": "marian", "vit": "vit"}  # our model's name -> their model_type
ACTIVATION = {"bert": "hidden_act", "seq2seq": "activation_function", "vit": "hidden_act"}  # their keys
FIXED = {  # values of their keys that hold for every model of lwt
    "bert": {"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"},
    "seq2seq": {
        **{"share_encoder_decoder_embeddings": True, "tie_word_embeddings": True, "activation_dropout": 0.0},
        **{"pad_token_id": 0, "decoder_start_token_id": 2, "eos_token_id": 3},  # of lwt's tokenizer
    },
    "vit": {"qkv_bias": True},
}


def of_model(name, model, *, labels=(), task=""):
    """The config.json of a model, as a dict.

    Args:
        name: ``config.model.name``.
        model: the linen module.
        labels: names of its classes.
        task: ``config.task.name``.

    Raises:
        lwt.errors.ConfigError: Hugging Face has no such model; names the key, and what it must be.
    """
    if name not in TYPES:
        raise errors.ConfigError(
            f"model.name={name!r} is not a model of Hugging Face; it must be one of {', '.join(TYPES)}"
        )
    for key, wanted in REQUIRED[name].items():
        if getattr(model, key) != wanted:
            raise errors.ConfigError(f"model.{key}={getattr(model, key)!r} must be {wanted!r} for {TYPES[name]!r}")
    _check_parts(name, model)
    config = {
        "model_type": TYPES[name],
        "torch_dtype": "float32",
        **FIXED[name],
        "architectures": [_class(name, model)],
    }
    config |= {theirs: getattr(model, ours) for ours, theirs in KEYS[name].items()}
    config[ACTIVATION[name]] = ACTIVATIONS[model.activation]
    if name == "seq2seq":
        config |= {"decoder_attention_heads": model.heads, "decoder_ffn_dim": model.hidden}
        config |= {"decoder_vocab_size": model.vocabulary, "max_position_embeddings": POSITIONS}
        return config | {"forced_eos_token_id": None}
    if name == "bert":
        config |= {"pad_token_id": 0, "classifier_dropout": model.head_dropout}
    names = labels or [f"LABEL_{i}" for i in range(model.outputs)]
    config["id2label"] = {str(i): label for i, label in enumerate(names)}
    config["label2id"] = {label: i for i, label in enumerate(names)}
    if task:
        config["problem_type"] = "regression" if task == "regress" else "single_label_classification"
    return config


def to_section(config, *, where):
    """The keys of ``config.model``, including its name, for the model of a config.json.

    The vocabulary and the classes come from the run that gives the data.

    Args:
        config: the dict.
        where: its file, for error messages.

    Raises:
        lwt.errors.CheckpointError: lwt has no such model; names the key, and what it must be.
    """
    name = next((ours for ours, theirs in TYPES.items() if theirs == config.get("model_type")), None)
    if name is None:
        kinds = ", ".join(TYPES.values())
        raise errors.CheckpointError(f"{where}: model_type={config.get('model_type')!r} must be one of {kinds}")
    missing = [key for key in (*KEYS[name].values(), ACTIVATION[name]) if key not in config]
    if missing:
        raise errors.CheckpointError(f"{where} has no key {missing[0]}; transformers writes it")
    for ours, key in KEYS[name].items():
        if ours != "vocabulary":
            checked(config[key], key, limits=LIMITS.get(ours, SIZE), where=where)
    wanted = dict(FIXED[name])
    if name == "seq2seq":
        wanted |= {"decoder_attention_heads": config["encoder_attention_heads"]}
        wanted |= {"decoder_ffn_dim": config["encoder_ffn_dim"]}
    for key, value in wanted.items():
        if config.get(key, value) != value:
            raise errors.CheckpointError(f"{where}: {key}={config[key]!r} must be {value!r}, as in lwt's {name!r}")
    theirs = str(config[ACTIVATION[name]])
    activation = SYNONYMS.get(theirs, theirs)
    if activation not in ACTIVATIONS:
        raise errors.CheckpointError(f"{where}: {ACTIVATION[name]}={theirs!r}; {errors.suggest(theirs, ACTIVATIONS)}")
    section = {ours: config[key] for ours, key in KEYS[name].items() if ours != "vocabulary"}
    return {"name": name, **section, **REQUIRED[name], "activation": activation, "attention": "softmax", "sizes": None}


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


def _class(name, model):
    """The name of the class in transformers."""
    if name == "bert":
        if model.head not in ("none", "classify"):
            raise errors.ConfigError(
                f"model.head={model.head!r} must be 'none' or 'classify': theirs for pre-training has one more layer"
            )
        return "BertModel" if model.head == "none" else "BertForSequenceClassification"
    return {"seq2seq": "MarianMTModel", "vit": "ViTForImageClassification"}[name]


def _check_parts(name, model):
    """Refuses attentions other than softmax, and layers of different sizes."""
    if model.sizes:
        raise errors.ConfigError(f"model.sizes={dict(model.sizes)}: layers of Hugging Face all have one size")
    for key in ("attention", "decoder_attention", "cross_attention"):
        maker = getattr(model, key, None)
        options = {k: v for k, v in getattr(maker, "keywords", {}).items() if k != "block"}
        if maker is not None and (getattr(maker, "func", maker) is not softmax.Attention or options):
            raise errors.ConfigError(f"model.{key} must be 'softmax' without options for {TYPES[name]!r}")
