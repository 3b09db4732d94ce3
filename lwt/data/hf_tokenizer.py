"""Tokenizers that a ``tokenizer.json`` describes: WordPiece, byte-level BPE, Unigram, with the library `tokenizers`."""

import pathlib

import numpy as np
import tokenizers

from lwt import errors, files
from lwt.data import frame

FILE = "tokenizer.json"  # of a workdir
MASKS, PADS, UNKNOWN = ("[MASK]", "<mask>"), ("[PAD]", "<pad>"), ("[UNK]", "<unk>")
PROBE = "a"  # a text that every tokenizer of ours gives ids to


class Tokenizer:
    """The tokenizer of a ``tokenizer.json``, with the interface of `lwt.data.tokenizer.Tokenizer`.

    It normalises texts itself: `cleans` is True, and ``config.data.clean`` must be off.

    Attributes:
        pieces: the number of ids; vocabulary: the same.
        dtype: the smallest integer type that holds all ids, uint16 or int32.
        frame: the `frame.Frame` of a row, as the file's post-processor puts it around one and two texts.
        fingerprint: SHA-256 of the file.
        unknown: the id of what no piece stands for, or None.

    Raises:
        lwt.errors.DataError: the file is missing or damaged, or frames a row as lwt cannot.
    """

    cleans = True

    def __init__(self, path):
        try:
            content = files.read(path)
            self._tokenizer = tokenizers.Tokenizer.from_str(content.decode())
        except OSError as error:
            raise errors.DataError(f"tokenizer {path} cannot be read: {error.strerror}") from error
        except Exception as error:  # the library raises plain Exception
            raise errors.DataError(f"tokenizer {path} is damaged, or not a tokenizer.json: {error}") from error
        padding = self._tokenizer.padding or {}
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.path, self.fingerprint = pathlib.Path(path), files.sha256(content)
        self.pieces = self.vocabulary = 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
        self.dtype = np.dtype(np.uint16 if self.pieces <= 1 << 16 else np.int32)
        added = self._tokenizer.get_added_tokens_decoder()
        specials = tuple(sorted(number for number, token in added.items() if token.special))
        self.unknown = self._first_of(UNKNOWN, default=None)
        pad = padding.get("pad_id", self._first_of(PADS, default=0))
        self.frame = self._framed(pad=pad, mask=self._first_of(MASKS, default=None), specials=specials)

    def encode(self, texts):
        """[str] -> [[id]], without the frame."""
        return [found.ids for found in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, rows):
        """[ids] -> [str], of lists or arrays; special ids and ids beyond `pieces` are dropped."""
        rows = [np.asarray(row, dtype=np.int64) for row in rows]
        rows = [row[(row >= 0) & (row < self.pieces)].tolist() for row in rows]
        return self._tokenizer.decode_batch(rows, skip_special_tokens=True) if rows else []

    def settings(self, length):
        """What a ``tokenizer_config.json`` says of this tokenizer, for texts of at most `length` tokens; a dict."""
        frame, names = self.frame, {"pad_token": self.frame.pad, "mask_token": self.frame.mask}
        names |= {"cls_token": next(iter(frame.begin), None), "sep_token": next(iter(frame.end), None)}
        names["unk_token"] = self.unknown
        given = {key: self.piece(number) for key, number in names.items() if number is not None}
        return {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": length, **given}

    def piece(self, number):
        """The text of one id, as a table shows it."""
        return self._tokenizer.id_to_token(number) or ""

    def _first_of(self, names, *, default):
        numbers = map(self._tokenizer.token_to_id, names)
        return next((number for number in numbers if number is not None), default)

    def _framed(self, **more):
        """The `frame.Frame`, from rows of one and of two texts."""
        text = self._tokenizer.encode(PROBE, add_special_tokens=False).ids
        one, two = self._tokenizer.encode(PROBE), self._tokenizer.encode(PROBE, PROBE)
        size, at = len(text), next((i for i in range(len(one.ids)) if one.ids[i : i + len(text)] == text), None)
        if not text or at is None:
            raise errors.DataError(f"tokenizer {self.path} does not put special tokens around a text: {one.tokens}")
        begin, end = one.ids[:at], one.ids[at + size :]
        between = two.ids[at + size : len(two.ids) - size - len(end)]
        kinds = two.type_ids
        first, second = kinds[0], kinds[-1]
        wanted = [first] * (at + size + len(between)) + [second] * (size + len(end))
        if (
            two.ids != [*begin, *text, *between, *text, *end]
            or kinds != wanted
            or (first, second) not in ((0, 0), (0, 1))
        ):
            raise errors.DataError(
                f"tokenizer {self.path} makes the row {two.tokens} of types {kinds} of two texts; it must be begin, "
                "first, between, second, end, and of types 0 and 1, where what is between has the type of the first"
            )
        return frame.Frame(tuple(begin), tuple(between), tuple(end), segments=(1, second + 1), **more)
