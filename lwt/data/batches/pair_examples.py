"""Sentence pairs one a row, for attentions that mix what is in a row: what `rows.Bucketed` makes batches of."""

import numpy as np

from lwt.data import sources
from lwt.data.batches import packed


class PairRows:
    """Pairs as the examples of `rows.Bucketed`.

    Args:
        source, target: `packed.Ragged` of the same size.
        min_tokens, max_tokens: pairs with a side outside (end mark not counted) are left out, and counted.

    Attributes:
        left_out: how many: ``{"too short": n, "too long": n}``.

    Raises:
        lwt.errors.DataError: no pair is left.
    """

    def __init__(self, source, target, *, min_tokens, max_tokens):
        self._source, self._target = source, target
        self._kept, self.left_out = packed.fitting(source, target, min_tokens, max_tokens)
        tokens = [int(side.lengths[self._kept].sum()) for side in (source, target)]
        self.fingerprint = sources.digest("pairs", len(self._kept), *tokens)

    def __len__(self):
        return len(self._kept)

    def draw(self, records, rng):
        """The pairs of some records, with the length of the longer side, end mark included; nothing is drawn."""
        del rng
        pairs = self._kept[records]
        longer = np.maximum(self._source.lengths[pairs], self._target.lengths[pairs])
        return {"pair": pairs, "length": longer + 1}

    def batch(self, drawn, length, uniform):
        """The arrays `[n length]` of `pipeline`'s batches."""
        del uniform
        pairs = drawn["pair"]
        return packed.make_batch(self._source, self._target, pairs, np.arange(len(pairs)), len(pairs), length)
