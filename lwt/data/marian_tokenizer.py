"""The tokenizer of a Marian model: a SentencePiece model for each language, and the numbers of their pieces in a table.

A folder of transformers has ``source.spm``, ``target.spm``, ``vocab.json`` and, if the languages do not share their
numbers, ``target_vocab.json``. A run keeps all of them in one file. Ids are numbered as `tokenizer.SEQ2SEQ` demands:
0 is never used, 1 is their unknown, 2 their pad (with which decoding starts), 3 their end, and the others follow in
their order. `order` says which of their ids each is.
"""

import base64
import binascii
import json
import pathlib

import numpy as np
import sentencepiece

from lwt import errors, files
from lwt.data import tokenizer

FILE = "tokenizer.marian"  # of a workdir; JSON, with the SentencePiece models in base64
MODELS = {"source": "source.spm", "target": "target.spm"}  # their files
TABLES = {"vocabulary": "vocab.json", "target_vocabulary": "target_vocab.json"}
SETTINGS, SEPARATE = "tokenizer_config.json", "separate_vocabs"
UNKNOWN, PAD, END = "<unk>", "<pad>", "</s>"
NOWHERE = -1  # in `order`: no id of theirs


class Side:
    """One language: ``encode(texts) -> ids``, ``decode(ids) -> texts``; the attributes are those of `Tokenizer`.

    Attributes:
        order: [pieces] their id of each of ours, or `NOWHERE`.
    """

    first = len(tokenizer.SEQ2SEQ)

    def __init__(self, model, table, *, where):
        missing = [piece for piece in (UNKNOWN, PAD, END) if piece not in table]
        if missing:
            raise errors.DataError(f"{where} has no {missing[0]}")
        if sorted(table.values()) != list(range(len(table))):
            raise errors.DataError(f"{where}: the ids of its {len(table)} pieces must be 0 to {len(table) - 1}")
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise errors.DataError(f"{where}: the SentencePiece model is damaged") from error
        named = [NOWHERE, table[UNKNOWN], table[PAD], table[END]]
        others = [i for i in range(len(table)) if i not in named]
        self.order = np.array(named + others)
        ours = {theirs: i for i, theirs in enumerate(self.order.tolist())}
        self._ids = {piece: ours[theirs] for piece, theirs in table.items()}
        self._pieces = {i: piece for piece, i in self._ids.items()}
        self.pieces = self.vocabulary = len(self.order)

    def encode(self, texts):
        """[str] -> [[id]], without the end; a text may begin with the code of a language, such as ``>>fra<<``."""
        found = []
        for text in texts:
            end = text.find("<<") + 2 if text.startswith(">>") else 1
            code, text = ([text[:end]], text[end:]) if end > 1 else ([], text)
            pieces = code + self._processor.encode(text, out_type=str)
            found.append([self._ids.get(piece, tokenizer.UNK) for piece in pieces])
        return found

    def decode(self, rows):
        """[ids] -> [str], of lists or arrays, without special ids."""
        texts = []
        for row in rows:
            pieces = [self._pieces[i] for i in np.asarray(row).tolist() if self.first <= i < self.pieces]
            texts.append(self._processor.decode_pieces(pieces).replace("\u2581", " ").strip())
        return texts

    def piece(self, number):
        """The text of one id, as a table shows it."""
        return self._pieces.get(number, tokenizer.SEQ2SEQ[0])


class Tokenizer:
    """A pair of languages; see `lwt.data.tokenizer.Tokenizer`. It encodes the source and decodes the target.

    Attributes:
        sides: the `Side` of the source and that of the target.
        pieces, vocabulary: numbers of the target.
        source_vocabulary: ids of the source; 0: the languages share their numbers.

    Raises:
        lwt.errors.DataError: the file is missing or damaged.
    """

    cleans, frame, first, unknown = True, None, Side.first, tokenizer.UNK

    def __init__(self, path):
        try:
            content = files.read(path)
            parts = json.loads(content)
            models = [base64.b64decode(parts[key], validate=True) for key in MODELS]
            tables = [parts["vocabulary"], parts["target_vocabulary"] or parts["vocabulary"]]
            sizes = {len(table) for table in tables if all(isinstance(i, int) for i in table.values())}
        except OSError as error:
            raise errors.DataError(f"tokenizer {path} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
            raise errors.DataError(f"tokenizer {path} is damaged: {error!r:.200}") from error
        if not sizes:
            raise errors.DataError(f"tokenizer {path} is damaged: its ids are not numbers")
        self.path = pathlib.Path(path)
        self.sides = tuple(Side(model, table, where=path) for model, table in zip(models, tables, strict=True))
        self.source_vocabulary = self.sides[0].vocabulary if parts["target_vocabulary"] else 0
        self.pieces = self.vocabulary = self.sides[1].pieces
        largest = max(side.pieces for side in self.sides)
        self.dtype = np.dtype(np.uint16 if largest <= 1 << 16 else np.int32)
        self.fingerprint = files.sha256(content)

    def encode(self, texts):
        """[str] -> [[id]] of source texts; see `Side.encode`."""
        return self.sides[0].encode(texts)

    def decode(self, rows):
        """[ids] -> [str] of target texts; see `Side.decode`."""
        return self.sides[1].decode(rows)

    def piece(self, number):
        """The text of one id of the target, as a table shows it."""
        return self.sides[1].piece(number)


def import_folder(folder, path):
    """Writes the tokenizer of a folder of transformers to `path`, and returns the `Tokenizer`.

    Raises:
        lwt.errors.DataError: a file is missing or damaged.
    """
    folder = pathlib.Path(folder)
    settings = _table(folder / SETTINGS) if (folder / SETTINGS).exists() else {}
    parts = {key: base64.b64encode(_bytes(folder / name)).decode() for key, name in MODELS.items()}
    parts["vocabulary"] = _table(folder / TABLES["vocabulary"])
    parts["target_vocabulary"] = _table(folder / TABLES["target_vocabulary"]) if settings.get(SEPARATE) else None
    files.write_bytes(path, json.dumps(parts).encode(), checked=True)
    return Tokenizer(path)


def export_folder(given, folder):
    """Writes the files of a `Tokenizer` into a folder, as transformers' MarianTokenizer reads them."""
    parts, folder = json.loads(files.read(given.path)), pathlib.Path(folder)
    for key, name in MODELS.items():
        files.write_bytes(folder / name, base64.b64decode(parts[key]))
    for key, name in TABLES.items():
        if parts[key]:
            files.write_json(folder / name, parts[key])
    settings = {"tokenizer_class": "MarianTokenizer", SEPARATE: bool(parts["target_vocabulary"])}
    files.write_json(folder / SETTINGS, settings | {"model_max_length": 512})


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError as error:
        raise errors.DataError(f"{path} cannot be read: {error.strerror}") from error


def _table(path):
    try:
        found = json.loads(_bytes(path))
    except ValueError as error:
        raise errors.DataError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise errors.DataError(f"{path} is damaged: it must be an object")
    return found
