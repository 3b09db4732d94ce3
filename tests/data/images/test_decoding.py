"""Decoding: what an image file becomes, and what is refused."""

import io

import numpy as np
import PIL.Image
import pytest

from lwt import errors
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
        (np.zeros((2, 2, 2, 2), np.uint8), {}, r"shape \(2, 2, 2, 2\) must be"),
        (np.zeros((2, 2, 3), np.int64), {}, "type int64 must be uint8, or floats"),
        (np.full((2, 2, 1), np.nan), {}, "not finite"),
        (np.zeros((2, 2, 1)), {"size": 4}, "are not resized"),
        (np.zeros((2, 2, 5), np.uint8), {"channels": 3}, "5 channels are neither 1 nor 3"),
        (np.zeros((2, 2, 2)), {"channels": 3}, "floats have 2 channels, not 3"),
        (np.full((2, 2, 1), 1e300), {}, "not finite"),
    ],
)
def test_other_shapes_and_types_are_refused(image, settings, message):
    with pytest.raises(ValueError, match=message):
        decoding.fit(image, **settings)


def saved(image, kind="png", **more):
    """The bytes of a Pillow image, or of an array, as a file."""
    file = io.BytesIO()
    (image if isinstance(image, PIL.Image.Image) else PIL.Image.fromarray(image)).save(file, kind, **more)
    return file.getvalue()


LEVELS = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)  # 0 to 255, as 16 bits


@pytest.mark.parametrize("kind", ["png", "tiff", "ppm"])
def test_sixteen_bits_keep_their_levels(kind):
    np.testing.assert_array_equal(decoding.decode(saved(LEVELS, kind), "x"), LEVELS // 257)


def test_floats_stay_and_whole_numbers_without_a_range_are_refused():
    floats = np.linspace(-3, 9, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(decoding.decode(saved(floats, "tiff"), "x"), floats)
    np.testing.assert_array_equal(decoding.fit(floats, channels=3), np.repeat(floats[..., None], 3, 2))
    with pytest.raises(errors.DataError, match="x.tif cannot be decoded as an image: its 32-bit numbers have no known"):
        decoding.decode(saved(np.arange(6, dtype=np.int32).reshape(2, 3), "tiff"), "x.tif")


def colours(alpha=None):
    image = np.zeros((2, 2, 3 if alpha is None else 4), np.uint8)
    image[..., :3] = [[(255, 0, 0), (0, 255, 0)], [(0, 0, 255), (9, 9, 9)]]
    if alpha is not None:
        image[..., 3] = alpha
    return image


def test_transparent_pixels_are_white():
    clear = np.array([[255, 255], [255, 0]], np.uint8)
    wanted = colours()
    wanted[1, 1] = 255
    np.testing.assert_array_equal(decoding.decode(saved(colours(clear)), "x"), wanted)
    np.testing.assert_array_equal(decoding.decode(saved(colours(255)), "x"), colours())
    palette = PIL.Image.fromarray(colours()).quantize(4)
    np.testing.assert_array_equal(decoding.decode(saved(palette), "x"), colours())
    last = palette.getpixel((1, 1))
    np.testing.assert_array_equal(decoding.decode(saved(palette, transparency=last), "x"), wanted)
    np.testing.assert_array_equal(decoding.decode(saved(palette, "gif", transparency=last), "x"), wanted)
    grey = np.array([[0, 100], [200, 50]], np.uint8)
    with_alpha = PIL.Image.fromarray(np.stack([grey, clear], -1), "LA")
    np.testing.assert_array_equal(decoding.decode(saved(with_alpha), "x")[..., 0], [[0, 100], [200, 255]])
    np.testing.assert_array_equal(decoding.decode(saved(grey, transparency=50), "x"), [[0, 100], [200, 255]])
    for hidden in (np.dstack([np.full((2, 2, 3), 255, np.uint8), clear]), colours(0)):
        with pytest.raises(errors.DataError, match="on white nothing of it can be seen"):
            decoding.decode(saved(hidden), "x")


def test_other_colours_and_orientations():
    ink = PIL.Image.fromarray(np.full((8, 8, 3), (200, 30, 60), np.uint8)).convert("CMYK")
    for kind in ("jpeg", "tiff"):
        found = decoding.decode(saved(ink, kind), "x")
        assert np.abs(found.astype(int) - (200, 30, 60)).max() < 12
    bits = np.array([[True, False], [False, True]])
    np.testing.assert_array_equal(decoding.decode(saved(bits), "x"), bits * np.uint8(255))
    wide = PIL.Image.fromarray(np.tile(np.arange(0, 240, 20, dtype=np.uint8), (4, 1)))
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    turned = decoding.decode(saved(wide, exif=exif), "x")
    np.testing.assert_array_equal(turned, np.rot90(np.asarray(wide), -1))


def test_files_of_several_frames_are_refused_and_photographs_with_a_preview_are_not():
    frames = [PIL.Image.fromarray(np.full((4, 4, 3), shade, np.uint8)) for shade in (0, 90, 200)]
    for kind in ("gif", "png", "webp", "tiff"):
        with pytest.raises(errors.DataError, match="has 3 frames; save the one to use"):
            decoding.decode(saved(frames[0], kind, save_all=True, append_images=frames[1:]), "x")
        assert decoding.decode(saved(frames[0], kind), "x").shape == (4, 4, 3)
    assert decoding.decode(saved(frames[1], "mpo", save_all=True, append_images=frames[2:]), "x").shape == (4, 4, 3)


def test_the_size_is_checked_before_the_pixels():
    bomb = saved(PIL.Image.new("P", (13_000, 13_000)))
    assert len(bomb) < 500_000
    with pytest.raises(errors.DataError, match="13000 × 13000 pixels take more than data.max_megabytes=256"):
        decoding.decode(bomb, "x")
    small = saved(PIL.Image.new("P", (1000, 1000)))
    with pytest.raises(errors.DataError, match="more than data.max_megabytes=2"):
        decoding.decode(small, "x", max_megabytes=2)
    assert decoding.decode(small, "x", max_megabytes=4).shape == (1000, 1000, 3)
