"""Converts adapters to Hugging Face's PEFT, and back: LoRA, rsLoRA and DoRA on BERT, Marian and ViT.

    python -m lwt.export.torch.peft --workdir=runs/mt-arithmetic --out=adapter-peft
    python -m lwt.export.torch.peft --adapter=adapter-peft --base=runs/mt --workdir=runs/mt-again

A folder has adapter_config.json and adapter_model.safetensors. It adapts the base that ``lwt.export.torch.hf`` writes:
``PeftModel.from_pretrained(MarianMTModel.from_pretrained("mt-hf"), "adapter-peft")``. Their ``lora_A [r in]`` is aᵀ,
their ``lora_B [out r]`` bᵀ; an adapter that goes there and back is the same to the bit. Whole modules trained beside
the adapter, such as a classifier, become PEFT's ``modules_to_save``; the names of its classes are in ``labels.json``.

PEFT has neither SingLoRA nor constants beside the factors (PiSSA, OLoRA): ``--as_lora`` writes such a change as plain
LoRA. A change of higher rank (pruning, quantization) needs the whole model, from ``lwt.export.torch.hf``.
"""

import pathlib
import re

from absl import flags

from lwt import errors, files, trees
from lwt.data import labels
from lwt.export import folders
from lwt.export.torch import peft_configs
from lwt.huggingface import configs, layouts, names, reading
from lwt.machine import command_line
from lwt.reparam import adapters
from lwt.reparam.parts import targets
from lwt.runs import experiment
from lwt.training import new_run

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
LINEAR = {"a": "lora_A.weight", "b": "lora_B.weight", "magnitude": "lora_magnitude_vector"}
TABLE = {"a": "lora_embedding_A", "b": "lora_embedding_B", "magnitude": "lora_magnitude_vector"}
LEAVES = {theirs: ours for table in (LINEAR, TABLE) for ours, theirs in table.items()}
AXES = {"a": (0,), "b": (-1,), "magnitude": (-1,)}  # axes of a leaf that it shares with its weight


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
    reparam = peft_configs.checked(adapter, source.workdir)
    modules = {target: _module(target, layout, model) for target in targets.select(base, reparam.targets)}
    saved = _whole_modules(trained, base, modules)
    arrays = layouts.to_torch(trained, layout, model=model)
    for leaf, array in adapter.leaves.items():
        target, _, kind = leaf.rpartition("/")
        table = TABLE if target in layout.tables else LINEAR
        arrays[f"{modules[target]}.{table[kind]}"] = _reordered(leaf, array, layout).T
    arrays = {PREFIX + name: array for name, array in arrays.items()}
    config = peft_configs.of_reparam(reparam, modules, saved=[_module(name, layout, model) for name in saved])
    with folders.new(folder) as new:
        files.write_json(new / CONFIG, config)
        folders.write_arrays(new / WEIGHTS, arrays)
        if source.labels:
            files.write_json(new / labels.FILE, {"names": list(source.labels)})
    return trees.count(arrays)


def read(folder, model, *, name):
    """Reads a folder; returns ``(section, leaves, trained)``.

    ``section`` is a ``config.reparam``, ``leaves`` are the adapter's, and ``trained`` has weights that replace the
    base's.

    Args:
        folder: in the format of PEFT.
        model: the linen module of the base.
        name: its ``config.model.name``.

    Raises:
        lwt.errors.CheckpointError: a file is missing or damaged, or the adapter uses a feature lwt does not support.
    """
    config_path, path = (pathlib.Path(folder, file) for file in (CONFIG, WEIGHTS))
    config, layout = files.load_json(config_path), configs.architecture(name, model).layout
    leaves, modules, whole = {}, {}, {}
    for key, array in reading.read_arrays(path).items():
        theirs = key.removeprefix(PREFIX)
        suffix = next((suffix for suffix in LEAVES if theirs.endswith(f".{suffix}")), None)
        if suffix is None:
            whole[names.in_full(theirs, layout)] = array
            continue
        module = theirs.removesuffix(f".{suffix}")
        target = names.weight_of(names.in_full(module, layout), layout)
        if target is None or array.ndim != (1 if LEAVES[suffix] == "magnitude" else 2):
            raise errors.CheckpointError(f"{path}: {key} belongs to no linear layer or table of lwt's {name!r}")
        leaf, modules[target] = f"{target}/{LEAVES[suffix]}", module
        leaves[leaf] = _reordered(leaf, array.T, layout, back=True)
    ranks = {target: leaves[f"{target}/a"].shape[1] for target in modules if f"{target}/a" in leaves}
    section = peft_configs.to_section(config, modules, ranks=ranks, where=config_path)
    return section, leaves, layouts.from_torch(whole, layout)


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
    section, leaves, trained = read(folder, base.model, name=name)
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
    config = source.config
    if not config.init_from or config.reparam.name == "none":
        raise errors.ConfigError(
            f"{source.workdir} has reparam.name={config.reparam.name!r} and init_from={config.init_from!r}; it must "
            "be a run that trains an adapter of another run"
        )
    trained, frozen = source.stored()
    stored = {**trained, **frozen}
    adapter = adapters.Adapter(trees.subtree(stored, "adapter"), config.reparam.to_dict(), step=source.step)
    return adapter, trees.subtree(stored, "base"), trees.subtree(trained, "base")


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


def _reordered(leaf, array, layout, *, back=False):
    """A leaf with its channels in the layout's order (`layouts.reordered`)."""
    target, _, kind = leaf.rpartition("/")
    axes = [axis for axis in layouts.channel_axes(target) if axis in AXES[kind]]
    return layouts.reordered(array, axes, layout=layout, back=back)


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
    flags.DEFINE_list("classes", [], "With --adapter: names of its classes, if they are others than those of --base.")
    flags.DEFINE_string("which", "best", "Checkpoint to read: best, last or a step.")
    command_line.run(main, required=["workdir"])
