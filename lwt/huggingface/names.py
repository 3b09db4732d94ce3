"""What an architecture of transformers is, and the names of its weights."""

import dataclasses
import re

LAYERS = {  # our fields -> keys of config.json, of most encoders
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "hidden": "intermediate_size",
    "norm_epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
PROJECTIONS = ("query", "key", "value")


@dataclasses.dataclass(frozen=True)
class Layout:
    """The names of an architecture's weights, lwt's and those of transformers; ``{}`` stands for a number.

    Attributes:
        modules: lwt's name -> PyTorch's name of a module, which adapters use.
        tables: lwt's name -> the other name of weights that are not the kernel, bias or scale of a module.
        body: prefix of their names outside a head; files of a model without a head omit it.
        files: name in `modules` -> name in files, where they differ.
        halves: whether the channels are reordered.
        offset: the first rows of their table of positions, which belong to no position.
        unused: regular expression of whole names of weights that lwt's model does not have: heads of other tasks.
    """

    modules: dict
    tables: dict
    body: str
    files: dict = dataclasses.field(default_factory=dict)
    halves: bool = False
    offset: int = 0
    unused: str = ""


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A model of transformers that a model of lwt can be.

    Attributes:
        kind: ``model_type``.
        model: ``config.model.name``.
        classes: their classes: the model without a head (or the only one), and the classifier.
        keys: lwt's key -> their key, with equal values.
        activation: their key of the activation.
        layout: the names of the weights.
        required: values that lwt's model must have.
        fixed: values that their config.json must have; it may omit those keys.
        defaults: values of `keys` that older files omit.
        head_dropout: their key of the rate before the classifier; its value may be null: the rate of the other layers.
    """

    kind: str
    model: str
    classes: tuple
    keys: dict
    activation: str
    layout: Layout
    required: dict
    fixed: dict = dataclasses.field(default_factory=dict)
    defaults: dict = dataclasses.field(default_factory=dict)
    head_dropout: str = ""


def below(prefixes, modules):
    """The names of `modules`, lwt's and theirs, below the two modules `prefixes`."""
    ours, theirs = prefixes
    return {f"{ours}/{name}": f"{theirs}.{other}" for name, other in modules.items()}


def as_called(name, layout, *, model):
    """One of their names as the class of `model` has it: without the prefix `body` if the model has no head."""
    return name.removeprefix(layout.body) if getattr(model, "head", "") == "none" else name


def in_full(name, layout):
    """The inverse of `as_called`, for the name of a module or a weight of a model with or without a head."""
    known = any(ours_of(part, layout) for part in (name, name.rpartition(".")[0]))
    return name if known or name.startswith(layout.body) else layout.body + name


def module_of(name, layout):
    """PyTorch's name of the module that has lwt's weight `name`; None if no module has it."""
    if name in layout.tables:
        module, dot, _ = layout.tables[name].rpartition(".weight")
        return module if dot else None
    return renamed(name.rpartition("/")[0], layout.modules)


def ours_of(module, layout):
    """lwt's name of a module, from its name in a file or an adapter of PyTorch; None if lwt has no such module."""
    current = renamed(module, {old: new for new, old in layout.files.items()}) or module
    return renamed(current, {theirs: ours for ours, theirs in layout.modules.items()})


def weight_of(module, layout):
    """lwt's name of a module's kernel or table, from PyTorch's name of the module; None if lwt has no such module."""
    tables = {theirs: ours for ours, theirs in layout.tables.items()}
    ours = ours_of(module, layout)
    return tables.get(f"{module}.weight") or (ours and f"{ours}/kernel")


def renamed(name, table):
    """Renames `name` with a table of templates; None if no template matches."""
    for template, other in table.items():
        found = re.fullmatch(re.escape(template).replace(r"\{\}", r"(\d+)"), name)
        if found:
            return other.format(*found.groups())
    return None
