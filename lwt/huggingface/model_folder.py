"""Reads a folder of transformers, as ``save_pretrained`` or the Hub lays it out: a model of lwt and its weights."""

import logging
import pathlib

from lwt import files
from lwt.huggingface import configs, layouts, marian, reading, vit

LOG = logging.getLogger(__name__)


def read(folder):
    """Reads a folder; returns ``(section, weights)``.

    ``section`` has the keys of ``config.model``; ``weights`` is a flat dict of float32 arrays under lwt's names.
    Weights that lwt's model lacks keep their names. The head of a text encoder is read if it classifies texts; those of
    pre-training and of other tasks are left out, which the log says.

    Raises:
        lwt.errors.CheckpointError: a file is missing or damaged, or lwt has no such model.
    """
    folder = pathlib.Path(folder)
    config = files.load_json(folder / reading.CONFIG)
    section = configs.to_section(config, where=folder / reading.CONFIG)
    layout = configs.of_kind(config, where=folder).layout
    weights = layouts.from_hf(reading.weights(folder), layout, where=folder)
    if section["name"] == "bert":
        section, weights = _encoder(
            section, weights, layout=layout, classifies=configs.classifies(config), where=folder
        )
    if section["name"] == "seq2seq":
        section |= marian.section(weights)
    if section["name"] == "vit":
        weights, section["pool"] = vit.with_one_head(weights)
    return section, weights


def _encoder(section, weights, *, layout, classifies, where):
    """The same for a text encoder, with the head and the pooler that the folder has."""
    if not classifies:
        in_body = layout.modules["pooler"].startswith(layout.body)  # else the pooler is the first layer of the head
        heads = [name for name in weights if name.startswith("head/" if in_body else ("head/", "pooler/"))]
        if heads:
            LOG.info("%s: the head is not one of a text classifier and is left out: %s", where, ", ".join(heads))
        weights = {name: w for name, w in weights.items() if name not in heads}
    if section["segments"] == 1 and "embed/segment" in weights:  # RoBERTa's tokenizer uses the first row only
        weights["embed/segment"] = weights["embed/segment"][:1]
    return section | {"head": "classify" if classifies else "none", "pooler": "pooler/kernel" in weights}, weights
