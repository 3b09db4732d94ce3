"""The work of every variant: the same sentence pairs, in the same batches of 128, in the same order.

`lwt.data` cleans and tokenizes real pairs with one BPE of 50,000 pieces, which is trained once; it and the token ids
are kept in the cache folder. Imports neither PyTorch nor JAX, since workers of both use it. As a program, which
`run.py` runs first, it fills the cache, so that no worker's memory includes the training.
"""

import dataclasses
import os
import pathlib

import numpy as np

from benchmarks import parsing
from lwt.data import sources, text, tokenizer
from lwt.data.batches import packed, tokenized
from lwt.machine import command_line

PAD, BEGIN, END = tokenizer.PAD, tokenizer.BOS, tokenizer.EOS
DATA = "folder:mt_de_en_train"
PIECES = 50_000
VOCABULARY = 50_048  # PIECES, padded up to a multiple of 64
MAX_LENGTH = 64  # tokens of a side, end mark included; also the length of a packed row
BATCH = 128
WIDTH, HIDDEN, LAYERS = 128, 512, 4


@dataclasses.dataclass(frozen=True)
class Batch:
    """Some sentence pairs as token ids.

    Attributes:
        sources: one int32 array ``[x..., END]`` a pair.
        targets: one int32 array ``[y..., END]`` a pair; the decoder reads ``[BEGIN, y...]``.
    """

    sources: list
    targets: list

    @property
    def counts(self):
        """What a step over this batch counts, in any layout.

        Tokens are the target's real ones, end marks included; positions are those of the target padded to its longest.
        """
        tokens = sum(len(target) for target in self.targets)
        positions = len(self.targets) * max(len(target) for target in self.targets)
        return {"examples": len(self.targets), "tokens": tokens, "positions": positions}

    def inputs(self):
        """The decoder's inputs: targets shifted right by one."""
        return [np.concatenate(([BEGIN], target[:-1])).astype(np.int32) for target in self.targets]


def pad(rows):
    """Arrays of ids as one int32 array, padded to the longest."""
    padded = np.full((len(rows), max(map(len, rows))), PAD, np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


def pack(batch, *, rows=None, length=MAX_LENGTH):
    """Packs the pairs of a batch into few rows: lwt's training batch, seven int32 arrays ``[rows length]``.

    Args:
        rows: number of rows, the last ones empty, so that batches share a shape; None: as many as needed.

    Raises:
        ValueError: the pairs need more than `rows`.
    """
    sizes = [np.array([len(ids) for ids in side]) for side in (batch.sources, batch.targets)]
    place = packed.pack(*sizes, lengths=(length, length))
    needed = int(place.max()) + 1
    if rows is not None and needed > rows:
        raise ValueError(f"the batch needs {needed} rows of {length}, more than {rows}")
    names = ["source", "inputs", "targets"] + [
        f"{s}_{w}" for s in ("source", "target") for w in ("segments", "positions")
    ]
    made = {name: np.zeros((rows or needed, length), np.int32) for name in names}
    filled = np.zeros((2, rows or needed), np.int64)
    segment = np.zeros(rows or needed, np.int32)
    for row, source, inputs, target in zip(place, batch.sources, batch.inputs(), batch.targets, strict=True):
        segment[row] += 1
        for i, side, arrays in (
            (0, "source", {"source": source}),
            (1, "target", {"inputs": inputs, "targets": target}),
        ):
            size = len(source) if i == 0 else len(target)
            cut = slice(filled[i, row], filled[i, row] + size)
            filled[i, row] += size
            for name, ids in arrays.items():
                made[name][row, cut] = ids
            made[f"{side}_segments"][row, cut] = segment[row]
            made[f"{side}_positions"][row, cut] = np.arange(size)
    return made


def pack_all(batches):
    """Packs every batch into the same number of rows, that of the fullest one."""
    rows = max(len(pack(batch)["source"]) for batch in batches)
    return [pack(batch, rows=rows) for batch in batches]


def packed_work(batches):
    """``(lwt's training batch, counts)`` of every batch."""
    return [(made, batch.counts) for made, batch in zip(pack_all(batches), batches, strict=True)]


def batches(pairs, *, size=BATCH):
    """Pairs, in their order, as `Batch`es of `size`."""
    groups = [pairs[start : start + size] for start in range(0, len(pairs) - size + 1, size)]
    return [Batch(*(list(side) for side in zip(*group, strict=True))) for group in groups]


def _tokenizer(data, cache):
    """The BPE of `data`, trained if the cache lacks it, and its text cleaner."""
    path = pathlib.Path(cache) / f"bpe-{sources.digest(data, PIECES)[:12]}.model"
    cleaner = text.Cleaner()
    if not path.is_file():
        source = sources.load(data, fields=("de", "en"))
        sides = (cleaner.clean(source[i][field]) for i in range(len(source)) for field in ("de", "en"))
        tokenizer.train(sides, path, vocabulary=PIECES)
    return tokenizer.Tokenizer(path), cleaner


def _encode(tokens, texts):
    return [np.array([*ids, END], np.int32) for ids in tokens.encode(texts)]


def translation(data, cache, *, count):
    """`count` pairs of 1 to 64 tokens a side, drawn from all of `data` in a fixed random order."""
    kept = pathlib.Path(cache) / f"pairs-{sources.digest(data, PIECES, MAX_LENGTH, count)[:12]}.npz"
    if not kept.is_file():
        tokens, cleaner = _tokenizer(data, cache)
        source = sources.load(data, fields=("de", "en"))
        drawn = []
        for i in np.random.default_rng(0).permutation(len(source)):
            pair = _encode(tokens, [cleaner.clean(source[int(i)][field]) for field in ("de", "en")])
            if all(1 < len(side) <= MAX_LENGTH for side in pair):
                drawn.append(pair)
            if len(drawn) == count:
                break
        else:
            raise SystemExit(f"--data={data} has only {len(drawn)} usable pairs, {count} are needed: fewer --batches")
        rows = tokenized.RaggedArray.of([side for pair in drawn for side in pair])
        part = kept.with_suffix(f".{os.getpid()}.npz")
        np.savez(part, values=rows.values, offsets=rows.offsets)
        part.replace(kept)
    rows = tokenized.RaggedArray(**np.load(kept))
    return [(rows[i], rows[i + 1]) for i in range(0, len(rows), 2)]


def arithmetic(data, cache, *, count):
    """`count` pairs such as ``"add 2: 8 13 2 5" -> "10 15 4 7"``, in the pieces of the translation tokenizer."""
    source = sources.load("generated:arithmetic", split="train").subset(count)
    tokens, cleaner = _tokenizer(data, cache)
    records = [source[int(i)] for i in np.random.default_rng(0).permutation(len(source))]
    sides = (_encode(tokens, [cleaner.clean(record[field]) for record in records]) for field in ("source", "target"))
    return list(zip(*sides, strict=True))


def weights(seed=0):
    """Weights under lwt's names, for decoding: ``{"encoder/layer_0/mlp/fc1/kernel": array}``, float32.

    Random, with gains that keep answers from repeating one token. The last norm's bias points away from the end mark:
    no answer ends before its limit, and every program decodes equally many steps.
    """
    random = np.random.default_rng(seed)
    flat = {"embed/embedding": random.normal(0, WIDTH**-0.5, (VOCABULARY, WIDTH))}

    def dense(name, n_in, n_out, gain=1.0):
        limit = gain * (6 / (n_in + n_out)) ** 0.5
        flat[f"{name}/kernel"], flat[f"{name}/bias"] = random.uniform(-limit, limit, (n_in, n_out)), np.zeros(n_out)

    for side, attentions in (("encoder", ["self"]), ("decoder", ["self", "cross"])):
        for i in range(LAYERS):
            layer = f"{side}/layer_{i}"
            for kind in attentions:
                for name in ("query", "key", "value"):
                    dense(f"{layer}/{kind}_attention/{name}", WIDTH, WIDTH)
                dense(f"{layer}/{kind}_attention/out", WIDTH, WIDTH, gain=0.3)
            dense(f"{layer}/mlp/fc1", WIDTH, HIDDEN, gain=4.0)
            dense(f"{layer}/mlp/fc2", HIDDEN, WIDTH, gain=4.0)
            for name in [f"{kind}_attention_norm" for kind in attentions] + ["mlp_norm"]:
                flat[f"{layer}/{name}/scale"], flat[f"{layer}/{name}/bias"] = np.ones(WIDTH), np.zeros(WIDTH)
    away = random.normal(0, 1, WIDTH)
    flat[f"decoder/layer_{LAYERS - 1}/mlp_norm/bias"] = away * 0.5
    flat["embed/embedding"][END] = -away
    return {name: np.asarray(array, np.float32) for name, array in flat.items()}


def load_weights(path):
    """`weights()`, or those of a trained model from an ``.npz`` with lwt's flat names."""
    if not path:
        return weights()
    flat, wanted = dict(np.load(path)), weights()
    wrong = {name for name in {*wanted, *flat} if np.shape(flat.get(name)) != np.shape(wanted.get(name))}
    if wrong:
        raise SystemExit(f"--weights={path}: missing, unexpected, or of another shape: {sorted(wrong)[:6]}")
    return flat


def main():
    flags = parsing.work(__doc__, data=DATA)
    _tokenizer(flags.data, flags.cache)
    translation(flags.data, flags.cache, count=flags.batches * BATCH)


if __name__ == "__main__":
    with command_line.guarded():
        main()
