"""Converts adapters to Hugging Face's PEFT, and back: LoRA, DoRA and those of `peft_methods`, on BERT, Marian and ViT.

    python -m lwt.export.torch.peft --workdir=runs/mt-arithmetic --out=adapter-peft
    python -m lwt.export.torch.peft --adapter=adapter-peft --base=runs/mt --workdir=runs/mt-again

A folder has adapter_config.json and adapter_model.safetensors. It adapts the base that ``lwt.export.torch.hf`` writes:
``PeftModel.from_pretrained(MarianMTModel.from_pretrained("mt-hf"), "adapter-peft")``. Their ``lora_A [r in]`` is aᵀ,
their ``lora_B [out r]`` bᵀ; an adapter that goes there and back is the same to the bit. Whole modules trained beside
the adapter, such as a classifier, become PEFT's ``modules_to_save``; the names of its classes are in ``labels.json``.

PEFT has neither SingLoRA nor constants beside the factors (PiSSA, LoRA-GA): ``--as_lora`` writes such a change as plain
LoRA. A change of higher rank (pruning, quantization) needs the whole model, from ``lwt.export.torch.hf``.
"""

import pathlib
import re

from absl import flags

from lwt import errors, files, trees
from lwt.data import labels
from lwt.export import folders
from lwt.export.torch import peft_configs, peft_methods
from lwt.huggingface import configs, layouts, names, reading
from lwt.layers import linear
from lwt.machine import command_line
from lwt.reparam import adapters, compose, lora
from lwt.reparam.parts import targets
from lwt.runs import experiment
from lwt.training import new_run

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX, ROOT = "base_model.model.", "base_model."  # of arrays of a module, and of none
LINEAR = {"a": "lora_A.weight", "b": "lora_B.weight", "magnitude": "lora_magnitude_vector"}
TABLE = {"a": "lora_embedding_A", "b": "lora_embedding_B", "magnitude": "lora_magnitude_vector"}
LEAVES = {theirs: ours for table in (LINEAR, TABLE) for ours, theirs in table.items()}
AXES = {"a": 0, "b": -1, "magnitude": -1}  # the axis that a leaf shares with its weight


def write(source, folder, *, as_lora=False):
    """Writes the adapter of a run into a new folder for PEFT; returns the number of its weights.

    With `as_lora` the adapter is converted to plain LoRA first (`adapters.low_rank`).

    Raises:
        lwt.errors.ConfigError: PEFT cannot hold the adapter, or Hugging Face has no such base; says why. Or the folder
            holds something, or cannot be written.
    """
    name, model = source.config.model.name, source.model
    configs.of_model(name, model)
    layout = configs.architecture(name, model).layout
    adapter, base, trained = _parts(source)
    if as_lora:
        adapter = adapters.low_rank(adapter, base)
    reparam = peft_configs.checked(adapter, source.workdir, reordered=layout.halves)
    chosen = targets.select(base, reparam.targets) if adapter.leaves else ()
    modules = {target: _module(target, layout, model) for target in chosen}
    saved = {weight: _module(weight, layout, model) for weight in _whole_modules(trained, base, modules)}
    whole = layouts.to_torch(trained, layout, model=model)
    leaves, roots = _reordered(adapter.leaves, reparam, layout), {}
    if isinstance(reparam, lora.LoRA):
        arrays, config = _of_lora(leaves, modules, layout), peft_configs.of_reparam(reparam, modules)
    elif leaves:
        about = {"modules": modules, "shapes": {target: tuple(base[target].shape) for target in modules}}
        arrays, roots, config = peft_methods.write(adapter.config["name"], reparam, leaves=leaves, **about)
    else:
        norms = {module for weight, module in saved.items() if f"{weight.rpartition('/')[0]}/scale" in trained}
        arrays, config = peft_methods.write_norms(whole, norms, where=source.workdir)
        whole, saved = {}, {weight: module for weight, module in saved.items() if module not in norms}
    config["modules_to_save"] = sorted(saved.values()) or None
    arrays = {PREFIX + name: array for name, array in {**whole, **arrays}.items()}
    arrays |= {ROOT + name: array for name, array in roots.items()}
    with folders.new(folder) as new:
        files.write_json(new / CONFIG, config)
        folders.write_arrays(new / WEIGHTS, arrays)
        if source.labels:
            files.write_json(new / labels.FILE, {"names": list(source.labels)})
    return trees.count(arrays)


def read(folder, base):
    """Reads a folder; returns ``(section, leaves, trained)``.

    ``section`` is a ``config.reparam``, ``leaves`` are the adapter's, and ``trained`` has weights that replace the
    base's.

    Args:
        folder: in the format of PEFT.
        base: an `experiment.Experiment` of the base.

    Raises:
        lwt.errors.CheckpointError: a file is missing or damaged, or the adapter uses a feature lwt does not support.
    """
    config_path, path = (pathlib.Path(folder, file) for file in (CONFIG, WEIGHTS))
    config, name, model = files.load_json(config_path), base.config.model.name, base.model
    layout, kind = configs.architecture(name, model).layout, config.get("peft_type")
    ends = peft_methods.suffixes(kind) if kind in peft_methods.TYPES else LEAVES
    leaves, modules, whole, roots = {}, {}, {}, {}
    for key, array in reading.read_arrays(path, integers=peft_methods.INDICES).items():
        if not key.startswith(PREFIX) and key.startswith(ROOT):
            roots[key.removeprefix(ROOT)] = array
            continue
        theirs = key.removeprefix(PREFIX)
        end = next((end for end in ends if theirs.endswith(f".{end}")), None)
        if end is None:
            whole[names.in_full(theirs.replace(peft_methods.NORMS, ""), layout)] = array
            continue
        module = theirs.removesuffix(f".{end}")
        target = names.weight_of(names.in_full(module, layout), layout)
        if target is None or ends is LEAVES and array.ndim != (1 if LEAVES[end] == "magnitude" else 2):
            raise errors.CheckpointError(f"{path}: {key} belongs to no linear layer or table of lwt's {name!r}")
        leaves[f"{target}/{ends[end]}"], modules[target] = array, module
    trained = layouts.from_torch(whole, layout)
    if kind == peft_methods.NORM_TUNING:
        return {"name": "none"}, {}, trained
    if kind in peft_methods.TYPES:
        peft_configs.check_channels(peft_methods.TYPES[kind], config_path, reordered=layout.halves)
        about = {"roots": roots, "modules": modules, "weights": linear.merge(base.weights), "where": config_path}
        section, leaves, patched = peft_methods.read(config, leaves, **about)
        trained |= patched
    else:
        leaves = {leaf: array.T for leaf, array in leaves.items()}
        ranks = {target: leaves[f"{target}/a"].shape[1] for target in modules if f"{target}/a" in leaves}
        section = peft_configs.to_section(config, modules, ranks=ranks, where=config_path)
    return section, _reordered(leaves, compose.build(section), layout, back=True), trained


def convert(folder, base, *, workdir, classes=()):
    """Writes a run that adapts the run `base` with PEFT's adapter; returns it as an `experiment.Experiment`.

    Args:
        folder: in the format of PEFT.
        base: an `experiment.Experiment` of the model that the adapter belongs to.
        workdir: a folder that holds no run yet.
        classes: names of the classes; () for those that `write` left in the folder, or for those of `base`.

    Raises:
        lwt.errors.ConfigError: Hugging Face has no such base, or `workdir` holds a run; or the classifier of the
            adapter has another number of classes than are named.
        lwt.errors.CheckpointError: see `read`; or the adapter does not fit the base: names what is missing, unexpected,
            or of another shape.
    """
    name = base.config.model.name
    configs.of_model(name, base.model)
    section, leaves, trained = read(folder, base)
    path = pathlib.Path(folder, labels.FILE)
    classes = tuple(classes or (files.load_json(path).get("names", ()) if path.exists() else ()) or base.labels)
    outputs = {len(w) for name, w in trained.items() if re.fullmatch("head/(.*/)?bias", name)}
    if classes and outputs and outputs != {len(classes)}:
        raise errors.ConfigError(
            f"{folder} has a classifier of {min(outputs)} classes; {', '.join(classes)} are {len(classes)}: name its "
            "classes with --classes"
        )
    how, sections = {"adapter": str(folder)}, {}
    if outputs and getattr(base.model, "head", "") == "none":  # an encoder becomes a classifier
        classes = classes or tuple(f"LABEL_{i}" for i in range(min(outputs)))
        sections = _of_classifier(base, pooler="pooler/kernel" in base.weights | trained)
    options = {"trained": trained, "classes": classes if classes != base.labels else (), "how": how}
    return new_run.adapt(base, workdir, reparam=section, adapter=leaves, sections=sections, **options)


def _of_classifier(base, *, pooler):
    """The sections of the config of a classifier on the encoder `base`, as transformers' classes read it."""
    data = base.config.data.to_dict() | {"kind": "labelled", "fields": ("text",)}
    model = base.config.model.to_dict() | {"head": "classify", "pool": "first", "pooler": pooler}
    return {"model": model, "data": data, "task": {"name": "classify"}}


def _parts(source):
    """The adapter of a run, its base, and the weights of the base that were trained beside it."""
    config, stored = source.config, None
    if config.init_from:
        trained, frozen = source.stored()
        stored = {**trained, **frozen} if frozen or config.reparam.name != "none" else None
    if stored is None:
        raise errors.ConfigError(
            f"{source.workdir} has reparam.name={config.reparam.name!r} and init_from={config.init_from!r}; it must "
            "be a run that trains an adapter of another run"
        )
    adapter = adapters.Adapter(trees.subtree(stored, "adapter"), config.reparam.to_dict(), step=source.step)
    return adapter, trees.subtree(stored, "base"), trees.subtree(trained, "base")


def _of_lora(leaves, modules, layout):
    """The arrays of LoRA or DoRA by their names in PEFT."""
    arrays = {}
    for leaf, array in leaves.items():
        target, _, kind = leaf.rpartition("/")
        arrays[f"{modules[target]}.{(TABLE if target in layout.tables else LINEAR)[kind]}"] = array.T
    return arrays


def _module(name, layout, model):
    """PyTorch's name of the module that has the weight `name`."""
    module = names.module_of(name, layout)
    if module is None or name == "embed/patch/kernel" or (layout.halves and name in layout.tables):
        raise errors.ConfigError(
            f"{name!r} is adapted, which PEFT cannot do: it adapts linear layers, and tables except the output layer"
        )
    return names.as_called(module, layout, model=model)


def _whole_modules(trained, base, modules):
    """One weight of each module that was trained whole; a module of which only a part was trained is refused."""
    parents = {name.rpartition("/")[0]: name for name in trained}
    for name in base:
        parent = name.rpartition("/")[0]
        if parent in parents and (name not in trained or name in modules):
            raise errors.ConfigError(
                f"{parents[parent]!r} was trained, and {name!r} was not, or has an adapter: PEFT saves whole modules"
            )
    return parents.values()


def _reordered(leaves, reparam, layout, *, back=False):
    """Leaves with their channels in the layout's order (`layouts.reordered`)."""
    found = {}
    for leaf, array in leaves.items():
        target, _, kind = leaf.rpartition("/")
        shared = AXES.get(kind)
        if kind == "scale":  # of IA3
            shared = 0 if reparam.scales_inputs(target) else -1
        axes = [axis for axis in layouts.channel_axes(target) if axis == shared]
        found[leaf] = layouts.reordered(array, axes, layout=layout, back=back)
    return found


def main():
    """The program: converts in one direction, and prints the result."""
    values = flags.FLAGS
    if bool(values.out) == bool(values.adapter and values.base):
        raise errors.ConfigError("give --out to write the adapter of a run, or --adapter and --base to make a run")
    if values.out:
        command_line.refuse(["adapter", "classes"], where="with --out")
        source = experiment.load(values.workdir, checkpoint=values.which, base=values.base)
        weights = write(source, values.out, as_lora=values.as_lora)
        command_line.report({"folder": values.out, "checkpoint": source.step, "weights": weights})
        return
    command_line.refuse(["as_lora"], where="without --out")
    base = experiment.load(values.base, checkpoint=values.which)
    made = convert(values.adapter, base, workdir=values.workdir, classes=tuple(values.classes))
    command_line.report({"workdir": values.workdir, "reparam": made.config.reparam.name})


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    flags.DEFINE_string("workdir", None, "Folder of the run to make, or with --out of the run to read.")
    flags.DEFINE_string("out", "", "Folder to write for PEFT.")
    flags.DEFINE_bool("as_lora", False, "With --out: write plain LoRA, however the adapter was trained.")
    flags.DEFINE_string("adapter", "", "Folder of PEFT to read.")
    flags.DEFINE_string("base", "", "The run that --adapter, or --workdir, adapts.")
    flags.DEFINE_list("classes", [], "With --adapter: names of its classes, if they differ from those of --base.")
    flags.DEFINE_string("which", "best", "Checkpoint to read: best, last or a step.")
    command_line.run(main, required=["workdir"])
