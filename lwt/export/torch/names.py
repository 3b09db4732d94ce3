"""The names of the weights of BERT, Marian and ViT in transformers."""

import dataclasses
import re

PROJECTIONS = ("query", "key", "value")


@dataclasses.dataclass(frozen=True)
class Layout:
    """The names of an architecture's weights, lwt's and those of transformers; ``{}`` stands for a number.

    Attributes:
        modules: lwt's name -> PyTorch's name of a module, which adapters use.
        tables: lwt's name -> the other name of weights that are no module's kernel, bias or scale.
        body: prefix of their names outside a head; files of a model without a head omit it.
        files: name in `modules` -> name in files, where they differ.
        halves: whether the channels are reordered.
    """

    modules: dict
    tables: dict
    body: str
    files: dict = dataclasses.field(default_factory=dict)
    halves: bool = False


def _below(ours, theirs, names):
    return {f"{ours}/{name}": f"{theirs}.{other}" for name, other in names.items()}


def _stack(name, attentions):
    """The names of Marian's encoder or decoder; `attentions` maps lwt's names to theirs."""
    names = {"mlp/fc1": "fc1", "mlp/fc2": "fc2", "mlp_norm": "final_layer_norm"}
    for ours, theirs in attentions.items():
        projections = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}
        names |= {f"{ours}_norm": f"{theirs}_layer_norm", **_below(ours, theirs, projections)}
    return _below(f"{name}/layer_{{}}", f"model.{name}.layers.{{}}", names)


LAYOUTS = {  # by name of lwt's model
    "bert": Layout(
        modules={
            "embed_norm": "bert.embeddings.LayerNorm",
            **_below(
                "block_{}",
                "bert.encoder.layer.{}",
                {
                    **{f"self_attention/{name}": f"attention.self.{name}" for name in PROJECTIONS},
                    "self_attention/out": "attention.output.dense",
                    "self_attention_norm": "attention.output.LayerNorm",
                    "mlp/fc1": "intermediate.dense",
                    "mlp/fc2": "output.dense",
                    "mlp_norm": "output.LayerNorm",
                },
            ),
            "pooler": "bert.pooler.dense",
            "head/classifier": "classifier",
        },
        tables={
            "embed/token": "bert.embeddings.word_embeddings.weight",
            "embed/position": "bert.embeddings.position_embeddings.weight",
            "embed/segment": "bert.embeddings.token_type_embeddings.weight",
        },
        body="bert.",
    ),
    "seq2seq": Layout(
        modules={
            **_stack("encoder", {"self_attention": "self_attn"}),
            **_stack("decoder", {"self_attention": "self_attn", "cross_attention": "encoder_attn"}),
        },
        tables={"embed/embedding": "model.shared.weight"},
        body="model.",
        halves=True,
    ),
    "vit": Layout(
        modules={
            "embed/patch": "vit.embeddings.patch_embeddings.projection",
            **_below(
                "block_{}",
                "vit.layers.{}",
                {
                    "attention_norm": "layernorm_before",
                    **_below(
                        "attention",
                        "attention",
                        {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "o_proj"},
                    ),
                    "mlp_norm": "layernorm_after",
                    "mlp/fc1": "mlp.fc1",
                    "mlp/fc2": "mlp.fc2",
                },
            ),
            "norm": "vit.layernorm",
            "head": "classifier",
        },
        tables={
            "embed/class_token": "vit.embeddings.cls_token",
            "embed/position": "vit.embeddings.position_embeddings",
        },
        body="vit.",
        files={  # names from before transformers 5, which still writes them
            f"vit.layers.{{}}.{new}": f"vit.encoder.layer.{{}}.{old}"
            for new, old in {
                **{f"attention.{name[0]}_proj": f"attention.attention.{name}" for name in PROJECTIONS},
                "attention.o_proj": "attention.output.dense",
                "mlp.fc1": "intermediate.dense",
                "mlp.fc2": "output.dense",
                "layernorm_before": "layernorm_before",
                "layernorm_after": "layernorm_after",
            }.items()
        },
    ),
}


def as_called(name, layout, *, model):
    """One of their names as the class of `model` has it: without the prefix `body` if the model has no head."""
    return name.removeprefix(layout.body) if getattr(model, "head", "") == "none" else name


def in_full(name, layout, *, model):
    """The inverse of `as_called`."""
    return layout.body + name if getattr(model, "head", "") == "none" else name


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
