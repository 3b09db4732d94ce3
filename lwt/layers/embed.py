"""Token embeddings, and the same table as the output layer."""

import flax.linen as nn

from lwt.layers import linear


class Embed(nn.Module):
    """A table `[v d]`: rows for token ids, and the table itself for tied output logits.

    Attributes:
        vocabulary: number of rows v.
        width: d. Initial standard deviation d^-0.5, so that tied logits start near unit variance.
    """

    vocabulary: int
    width: int

    def setup(self):
        start = nn.initializers.normal(self.width**-0.5)
        self.embedding = linear.weight(self, "embedding", start, (self.vocabulary, self.width))

    def __call__(self, ids):
        """Ids `[...]` -> rows `[... d]`."""
        return linear.take(self.embedding, ids)

    def table(self):
        """The table as an array `[v d]`."""
        return linear.dense(self.embedding)
