"""The network in C of a text classifier."""

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
    return NETWORKS[type(model)](model, source)
