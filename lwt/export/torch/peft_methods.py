"""The methods of PEFT besides LoRA and DoRA: their configs, names and layouts, both ways.

IA3, HiRA, MiSS, LoKr, OFT, C3A and AdaLoRA are the same on both sides. PEFT's VeRA and Uni-LoRA bring random matrices
or places of their own: they are read as the plain LoRA that they amount to. Of SHiRA, the patched weights are read.
"""

import dataclasses
import logging
import math
import re

import numpy as np

from lwt import errors
from lwt.huggingface import configs

LOG = logging.getLogger(__name__)
RANK, ALPHA, STEPS = {"rank": ("r", configs.SIZE)}, (float, 0, 1e9), (int, 0, math.inf)
OFF, EMPTY, BIAS, START = (False, None), ({}, None), ("none", None), (True, False, None)
PLAIN = {"bias": BIAS, "init_weights": START, "fan_in_fan_out": OFF}
COMMON = {"task_type": None, "inference_mode": True, "base_model_name_or_path": None}
INDICES = r".*_indices(_[AB])?"  # names of arrays of whole numbers


@dataclasses.dataclass(frozen=True)
class Method:
    """How PEFT stores a method.

    Attributes:
        kind: its ``peft_type``.
        leaves: our name of a leaf -> theirs, after that of its module.
        keys: our argument -> ``(their key, limits of configs.checked)``.
        required: their key -> the values that mean what lwt does; the first is written.
        turned: whether their arrays are ours transposed.
        keeps_channels: whether its leaves follow when the channels of a model are reordered.
        extra: further arrays of a module.
    """

    kind: str
    leaves: dict
    keys: dict = dataclasses.field(default_factory=dict)
    required: dict = dataclasses.field(default_factory=dict)
    turned: bool = False
    keeps_channels: bool = False
    extra: tuple = ()


METHODS = {
    "ia3": Method("IA3", {"scale": "ia3_l"}, required={"fan_in_fan_out": OFF}, keeps_channels=True),
    "hira": Method(
        "HIRA",
        {"a": "hira_A", "b": "hira_B"},
        RANK,
        {"init_weights": START, "rank_pattern": EMPTY, "fan_in_fan_out": OFF},
        turned=True,
        keeps_channels=True,
    ),
    "adalora": Method(
        "ADALORA",
        {"a": "lora_A", "b": "lora_B", "values": "lora_E"},
        {
            "rank": ("init_r", configs.SIZE),
            "budget": ("target_r", configs.SIZE),
            "alpha": ("lora_alpha", ALPHA),
            "begin": ("tinit", STEPS),
            "every": ("deltaT", configs.SIZE),
            "orthogonality": ("orth_reg_weight", ALPHA),
        },
        {"bias": BIAS, "fan_in_fan_out": OFF},
        turned=True,
        keeps_channels=True,
    ),
    "miss": Method("MISS", {"b": "miss_block"}, RANK, {"bias": BIAS, "init_weights": START}),
    "lokr": Method(
        "LOKR",
        {"w1": "lokr_w1", "w2": "lokr_w2", "a": "lokr_w2_b", "b": "lokr_w2_a"},
        {**RANK, "alpha": ("alpha", ALPHA), "factor": ("decompose_factor", (int, -1, math.inf))},
        {"decompose_both": OFF, "rank_pattern": EMPTY, "alpha_pattern": EMPTY},
        turned=True,
    ),
    "oft": Method(
        "OFT",
        {"rotation": "oft_R.weight"},
        {"block_size": ("oft_block_size", configs.SIZE)},
        {"r": (0,), "coft": OFF, "block_share": OFF, "fan_in_fan_out": OFF, "bias": BIAS},
    ),
    "c3a": Method("C3A", {"circulant": "c3a_kernel"}, required={"bias": BIAS}),
    "vera": Method("VERA", {"lambda_d": "vera_lambda_d", "lambda_b": "vera_lambda_b"}, RANK, PLAIN),
    "shira": Method("SHIRA", {"entries": "shira_weight"}, RANK, {"fan_in_fan_out": OFF}, extra=("shira_indices",)),
    "unilora": Method(
        "UNILORA",
        {},
        RANK,
        PLAIN,
        extra=tuple(f"unilora_{what}_{side}" for what in ("indices", "scales") for side in "AB"),
    ),
}
NORM_TUNING, NORMS = "LN_TUNING", ".ln_tuning_layers"  # layer norms that are trained whole, and a part of their names
TYPES = {method.kind: name for name, method in METHODS.items()}
DROPOUTS = ("hira_dropout", "miss_dropout", "vera_dropout", "unilora_dropout", "module_dropout", "rank_dropout")


def suffixes(kind):
    """The ends of the names of a module's arrays -> our names of leaves, or the same for arrays that are none."""
    method = METHODS[TYPES[kind]]
    return {theirs: ours for ours, theirs in method.leaves.items()} | {name: name for name in method.extra}


def write(name, reparam, *, leaves, modules, shapes):
    """The arrays and the config of an adapter: ``(arrays by module, arrays of no module, config)``.

    Args:
        name: of the method, one of `METHODS`.
        reparam: its reparametrization.
        leaves: flat dict, with the channels in the order of the model.
        modules: ``{target: PyTorch's name of the module}``.
        shapes: ``{target: (in, out)}``.

    Raises:
        lwt.errors.ConfigError: PEFT has no such adapter; says why.
    """
    method, arrays, roots = METHODS[name], {}, {}
    for leaf, array in leaves.items():
        target, _, kind = leaf.rpartition("/")
        if target:
            arrays[f"{modules[target]}.{method.leaves[kind]}"] = _turned(name, np.asarray(array), leaf=kind)
    config = {"peft_type": method.kind, **COMMON}
    config |= {key: values[0] for key, values in method.required.items()}
    config |= {key: getattr(reparam, ours) for ours, (key, _) in method.keys.items()}
    config["target_modules"] = sorted(modules.values())
    if name == "ia3":
        inputs = {modules[target] for target in modules if reparam.scales_inputs(target)}
        arrays = {key: x.T if key.removesuffix(".ia3_l") in inputs else x for key, x in arrays.items()}
        config["feedforward_modules"] = sorted(inputs)
    elif name == "adalora":
        config |= {"r": 8, "tfinal": 0, "total_step": reparam.end, "rank_pattern": None}
    elif name == "oft":
        config |= {"use_cayley_neumann": reparam.neumann > 0, "num_cayley_neumann_terms": reparam.neumann or 5}
    elif name == "c3a":
        sizes = {module: leaves[f"{target}/circulant"].shape[-1] for target, module in modules.items()}
        config |= {"block_size": max(sizes.values()), "block_size_pattern": sizes, "init_weights": True}
    elif name == "vera":
        a, b = reparam.basis(*(max(shape[axis] for shape in shapes.values()) for axis in (0, 1)))
        roots = {"vera_A": a.T, "vera_B": b.T}
        config |= {"projection_prng_key": reparam.seed, "save_projection": True, "d_initial": reparam.start_of_d}
    elif name == "shira":
        for target, (n_in, n_out) in shapes.items():
            count = len(leaves[f"{target}/entries"])
            if count < reparam.rank * (n_in + n_out):
                raise errors.ConfigError(f"reparam.rank={reparam.rank} patches all of {target!r}; PEFT refuses this")
            rows, columns = np.divmod(reparam.places(target, (n_in, n_out), count=count), n_out)
            arrays[f"{modules[target]}.shira_indices"] = np.stack([columns, rows]).astype(np.int32)
        config |= {"mask_type": "random", "random_seed": reparam.seed, "init_weights": True}
    elif name == "unilora":
        if reparam.centred:
            raise errors.ConfigError(
                "reparam.centred=True subtracts the start, which PEFT does not: --as_lora writes the same as plain LoRA"
            )
        for target, sides in reparam.places(shapes).items():
            for side, (index, scale) in zip("AB", sides, strict=True):
                arrays[f"{modules[target]}.unilora_indices_{side}"] = index.T.astype(np.int64)
                arrays[f"{modules[target]}.unilora_scales_{side}"] = scale.T
        roots = {"unilora_theta_d": np.asarray(leaves["theta"])}
        config |= {"theta_d_length": reparam.length, "proj_seed": reparam.seed, "save_indices": True}
    return arrays, roots, config


def write_norms(whole, norms, *, where):
    """The arrays and the config of a run that trained layer norms: ``(arrays, config)``.

    Args:
        whole: PyTorch's name of a trained weight -> array.
        norms: names of the modules among them that are layer norms.
        where: the run, for error messages.
    """
    if not norms:
        raise errors.ConfigError(f"{where} trained no adapter and no layer norm: PEFT has no place for what it trained")
    arrays = {}
    for name, array in whole.items():
        module, _, kind = name.rpartition(".")
        arrays[f"{module}{NORMS if module in norms else ''}.{kind}"] = array
    return arrays, {"peft_type": NORM_TUNING, **COMMON, "target_modules": sorted(norms)}


def read(config, arrays, *, roots, modules, weights, where):
    """Inverts `write`: ``(section of config.reparam, leaves, weights that replace the base's)``.

    Args:
        config: the dict of an adapter_config.json.
        arrays: ``{target/leaf: array}`` of PEFT.
        roots: arrays of no module.
        modules: ``{target: PyTorch's name of the module}``.
        weights: flat dict of the base's.
        where: the file of the config, for error messages.

    Raises:
        lwt.errors.CheckpointError: it uses what lwt does not have; names the key.
    """
    name = TYPES[config["peft_type"]]
    method = METHODS[name]
    for key, values in method.required.items():
        if config.get(key, values[0]) not in values:
            raise errors.CheckpointError(f"{where}: {key}={config[key]!r:.60} must be {values[0]!r}")
    for key in DROPOUTS:
        if config.get(key):
            LOG.warning("%s: %s=%s is left out, which matters to further training only", where, key, config[key])
    section = {"name": name, "targets": "|".join(re.escape(target) for target in modules)}
    for ours, (key, limits) in method.keys.items():
        if key not in config:
            raise errors.CheckpointError(f"{where} has no key {key}; PEFT writes it")
        section[ours] = configs.checked(config[key], key, limits=limits, where=where)
    try:
        if name in ("vera", "unilora"):
            return *_as_lora(arrays, roots, modules=modules, weights=weights), {}
        if name == "shira":
            return {"name": "none"}, {}, {t: _patched(weights[t], t, arrays=arrays) for t in modules}
        if name == "ia3":
            inputs = [re.escape(target) for target in modules if len(arrays[f"{target}/scale"]) == 1]
            section["feedforward"] = "|".join(inputs) or ()
        elif name == "adalora":
            section["end"] = config["total_step"] - config["tfinal"]
            arrays = {leaf: _filled(array, leaf.rpartition("/")[2], section["rank"]) for leaf, array in arrays.items()}
        elif name == "oft":
            section["neumann"] = config.get("num_cayley_neumann_terms", 5) * bool(config.get("use_cayley_neumann"))
        elif name == "c3a":
            sizes = {target: arrays[f"{target}/circulant"].shape[2] for target in modules}
            own = all(size == math.gcd(*weights[target].shape) for target, size in sizes.items())
            section["block_size"] = 0 if own else max(sizes.values())
        return section, {n: _turned(name, array, leaf=n.rpartition("/")[2]) for n, array in arrays.items()}, {}
    except (KeyError, ValueError, IndexError) as error:
        raise errors.CheckpointError(f"{where}: the arrays are not those of {method.kind}: {error}") from error


def _filled(array, leaf, rank):
    """An array of PEFT's AdaLoRA with zeros in place of the directions that it left out."""
    missing = rank - array.shape[leaf == "b"]
    return np.pad(array, [(0, 0), (0, missing)] if leaf == "b" else [(0, missing), (0, 0)])


def _turned(name, array, *, leaf):
    """An array in the layout of the other side; IA3's vectors as those of outputs."""
    if name == "ia3" or leaf == "values":
        return array[:, None] if array.ndim == 1 else array.reshape(-1)
    if name == "c3a":
        return array.swapaxes(0, 1)
    return array.T if METHODS[name].turned else array


def _as_lora(arrays, roots, *, modules, weights):
    """The section and the leaves of the plain LoRA that VeRA's or Uni-LoRA's arrays amount to."""
    leaves = {}
    for target in modules:
        if "vera_A" in roots:
            d, s = arrays[f"{target}/lambda_d"], arrays[f"{target}/lambda_b"]
            a = roots["vera_A"][:, : weights[target].shape[0]].T * d[None]
            b = (roots["vera_B"][: len(s)] * s[:, None]).T
        else:
            a, b = (
                (
                    roots["unilora_theta_d"][arrays[f"{target}/unilora_indices_{side}"].astype(int)]
                    * arrays[f"{target}/unilora_scales_{side}"]
                ).T
                for side in "AB"
            )
        leaves[f"{target}/a"], leaves[f"{target}/b"] = a, b
    section = {"name": "lora", "rank": a.shape[1], "scaling": "one", "targets": "|".join(map(re.escape, modules))}
    return section, leaves


def _patched(w, target, *, arrays):
    """A weight with the entries of SHiRA added."""
    columns, rows = arrays[f"{target}/shira_indices"].astype(int)
    patched = np.array(w)
    np.add.at(patched, (rows, columns), arrays[f"{target}/entries"])
    return patched
