"""What a query may see, as an array."""

import jax.numpy as jnp
import numpy as np

from lwt.attention.parts import masks


def test_without_parts_every_key_is_seen():
    assert masks.Mask().real(3).tolist() == [[True] * 3]
    assert masks.Mask().array(2, 3).shape == (1, 1, 1, 3) and masks.Mask().array(2, 3).all()


def test_padding_hides_keys():
    mask = masks.Mask(jnp.array([[1, 1, 0], [1, 0, 0]]))
    assert mask.real(3).tolist() == [[True, True, False], [True, False, False]]
    assert mask.array(5, 3).tolist() == [[[[True, True, False]]], [[[True, False, False]]]]


def test_texts_of_a_row_are_apart_and_their_order_counts():
    segments = jnp.array([[1, 1, 2, 2, 0]])
    seen = np.asarray(masks.Mask(segments, segments, causal=True).array(5, 5))[0, 0]
    assert seen.astype(int).tolist() == [
        [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 0],
    ]  # fmt: skip


def test_a_block_of_queries_sees_its_rows_of_the_whole():
    segments = jnp.array([[1, 1, 1, 2, 2, 2]])
    mask = masks.Mask(segments, segments, causal=True)
    whole, part = mask.array(6, 6), mask.array(3, 6, start=2)
    np.testing.assert_array_equal(part, whole[:, :, 2:5])
