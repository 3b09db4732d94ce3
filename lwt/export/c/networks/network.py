"""The network in C of a text classifier."""

import dataclasses
import math

from lwt.export.c.networks import bert, embbert, embedder, mamba
from lwt.models import bert as bert_model
from lwt.models import embbert as embbert_model
from lwt.models import embedder as embedder_model
from lwt.models import mamba as mamba_model

NETWORKS = {
    embbert_model.Embbert: embbert.network,
    embedder_model.Embedder: embedder.network,
    bert_model.Bert: bert.network,
    mamba_model.Mamba: mamba.network,
}
NAMES = [cls.__module__.rpartition(".")[2] for cls in NETWORKS]


def of(model, source):
    """The `parts.Network` of a model whose class is in `NETWORKS`.

    Args:
        source: a `weights.Source`, which gets the definitions of the weights.

    Raises:
        lwt.errors.ConfigError: the engine in C does not have what the model needs; names it.
    """
    made = NETWORKS[type(model)](model, source)

    def macs(tokens):
        """As in `made`, with two products in a row in place of one."""
        saved = (_saved(w) * _positions(name, model, tokens) for name, w in source.factors.items())
        return made.macs(tokens) - sum(saved)

    return dataclasses.replace(made, macs=macs)


def _saved(factors):
    """Multiplications for a position that two factors save."""
    return math.prod(factors.shape) - factors.a.shape[1] * sum(factors.shape)


def _positions(name, model, tokens):
    """The positions of a text at which a linear layer is needed."""
    if not name.startswith(("embed/", "block_")):
        return 1
    first = model.pool == "first" and name.startswith("block_")
    last = name.startswith(f"block_{model.layers - 1}/") and not name.endswith(("/key", "/value"))
    return 1 if first and (last or isinstance(model, mamba_model.Mamba)) else tokens
