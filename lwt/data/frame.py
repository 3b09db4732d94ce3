"""The special tokens around the texts of a row: ``begin text end``, or ``begin first between second end``."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Frame:
    """The frame of a tokenizer's rows.

    Attributes:
        begin, between, end: ids before, between and after the texts; the last two belong to the text before them.
        segments: the segments of the first and of the second text; 0 is padding. They are equal where the tokenizer
            does not tell the two apart.
        pad: the id of padding.
        mask: the id of the mask token, or None.
        specials: the ids that are never masked and never drawn.
    """

    begin: tuple
    between: tuple
    end: tuple
    segments: tuple = (1, 2)
    pad: int = 0
    mask: int | None = None
    specials: tuple = ()

    def count(self, texts):
        """The special tokens of a row of `texts` texts, 1 or 2."""
        return len(self.begin) + len(self.end) + (len(self.between) if texts == 2 else 0)
