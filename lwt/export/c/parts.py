"""What the networks in C have in common."""

import collections.abc
import dataclasses

from lwt import errors

LENGTH = "LWT_LENGTH"


@dataclasses.dataclass(frozen=True)
class Network:
    """A network, ready to be written.

    Attributes:
        name: of its source files.
        source: C definitions of its structs.
        shape: the macros of its own, without ``LWT_``; a str is an expression.
        macs: ``macs(tokens)``, multiplications of weights and activations of a text.
    """

    name: str
    source: str
    shape: dict
    macs: collections.abc.Callable


def require_attention(model, *names):
    """Refuses attentions that the engine does not know, and options of those that it knows.

    Raises:
        lwt.errors.ConfigError: with what would be right.
    """
    cls = model.attention
    options = dict(getattr(cls, "keywords", {}))
    name = getattr(cls, "func", cls).__module__.rpartition(".")[2]
    if name not in names or options:
        raise errors.ConfigError(
            f"model.attention is {name!r} with the options {options}; the engine in C knows {' and '.join(names)}, "
            "without options"
        )
    return name


def struct(fields):
    """One element of an array of structs."""
    return "    {" + ",\n     ".join(fields) + "},\n"


def embedder(source):
    """The definition of the embedding tables."""
    tables = [source.table(f"embed/{name}") for name in ("token", "position", "segment")]
    nano = "embed/token_expander/kernel" in source
    expanders = [source.linear(f"embed/{name}_expander") if nano else "{0}" for name in ("token", "position")]
    return "const lwt_embedder lwt_tables = {" + ", ".join([*tables, *expanders]) + "};\n"


def embed_macs(model, tokens):
    """Multiplications of the embedding: none, if the tables are as wide as the model."""
    return 2 * tokens * model.reduced * model.width if getattr(model, "embedding", "nano") == "nano" else 0
