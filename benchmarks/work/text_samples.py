"""The work of pre-training: the same batches of masked text for every variant, 32 rows of 256 tokens.

`lwt.data` cleans and tokenizes real text, joins lines to segments of up to 125 tokens, two per row, and masks them by
the paper's rule. Tokenizer and batches are made once for each vocabulary and kept in the cache folder. Imports neither
PyTorch nor JAX. As a program, which `run.py` runs first, it fills the cache.
"""

import itertools
import os
import pathlib

import numpy as np

from benchmarks import parsing
from configs import embbert_pretrain
from lwt.data import corpus, sources, text, tokenizer
from lwt.data.batches import bucketed, masked_examples
from lwt.machine import command_line

DATA = "folder:english_novels_lm"
MODELS = ("embbert", "bert_2mb")
ROWS, LENGTH = 32, 256
JOIN = 125  # largest number of tokens in a segment; two nearly fill a row
LINES = 100_000  # number of lines, from the start of the text: enough for a tokenizer and some thousand rows


def batches(model, data, cache, *, count):
    """`count` training batches (see `masked_examples.MaskedExamples.batch`): dicts of numpy arrays.

    Args:
        model: a name of `MODELS`, which gives the vocabulary.
        data: running text, ``KIND:NAME``.
        cache: the cache folder.
    """
    section = embbert_pretrain.get_config(f"model={model}").data
    kept = path(section, data, cache, count=count)
    if not kept.is_file():
        stream = bucketed.BucketedBatches(_examples(section, data, kept.parent), rows=ROWS, lengths=(LENGTH,))
        made = list(itertools.islice(stream, count))
        part = kept.with_suffix(f".{os.getpid()}.npz")
        np.savez(part, **{name: np.stack([batch[name] for batch in made]) for name in made[0]})
        part.replace(kept)
    arrays = dict(np.load(kept))
    return [{name: array[i] for name, array in arrays.items()} for i in range(count)]


def path(section, data, cache, *, count):
    """The file of the batches, beside their tokenizer; `section` is the config's data section."""
    key = sources.digest(data, LINES, section.tokenizer.vocabulary, section.masking, ROWS, LENGTH, JOIN)[:12]
    return pathlib.Path(cache) / f"masked-{key}" / f"batches-{count}.npz"


def _examples(section, data, folder):
    cleaner, source = text.Cleaner(**section.clean), sources.load(data, fields=("text",))[:LINES]
    model = folder / "tokenizer.model"
    if not model.is_file():
        lines = (cleaner.clean(line) for texts, _ in corpus.lines(source) for line in texts)
        vocabulary = section.tokenizer.vocabulary
        tokenizer.train(lines, model, vocabulary=vocabulary, specials=tokenizer.ENCODER, exact=True)
    tokens = tokenizer.Tokenizer(model, specials=tokenizer.ENCODER)
    return masked_examples.MaskedExamples(
        corpus.tokenize(source, tokens, cleaner=cleaner, folders=(folder,)),
        max_length=LENGTH,
        masking=masked_examples.Masking.of(section.masking),
        frame=tokens.frame,
        pieces=tokens.pieces,
        join=JOIN,
    )


def counts(batch):
    """What a step over this batch counts: rows, real tokens (special ones included), positions."""
    ids = batch["ids"]
    return {"examples": len(ids), "tokens": int((batch["segments"] > 0).sum()), "positions": ids.size}


def main():
    flags = parsing.work(__doc__, data=DATA)
    for model in MODELS:
        made = batches(model, flags.data, flags.cache, count=flags.batches)
        total = {name: sum(counts(batch)[name] for batch in made) for name in counts(made[0])}
        hidden = sum(batch["masked_weights"].sum() for batch in made)
        share = total["tokens"] / total["positions"]
        print(f"{model}: {share:.1%} of the positions are real, {hidden / total['examples']:.1f} of a row are masked")


if __name__ == "__main__":
    with command_line.guarded():
        main()
