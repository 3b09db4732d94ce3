"""Pairs of texts with a number for how alike they are, each text in a row of its own."""

import numpy as np

from lwt.data.batches import labelled_examples, text_rows

SECOND = "second_"  # before the names of the arrays of the second text


class ComparedExamples(labelled_examples.LabelledExamples):
    """Rows of both texts of each record, padded to the length of the longer one; `labels` are numbers."""

    def draw(self, records, rng):
        """See `examples.Examples`; nothing is random."""
        del rng
        special = self.frame.count(1)
        sizes = [np.minimum(side.lengths[records], self.max_length - special) for side in self.sides]
        return {"record": records, "size": np.stack(sizes, axis=1), "length": np.maximum(*sizes) + special}

    def too_long(self, length):
        longest = np.maximum(*(side.lengths for side in self.sides)) + self.frame.count(1)
        return int((longest > min(length, self.max_length)).sum())

    def batch(self, drawn, length, uniform):
        """The arrays of `labelled_examples.LabelledExamples` for the first texts, and the rows of the second ones:
        ``second_ids`` and ``second_segments``, [n length] int32."""
        del uniform
        records, batch = drawn["record"], {}
        for i, (side, before) in enumerate(zip(self.sides, ("", SECOND), strict=True)):
            texts = self._texts(side, records, size=drawn["size"][:, i])
            ids, segments = text_rows.assemble([texts], length, frame=self.frame)
            batch |= {f"{before}ids": ids, f"{before}segments": segments}
        batch["example"] = records.astype(np.int32)
        return batch | ({} if self.labels is None else {"label": self.labels[records]})
