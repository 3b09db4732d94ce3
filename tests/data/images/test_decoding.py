"""Decoding: what an image file becomes, and what is refused."""

import numpy as np
import pytest

from lwt.data.images import decoding


def test_an_image_becomes_what_a_model_takes(pictures):
    image = pictures.pixels(1)[0]
    np.testing.assert_array_equal(decoding.decode(pictures.encoded(image), "x"), image)
    grey = image[..., :1]
    np.testing.assert_array_equal(decoding.fit(decoding.decode(pictures.encoded(grey), "x")), grey)
    np.testing.assert_array_equal(decoding.fit(grey, channels=3), np.repeat(grey, 3, axis=2))
    brightness = decoding.fit(image, channels=1)[..., 0]
    np.testing.assert_allclose(brightness, image @ [0.299, 0.587, 0.114], atol=1)
    wide = np.zeros((8, 20, 3), np.uint8)
    wide[:, 4:16] = 200  # the middle square, and what its border is interpolated with
    assert (decoding.fit(wide, size=4) == 200).all() and decoding.fit(wide, size=4).shape == (4, 4, 3)
    measured = np.linspace(-5, 9000, 12).reshape(2, 3, 2)
    assert decoding.fit(measured).dtype == np.float32 and decoding.fit(measured[..., 0]).shape == (2, 3, 1)


@pytest.mark.parametrize(
    "image, settings, message",
    [
        (np.zeros((2, 2, 2, 2), np.uint8), {}, r"shape \(2, 2, 2, 2\) should be"),
        (np.zeros((2, 2, 3), np.int64), {}, "type int64 should be uint8, or floats"),
        (np.full((2, 2, 1), np.nan), {}, "not finite"),
        (np.zeros((2, 2, 1)), {"size": 4}, "are not resized"),
        (np.zeros((2, 2, 5), np.uint8), {"channels": 3}, "5 channels are neither 1 nor 3"),
    ],
)
def test_other_shapes_and_types_are_refused(image, settings, message):
    with pytest.raises(ValueError, match=message):
        decoding.fit(image, **settings)
