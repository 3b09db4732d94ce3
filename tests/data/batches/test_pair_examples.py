import numpy as np
import pytest

from lwt import errors
from lwt.data.batches import bucketed, packed, pair_examples


@pytest.fixture
def sides():
    random = np.random.default_rng(0)
    lengths = random.integers(1, 30, 200)

    def make(extra):
        return packed.Ragged.of([(1000 * extra + np.arange(1, n + 1 + extra)).tolist() for n in lengths])

    return make(0), make(1)


def test_every_pair_has_its_own_row_and_every_epoch_all_of_them(sides):
    examples = pair_examples.PairRows(*sides, min_tokens=1, max_tokens=31)
    batches = bucketed.Bucketed(examples, rows=8, lengths=bucketed.lengths(32))
    seen = []
    for _ in range(len(examples) // 8):
        batch = next(batches)
        assert set(np.unique(batch["source_segments"])) <= {0, 1}
        np.testing.assert_array_equal(batch["source_segments"], batch["source"] > 0)
        sizes = batch["source_segments"].sum(1)
        np.testing.assert_array_equal(batch["target_segments"].sum(1), sizes + 1)
        assert batch["source"].shape[1] in bucketed.lengths(32)
        np.testing.assert_array_equal(batch["source_positions"].max(1) + 1, sizes)
        seen.extend(sizes - 1)
    assert sorted(seen) == sorted(sides[0].lengths)


def test_pairs_outside_the_limits_are_left_out_and_counted(sides):
    examples = pair_examples.PairRows(*sides, min_tokens=3, max_tokens=20)
    short, long = sides[0].lengths < 3, sides[1].lengths > 20
    assert examples.left_out == {"too short": short.sum(), "too long": long.sum()}
    assert len(examples) == (~short & ~long).sum()
    with pytest.raises(errors.DataError, match="data.min_tokens"):
        pair_examples.PairRows(*sides, min_tokens=90, max_tokens=99)


def test_other_pairs_are_another_stream(sides):
    few = pair_examples.PairRows(*sides, min_tokens=1, max_tokens=20)
    state = bucketed.Bucketed(few, rows=8, lengths=(32,)).state()
    many = bucketed.Bucketed(pair_examples.PairRows(*sides, min_tokens=1, max_tokens=31), rows=8, lengths=(32,))
    with pytest.raises(errors.DataError, match="other data"):
        many.restore(state)
