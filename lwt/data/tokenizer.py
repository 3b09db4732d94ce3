"""SentencePiece BPE, in two numberings of the special ids.

Sequence to sequence, one vocabulary for both languages: pad 0, unknown 1, begin 2, end 3, pieces from 4. Text encoders:
[PAD] 0, [UNK] 1, [CLS] 2, [MASK] 3, [SEP] 4, pieces from 5.
"""

import io
import pathlib

import numpy as np
import sentencepiece

from lwt import errors, files
from lwt.data import frame

FILE = "tokenizer.model"  # of a workdir
PAD, UNK, BOS, EOS = 0, 1, 2, 3
CLS, MASK, SEP = 2, 3, 4
SEQ2SEQ = ("<pad>", "<unk>", "<s>", "</s>")
ENCODER = ("[PAD]", "[UNK]", "[CLS]", "[MASK]", "[SEP]")
FRAME = frame.Frame((CLS,), (SEP,), (SEP,), pad=PAD, mask=MASK, specials=tuple(range(len(ENCODER))))
ENCODER_OPTIONS = {
    **{"pad_piece": "[PAD]", "unk_piece": "[UNK]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "eos_id": SEP},
    "control_symbols": ["[MASK]"],  # takes the number that is free, 3
}
MOST_BYTES = 1 << 16  # of a text for SentencePiece, which leaves out longer ones (by default, those beyond 4192)
# Characters of every vocabulary, however rare in the corpus: adapters train on prompts such as "add 2: 8 13 2 5".
ALWAYS = "0123456789abcdefghijklmnopqrstuvwxyz.,:;!?'\"-"
COVERAGE = 0.9999  # share of the corpus' characters; the rarest (stray scripts in web text) become unknown
MOST_SENTENCES = 4_000_000  # a larger corpus is sampled


def train(texts, path, *, vocabulary, specials=SEQ2SEQ, exact=False, split_digits=False, seed=0):
    """Trains a BPE model on cleaned texts, writes it to `path`, and returns the `Tokenizer`.

    The same input gives the same bytes.

    Args:
        texts: an iterable of str, of both languages if there are two.
        path: the ``.model`` file to write.
        vocabulary: the number of ids, including the special ones.
        specials: `SEQ2SEQ` or `ENCODER`.
        exact: fail if the corpus is too small for so many ids; without it, there are fewer.
        split_digits: make every digit a piece of its own.
        seed: of the sample from a corpus larger than `MOST_SENTENCES`.

    Raises:
        lwt.errors.DataError: there is no text, or the vocabulary is too small or (with `exact`) too large for it.
    """
    model = io.BytesIO()
    encoder = {} if specials == SEQ2SEQ else ENCODER_OPTIONS
    sentencepiece.set_random_generator_seed(seed)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_short(texts),
            max_sentence_length=MOST_BYTES,
            model_writer=model,
            model_type="bpe",
            vocab_size=vocabulary,
            hard_vocab_limit=exact,  # without it, a small corpus gives as many pieces as it yields
            character_coverage=COVERAGE,
            required_chars=ALWAYS,
            byte_fallback=False,
            split_digits=split_digits,
            normalization_rule_name="identity",  # the cleaner has normalised the text
            **{"pad_id": PAD, "unk_id": UNK, "bos_id": BOS, "eos_id": EOS} | encoder,
            num_threads=2,
            input_sentence_size=MOST_SENTENCES,
            shuffle_input_sentence=True,
            minloglevel=2,
        )
    except RuntimeError as error:
        if "required_chars" in str(error):
            raise errors.DataError(
                f"data.tokenizer.vocabulary {vocabulary} is smaller than the characters of the text ({error}); raise it"
            ) from error
        if "too high" in str(error):
            most = str(error).rpartition("<=")[2].strip(" .\n")
            raise errors.DataError(
                f"data.tokenizer.vocabulary {vocabulary} is more than the text yields; it must be at most {most}"
            ) from error
        raise errors.DataError(f"no tokenizer can be trained: the text is empty or unusable ({error})") from error
    files.write_bytes(path, model.getvalue(), checked=True)
    return Tokenizer(path, specials=specials)


def _short(texts):
    """The `texts`, in pieces of at most `MOST_BYTES` in UTF-8."""
    size = MOST_BYTES // 4  # bytes of a character
    for text in texts:
        yield from (text[i : i + size] for i in range(0, len(text), size))


def unknown_share(ids, own):
    """The share of unknown ids among all `ids`, an array; 0 if the tokenizer `own` has no such id."""
    return np.count_nonzero(ids == own.unknown) / max(1, len(ids)) if own.unknown is not None else 0.0


class Tokenizer:
    """A trained model: ``encode(texts) -> ids``, ``decode(ids) -> texts``.

    Attributes:
        pieces: the number of ids.
        first: the first id that is not special.
        vocabulary: rows of the model's table: `pieces`, for `SEQ2SEQ` padded to a multiple of 64.
        dtype: the smallest integer type that holds all ids, uint16 or int32.
        frame: the `frame.Frame` of a row; None for `SEQ2SEQ`.
        fingerprint: SHA-256 of the file.
        unknown: the id of what no piece stands for, or None.

    Raises:
        lwt.errors.DataError: the file is missing or damaged, or its special ids have other numbers.
    """

    cleans = False  # whether it normalises texts itself, so that no `text.Cleaner` may
    unknown = UNK

    def __init__(self, path, *, specials=SEQ2SEQ):
        try:
            model = files.read(path)
        except OSError as error:
            begun = "; a run has it once its training has begun" if isinstance(error, FileNotFoundError) else ""
            raise errors.DataError(f"tokenizer {path} cannot be read: {error.strerror}{begun}") from error
        except ValueError as error:
            raise errors.DataError(f"tokenizer {path} is damaged: {error}") from error
        try:
            self._processor = p = sentencepiece.SentencePieceProcessor(model_proto=model)
            pieces = tuple(map(p.id_to_piece, range(p.get_piece_size())))
            p.decode([p.unk_id()])
        except (RuntimeError, ValueError, IndexError) as error:  # the pieces of a damaged model may be any bytes
            raise errors.DataError(f"tokenizer {path} is damaged or not a SentencePiece model") from error
        named = (p.pad_id(), p.unk_id(), p.bos_id(), p.eos_id())
        if specials == SEQ2SEQ and named != (PAD, UNK, BOS, EOS):
            raise errors.DataError(f"tokenizer {path}: pad, unknown, begin and end must be the ids 0, 1, 2, 3")
        found = pieces[: len(specials)]
        if specials == ENCODER and found != ENCODER:
            raise errors.DataError(f"tokenizer {path}: ids 0 to 4 must be {', '.join(ENCODER)}; they are {found}")
        self.path, self._specials = pathlib.Path(path), specials
        self.pieces, self.first = p.get_piece_size(), len(specials)
        self.dtype = np.dtype(np.uint16 if self.pieces <= 1 << 16 else np.int32)
        self.vocabulary = self.pieces if specials == ENCODER else -(-self.pieces // 64) * 64
        self.frame = FRAME if specials == ENCODER else None
        self.fingerprint = files.sha256(model)

    @property
    def sides(self):
        """What encodes the sources and what encodes the targets of pairs."""
        return self, self

    def encode(self, texts):
        """[str] -> [[id]], without special ids."""
        return self._processor.encode(list(texts))

    def decode(self, rows):
        """[ids] -> [str], of lists or arrays; special ids, but the unknown one, and ids beyond `pieces` are dropped."""
        rows = [np.asarray(row, dtype=np.int64).tolist() for row in rows]
        rows = [[i for i in row if self.first <= i < self.pieces or i == UNK] for row in rows]
        return self._processor.decode(rows) if rows else []

    def piece(self, number):
        """The text of one id, as a table shows it."""
        return self._specials[number] if number < self.first else self.decode([[number]])[0]
