"""Makes a run's config from a folder with a Marian model, and puts its weights in the order of lwt's ids."""

import logging
import pathlib

from lwt import files
from lwt.data import marian_tokenizer
from lwt.huggingface import configs, marian, reading

LOG = logging.getLogger(__name__)
DECODING = "generation_config.json"
FIELDS = ("source", "target")
PLAIN = {  # settings of `generate` that lwt's decoding does not have, and their values in a plain search
    **{"do_sample": False, "early_stopping": False, "no_repeat_ngram_size": 0, "repetition_penalty": 1.0},
    **{"num_beam_groups": 1, "min_length": 0},
}


def fill(config, folder, *, new, section, weights):
    """Fills a run's config and writes the tokenizer into the folder `new`; returns the weights.

    Args:
        config: the defaults; gets ``model``, ``data`` and ``task``.
        folder: the `pathlib.Path` of the model.
        section: the keys of ``config.model``.
        weights: flat dict, in the order of the model's own ids.

    Raises:
        lwt.errors.CheckpointError: the config's ids or numbers of pieces are not those of the tokenizer.
        lwt.errors.DataError: a file of the tokenizer is missing or damaged.
    """
    where = pathlib.Path(folder, reading.CONFIG)
    described = files.load_json(where)
    tokens = marian_tokenizer.import_folder(folder, pathlib.Path(new, marian_tokenizer.FILE))
    marian.check_ids(described, marian.their_ids(tokens), where=where)
    weights = marian.to_our_ids(weights, tokens, where=where)
    config.model = section | marian.section(weights)
    config.data.kind, config.data.fields = "pairs", FIELDS
    longest = described.get("max_position_embeddings", marian.LONGEST)
    longest = configs.checked(longest, "max_position_embeddings", limits=configs.SIZE, where=where)
    config.data.row_length, config.data.max_tokens, config.data.eval_batch = longest, longest - 1, 16
    config.task = {"name": "translate", "lowercase": False, **_decoding(folder, described)}
    return weights


def _decoding(folder, described):
    """The settings of ``config.task`` that decode as `generate` does by default."""
    path = pathlib.Path(folder, DECODING)
    found = described | (files.load_json(path) if path.exists() else {})
    for key, plain in PLAIN.items():
        if found.get(key) not in (None, plain):
            LOG.warning("%s: %s=%r is left out: lwt decodes with %r", path, key, found[key], plain)
    penalty = found.get("length_penalty")
    return {
        "beams": found.get("num_beams") or 1,
        "penalty": "power",
        "length_penalty": 1.0 if penalty is None else float(penalty),
        "force_end": found.get("forced_eos_token_id") is not None,
    }
