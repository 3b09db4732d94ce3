"""Makes a model's input from texts: cleans and tokenizes them, and pads rows of similar length."""

import logging

import numpy as np

from lwt.data import cleaner

LOG = logging.getLogger(__name__)
MOST = 32  # rows of a batch


class Rows:
    """Makes rows as the `settings` of a folder say."""

    def __init__(self, settings, folder):
        self._settings, self._row, self._pairs = settings, settings["row"], settings["texts"] == 2
        self._clean = cleaner.Cleaner(**settings["clean"]).clean if settings["clean"] else str  # the text as it is
        self._encode = _tokenizer(str(folder / settings["tokenizer"]["file"]))

    def batches(self, texts):
        """Yields ``(numbers, batch)``: which of the texts a batch holds, and its arrays by name."""
        rows = self._rows(texts)
        order = sorted(range(len(rows)), key=lambda number: len(rows[number][0]))
        size = self._settings["rows"] or MOST
        for numbers in (order[start : start + size] for start in range(0, len(order), size)):
            length = self._settings["length"] or len(rows[numbers[-1]][0])
            ids = np.full((len(numbers), length), self._row["pad"], np.int32)
            segments = np.zeros_like(ids)
            for place, number in enumerate(numbers):
                found = rows[number]
                ids[place, : len(found[0])], segments[place, : len(found[1])] = found
            yield numbers, {"ids": ids, "segments": segments}

    def _rows(self, texts):
        """``(ids, segments)`` of each text, special ids included; segments tell the first text from the second.

        Rows that are too long are cut: the longer text of a pair first.
        """
        if isinstance(texts, str):
            raise ValueError("give a list of texts")
        for number, text in enumerate(texts, 1):
            if self._pairs and "\t" not in text:
                raise ValueError(f"text {number} must be two texts with a tab between")
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise ValueError(f"text {number} holds half a surrogate pair") from error
        sides = [text.split("\t", 1) if self._pairs else [text] for text in texts]
        ids, rows = iter(self._encode([self._clean(text) for side in sides for text in side])), []
        begin, between, end = self._row["begin"], self._row["between"] if self._pairs else [], self._row["end"]
        one, two = self._row["segments"]
        room = self._row["longest"] - len(begin) - len(between) - len(end)
        cut = 0
        for _ in sides:
            first, second = next(ids), next(ids) if self._pairs else []
            if len(first) + len(second) > room:
                cut += 1
                first = self._cut(first, max(room - len(second), (room + 1) // 2))
                second = self._cut(second, room - len(first))
            first = begin + first + (between if self._pairs else end)
            second = second + end if self._pairs else []
            rows.append((first + second, [one] * len(first) + [two] * len(second)))
        if cut:
            LOG.warning("texts longer than the %d tokens of a row, which were cut: %d", self._row["longest"], cut)
        return rows

    def _cut(self, ids, size):
        """At most `size` ids: the first ones, or of "middle" the first and the last ones."""
        first = size if self._row["cut"] == "end" else (size + 1) // 2
        return ids if len(ids) <= size else ids[:first] + ids[len(ids) - size + first :]


def _tokenizer(path):
    """The function ``[text] -> [[id]]`` of a tokenizer's file, without special ids."""
    if path.endswith(".json"):
        import tokenizers

        found = tokenizers.Tokenizer.from_file(path)
        found.no_truncation()
        found.no_padding()
        return lambda texts: [row.ids for row in found.encode_batch(texts, add_special_tokens=False)]
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_file=path).encode
