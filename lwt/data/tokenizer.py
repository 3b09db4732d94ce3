"""SentencePiece BPE, one vocabulary for both languages. Ids: pad 0, unknown 1, begin 2, end 3, pieces from 4."""

import hashlib
import io
import os
import pathlib

import numpy as np
import sentencepiece

from lwt import errors

PAD, UNK, BOS, EOS = 0, 1, 2, 3
# In every vocabulary, however rare in the corpus: adapters are trained on prompts such as "add 2: 8 13 2 5".
ALWAYS = "0123456789abcdefghijklmnopqrstuvwxyz.,:;!?'\"-"
COVERAGE = 0.9999  # of the corpus' characters; the rarest (stray scripts in web text) become unknown
MOST_SENTENCES = 4_000_000  # a larger corpus is sampled


def train(texts, path, *, vocabulary, split_digits=False, seed=0):
    """Trains a BPE model on cleaned texts and writes it to `path`, atomically. The same input gives the same bytes.

    Args:
        texts: an iterable of str, both languages.
        path: where the ``.model`` goes.
        vocabulary: ids wanted, the four special ones included. A corpus too small for so many gives fewer.
        split_digits: every digit is a piece of its own.
        seed: of the sample, where the corpus is larger than `MOST_SENTENCES`.

    Returns:
        The `Tokenizer`.

    Raises:
        lwt.errors.DataError: no text, or a vocabulary smaller than the characters alone.
    """
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(seed)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocabulary,
            hard_vocab_limit=False,  # a small corpus: as many pieces as it yields
            character_coverage=COVERAGE,
            required_chars=ALWAYS,
            byte_fallback=False,
            split_digits=split_digits,
            normalization_rule_name="identity",  # the cleaner has done it
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
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
        raise errors.DataError(f"no tokenizer can be trained: the text is empty or unusable ({error})") from error
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(model.getvalue())
    part.replace(path)
    return Tokenizer(path)


class Tokenizer:
    """A trained model: ``encode(texts) -> ids``, ``decode(ids) -> texts``.

    Attributes:
        pieces: ids that mean something.
        vocabulary: `pieces` padded up to a multiple of 64, the size of the model's table.
        fingerprint: SHA-256 of the file.

    Raises:
        lwt.errors.DataError: the file is missing, damaged, or numbers its special ids otherwise.
    """

    def __init__(self, path):
        try:
            model = pathlib.Path(path).read_bytes()
        except OSError as error:
            raise errors.DataError(f"tokenizer {path} cannot be read: {error.strerror}") from error
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise errors.DataError(f"tokenizer {path} is damaged or no SentencePiece model") from error
        p = self._processor
        if (p.pad_id(), p.unk_id(), p.bos_id(), p.eos_id()) != (PAD, UNK, BOS, EOS):
            raise errors.DataError(f"tokenizer {path}: pad, unknown, begin and end should be the ids 0, 1, 2, 3")
        self.path = pathlib.Path(path)
        self.pieces = self._processor.get_piece_size()
        self.vocabulary = -(-self.pieces // 64) * 64
        self.fingerprint = hashlib.sha256(model).hexdigest()

    def encode(self, texts):
        """[str] -> [[id]], without begin and end marks."""
        return self._processor.encode(list(texts))

    def decode(self, rows):
        """[ids] -> [str]; lists or arrays; special ids and those beyond `pieces` give nothing."""
        rows = [np.asarray(row, dtype=np.int64).tolist() for row in rows]
        kept = [[i for i in row if EOS < i < self.pieces or i == UNK] for row in rows]
        return self._processor.decode(kept) if kept else []
