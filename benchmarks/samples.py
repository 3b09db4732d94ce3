"""The work that every variant is given: the same sentence pairs, in the same batches of 128, in the same order.

Real pairs come from a folder of ``train.jsonl[.gz]`` under ``LWT_DATA``, lower-cased and cut into pieces by one BPE
of 50,000 pieces that is trained once and kept, with the token ids, in the cache folder. Only numpy and sentencepiece
are imported: PyTorch and JAX workers both start from here.
"""

import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
import unicodedata

import numpy as np
import sentencepiece

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
PIECES = 50_000
VOCABULARY = 50_048  # PIECES, padded up to a multiple of 64
MAX_LENGTH = 64  # tokens of a side, end mark included
BATCH = 128


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
    def tokens(self):
        """Real target tokens, end marks included: what a step is paid for."""
        return sum(len(target) for target in self.targets)

    @property
    def positions(self):
        """Target positions when the batch is padded to its longest target."""
        return len(self.targets) * max(len(target) for target in self.targets)

    def inputs(self):
        """What the decoder reads: targets moved one to the right."""
        return [np.concatenate(([BEGIN], target[:-1])).astype(np.int32) for target in self.targets]

    def by_length(self):
        """The same pairs with the longest first: by the target, then by the source."""
        order = sorted(range(len(self.targets)), key=lambda i: (-len(self.targets[i]), -len(self.sources[i])))
        return Batch([self.sources[i] for i in order], [self.targets[i] for i in order])


def pad(rows, length=None):
    """Arrays of ids as one ``[len(rows), length]`` int64 array, filled with PAD to the longest (or to `length`)."""
    padded = np.full((len(rows), length or max(map(len, rows))), PAD, np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


def records(data):
    """All ``(de, en)`` of ``folder:NAME``, cleaned: NFKC, lower case, single spaces."""
    kind, _, name = data.partition(":")
    folder = pathlib.Path(os.environ.get("LWT_DATA", ".")) / name
    files = [path for path in (folder / "train.jsonl.gz", folder / "train.jsonl") if path.is_file()]
    if kind != "folder" or not files:
        raise SystemExit(f"--data={data}: no train.jsonl[.gz] in {folder}; give folder:NAME, and LWT_DATA in the environment")
    with (gzip.open if files[0].suffix == ".gz" else open)(files[0], "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            yield tuple(" ".join(unicodedata.normalize("NFKC", record[key]).lower().split()) for key in ("de", "en"))


def tokenizer(data, cache):
    """The BPE of ``data``, trained when the cache does not hold it yet (a minute)."""
    path = pathlib.Path(cache) / f"{hashlib.sha256(data.encode()).hexdigest()[:12]}-bpe{PIECES}.model"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        with open(partial, "wb") as model:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(side for pair in records(data) for side in pair),
                model_writer=model,
                vocab_size=PIECES,
                model_type="bpe",
                normalization_rule_name="identity",
                pad_id=PAD,
                unk_id=UNKNOWN,
                bos_id=BEGIN,
                eos_id=END,
                minloglevel=1,
            )
        partial.rename(path)
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def encode(pieces, pairs):
    """Text pairs as ``(source, target)`` id arrays that end with END."""
    return [
        tuple(np.array([*ids, END], np.int32) for ids in sides)
        for sides in zip(*(pieces.encode(list(texts)) for texts in zip(*pairs, strict=True)), strict=True)
    ]


def translation(data, cache, *, count, seed=0):
    """`count` pairs of 1 to 64 tokens a side, drawn once and for all from the whole of `data`, in random order."""
    pieces = tokenizer(data, cache)
    pool = list(records(data))
    order = np.random.default_rng(seed).permutation(len(pool))
    drawn = []
    for start in range(0, len(order), count):
        encoded = encode(pieces, [pool[i] for i in order[start : start + count]])
        drawn += [pair for pair in encoded if all(1 < len(side) <= MAX_LENGTH for side in pair)]
        if len(drawn) >= count:
            return drawn[:count]
    raise SystemExit(f"--data={data} has only {len(drawn)} usable pairs; {count} are needed: fewer --batches")


def arithmetic(data, cache, *, count, seed=0):
    """`count` pairs such as ``"add 2: 8 13 2 5" -> "10 15 4 7"``, in the pieces of the translation tokenizer."""
    random = np.random.default_rng(seed)
    tasks = {
        "sort up": sorted,
        "sort down": lambda numbers: sorted(numbers, reverse=True),
        "add 1": lambda numbers: [n + 1 for n in numbers],
        "add 2": lambda numbers: [n + 2 for n in numbers],
    }
    pairs = []
    for _ in range(count):
        name = str(random.choice(list(tasks)))
        numbers = random.integers(1, 101, 4).tolist()
        pairs.append((f"{name}: {' '.join(map(str, numbers))}", " ".join(map(str, tasks[name](numbers)))))
    return encode(tokenizer(data, cache), pairs)


def batches(pairs, *, size=BATCH):
    """Pairs, in their order, as `Batch`es of `size`."""
    groups = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    return [Batch(*(list(side) for side in zip(*group, strict=True))) for group in groups if len(group) == size]
