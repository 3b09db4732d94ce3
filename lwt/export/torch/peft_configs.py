"""Converts between lwt's ``config.reparam`` and the adapter_config.json of PEFT."""

import re

from lwt import errors
from lwt.export.torch import peft_methods
from lwt.huggingface import configs
from lwt.reparam import dora
from lwt.reparam.parts import targets

METHODS = ("lora", "dora")  # besides those of `peft_methods`
FIXED = {"peft_type": "LORA", "bias": "none", "fan_in_fan_out": False}  # the choices that lwt supports
STARTS = (True, False, "gaussian", "eva", "orthogonal")  # init_lora_weights that do not change the base
ALPHA = (float, 0, 1e9)
UNSUPPORTED = (  # keys that change the model in a way that lwt does not support
    *("lora_bias", "use_qalora", "layer_replication", "target_parameters", "trainable_token_indices"),
    *("alora_invocation_tokens", "use_bdlora", "arrow_config", "kasa_config", "monteclora_config", "velora_config"),
)


def checked(adapter, where, *, reordered=False):
    """The reparametrization of an `adapters.Adapter`, if PEFT supports it.

    Args:
        where: its run, for error messages.
        reordered: whether the channels of the model are reordered.

    Raises:
        lwt.errors.ConfigError: PEFT does not support it; says what to do.
    """
    name, start = adapter.config["name"], adapter.config.get("start", "lora")
    if name not in (*METHODS, *peft_methods.METHODS, "none") or start not in ("lora", "eva"):
        raise errors.ConfigError(
            f"{where} has reparam.name={name!r}{f' with start={start!r}' if start != 'lora' else ''}, which PEFT "
            "does not support: --as_lora writes a low-rank change as plain LoRA; lwt.export.torch.hf writes any change "
            "as a whole model"
        )
    check_channels(name, where, reordered=reordered)
    return adapter.reparam


def check_channels(name, where, *, reordered):
    """Refuses a method whose leaves mix channels, for a model with `reordered` channels."""
    if reordered and name in peft_methods.METHODS and not peft_methods.METHODS[name].keeps_channels:
        raise errors.ConfigError(
            f"{where}: {name} mixes channels, which Marian has in another order than lwt; it must be one of "
            f"{', '.join([*METHODS, *(n for n, method in peft_methods.METHODS.items() if method.keeps_channels)])}"
        )


def of_reparam(reparam, modules):
    """The adapter_config.json of a `lora.LoRA` or `dora.DoRA`, as a dict.

    Args:
        modules: ``{target: PyTorch's name of the module}``.
    """
    ranks = {module: reparam.rank_of(target) for target, module in modules.items()}
    if reparam.scaling == "one":
        alphas, alpha = ranks, reparam.rank
    else:
        rules, alpha = reparam.alpha_pattern, reparam.alpha
        alphas = {module: targets.by_pattern(target, rules, default=alpha) for target, module in modules.items()}
    return FIXED | {
        "base_model_name_or_path": None,
        "task_type": None,
        "inference_mode": True,
        "init_lora_weights": True,
        "r": reparam.rank,
        "lora_alpha": alpha,
        "lora_dropout": reparam.dropout,
        "use_rslora": reparam.scaling == "rslora",
        "use_dora": isinstance(reparam, dora.DoRA),
        "target_modules": sorted(modules.values()),
        "rank_pattern": {module: rank for module, rank in ranks.items() if rank != reparam.rank},
        "alpha_pattern": {module: value for module, value in alphas.items() if value != alpha},
    }


def to_section(config, modules, *, ranks, where):
    """The section ``config.reparam`` for an adapter_config.json.

    Args:
        config: the dict.
        modules: ``{target: PyTorch's name of the module}`` of the adapted weights.
        ranks: ``{target: rank}``.
        where: its file, for error messages.

    Raises:
        lwt.errors.CheckpointError: it is not a LoRA adapter, or uses a feature lwt does not support; names the key.
    """
    for key in ("peft_type", "r", "lora_alpha"):
        if key not in config:
            raise errors.CheckpointError(f"{where} has no key {key}; PEFT writes it")
    for key, wanted in FIXED.items():
        if config.get(key, wanted) != wanted:
            raise errors.CheckpointError(f"{where}: {key}={config[key]!r} must be {wanted!r}")
    for key in UNSUPPORTED:
        if config.get(key):
            raise errors.CheckpointError(f"{where}: {key}={config[key]!r:.60} is not supported by lwt")
    if config.get("init_lora_weights", True) not in STARTS:
        raise errors.CheckpointError(
            f"{where}: init_lora_weights={config['init_lora_weights']!r} has changed the base; PEFT's save_pretrained("
            "..., path_initial_model_for_weight_conversion=...) converts it to plain LoRA"
        )
    rank = configs.checked(config["r"], "r", limits=configs.SIZE, where=where)
    alpha = configs.checked(config["lora_alpha"], "lora_alpha", limits=ALPHA, where=where)
    dropout = configs.checked(config.get("lora_dropout", 0), "lora_dropout", limits=configs.SHARE, where=where)
    use_dora, use_rslora = (
        configs.checked(config.get(key) or False, key, limits=configs.SWITCH, where=where)
        for key in ("use_dora", "use_rslora")
    )
    alphas = _by_module(config, "alpha_pattern", limits=ALPHA, default=alpha, modules=modules, where=where)
    wanted = _by_module(config, "rank_pattern", limits=configs.SIZE, default=rank, modules=modules, where=where)
    for target, found in ranks.items():
        if found != wanted[target]:
            raise errors.CheckpointError(
                f"{where}: {modules[target]} has rank {found}; r and rank_pattern say {wanted[target]}"
            )
    names = {target: re.escape(target) for target in modules}
    return {
        "name": "dora" if use_dora else "lora",
        "rank": rank,
        "alpha": float(alpha),
        "scaling": "rslora" if use_rslora else "alpha/r",
        "dropout": float(dropout),
        "targets": "|".join(names.values()),
        "rank_pattern": [[names[target], found] for target, found in ranks.items() if found != rank],
        "alpha_pattern": [[names[target], float(found)] for target, found in alphas.items() if found != alpha],
    }


def _by_module(config, key, *, limits, default, modules, where):
    """``{target: value}`` of a dict of patterns: that of the first that matches the end of the module's name."""
    patterns = config.get(key) or {}
    if not isinstance(patterns, dict):
        raise errors.CheckpointError(f"{where}: {key}={patterns!r:.60} must be an object of patterns and numbers")
    for pattern, value in patterns.items():
        configs.checked(value, f"{key}[{pattern!r}]", limits=limits, where=where)
    try:
        rules = [(re.compile(rf"(.*\.)?({pattern})"), value) for pattern, value in patterns.items()]
    except re.error as error:
        raise errors.CheckpointError(
            f"{where}: {key} has a pattern that is not a regular expression: {error}"
        ) from error
    return {
        target: next((value for rule, value in rules if rule.fullmatch(module)), default)
        for target, module in modules.items()
    }
