"""Parts that the networks in C share."""

import collections.abc
import dataclasses

from lwt import errors
from lwt.export.c import tables

LENGTH = "LWT_LENGTH"
ACTIVATIONS = ("relu", "silu", "gelu", "gelu_tanh", "tanh")  # numbered as in source/engine.h


@dataclasses.dataclass(frozen=True)
class Network:
    """A network in C.

    Attributes:
        name: of its source files.
        source: C definitions of its structs.
        shape: its own macros ``{name without LWT_: value}``; a str is an expression.
        macs: ``macs(tokens)``, multiplications of weights and activations for a text; of a translator
            ``macs(tokens, answer)``.
        arena: bytes of the parts of its memory; see `layout.arena`.
    """

    name: str
    source: str
    shape: dict
    macs: collections.abc.Callable
    arena: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Program:
    """The files and constants that differ by model, besides the sources that all programs share.

    Attributes:
        name: of the program for this machine.
        network: the `Network`.
        tokens: the `tables.Tables` of the tokenizer.
        shape: all macros, as in `Network`.
        files: ``{name in the folder: name in the folder of sources}``.
        headers: what ``model.h`` includes after the tokenizer and the states.
        definitions: of the constants declared there, in C.
        goldens: ``goldens.c``.
        memory: bytes of flash and of RAM of the emulated device.
        board: QEMU's board for a Cortex-M4F, as in the Makefile.
        measure: on the emulated device; None for `costs.measure`, whose arguments it takes.
        places: ``{name of a linear layer: its number}`` of those that a task may change.
        report: what the report says of the model itself.
    """

    name: str
    network: Network
    tokens: tables.Tables
    shape: dict
    files: dict
    headers: tuple
    definitions: str
    goldens: str
    memory: tuple
    board: str
    measure: collections.abc.Callable | None = None
    places: dict = dataclasses.field(default_factory=dict)
    report: dict = dataclasses.field(default_factory=dict)


def require_attention(model, *names):
    """The name of the model's attention, if it is one of `names` without options.

    Raises:
        lwt.errors.ConfigError: the attention or one of its options is not supported; says which are.
    """
    cls = model.attention
    options = dict(getattr(cls, "keywords", {}))
    name = getattr(cls, "func", cls).__module__.rpartition(".")[2]
    if name not in names or options:
        raise errors.ConfigError(
            f"model.attention is {name!r} with the options {options}; the engine in C supports {' and '.join(names)}, "
            "without options"
        )
    return name


def struct(fields):
    """The initialiser of one element in an array of structs."""
    return "    {" + ",\n     ".join(fields) + "},\n"


def embedder(source):
    """The definition of the embedding tables."""
    names = [f"embed/{name}" for name in ("token", "position", "segment")]
    tables = [source.table(name) if name in source else "{0}" for name in names]
    nano = "embed/token_expander/kernel" in source
    expanders = [source.linear(f"embed/{name}_expander") if nano else "{0}" for name in ("token", "position")]
    return "const lwt_embedder lwt_tables = {" + ", ".join([*tables, *expanders]) + "};\n"


def embed_macs(model, tokens):
    """Multiplications of the embedding; 0 if the tables are as wide as the model."""
    return 2 * tokens * model.reduced * model.width if getattr(model, "embedding", "nano") == "nano" else 0
