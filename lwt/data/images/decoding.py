"""Decodes image files and resizes images."""

import io
import pathlib
import zlib

import numpy as np

from lwt import errors
from lwt.data import arrays, formats

GREY = ("1", "L")
DEEP = ("I;16", "I;16L", "I;16B", "I;16N")  # 16 bits, grey
SINGLE = ("GIF", "PNG", "WEBP", "TIFF")  # formats whose files of several frames are refused; an MPO is a photograph


def decode(content, where, *, max_megabytes=formats.MAX_MEGABYTES):
    """Decodes an image file to uint8 [h w 3], or [h w] if it is grey, or float32 [h w] if it holds floats.

    Applies the EXIF orientation, scales 16 bits to 8, and puts transparent pixels on white.

    Raises:
        lwt.errors.DataError: Pillow cannot read the image, it has several frames or whole numbers of 32 bits, nothing
            of it can be seen on white, or it is larger than `max_megabytes`; the message calls it `where`.
    """
    import PIL.Image  # imported here: texts do not need it
    import PIL.ImageOps

    PIL.Image.MAX_IMAGE_PIXELS = None  # max_megabytes is the limit
    try:
        with PIL.Image.open(io.BytesIO(content)) as image:
            size = image.width * image.height * max(3, len(image.getbands()))
            if size > max_megabytes * 1e6:
                raise ValueError(
                    f"{image.width} × {image.height} pixels take more than data.max_megabytes={max_megabytes:g}"
                )
            if image.format in SINGLE and getattr(image, "n_frames", 1) > 1:
                raise ValueError(f"it has {image.n_frames} frames; save the one to use")
            return _plain(PIL.ImageOps.exif_transpose(image), image.format)
    except PIL.UnidentifiedImageError as error:  # Pillow's own message shows the bytes' address in memory
        raise errors.DataError(f"{where} cannot be decoded as an image: it has no format that Pillow reads") from error
    except (OSError, ValueError, EOFError, SyntaxError, zlib.error, MemoryError) as error:
        raise errors.DataError(f"{where} cannot be decoded as an image: {errors.first_line(error)}") from error


def _plain(image, kind):
    """The pixels of a Pillow image from a file of that kind; raises ValueError if it would lose content."""
    import PIL.Image

    if image.mode in DEEP or (image.mode == "I" and kind in ("PNG", "PPM")):
        return np.round(np.asarray(image).astype(np.float64) / 257).astype(np.uint8)
    if image.mode == "F":
        return np.asarray(image)
    if image.mode == "I":
        raise ValueError("its 32-bit numbers have no known range; save it with 16 bits, or as floats")
    grey = image.mode in GREY
    if not image.has_transparency_data:
        return np.asarray(image.convert("L" if grey else "RGB"))
    image = image.convert("RGBA")
    pixels, white = np.asarray(image), PIL.Image.new("RGBA", image.size, "white")
    seen = np.asarray(PIL.Image.alpha_composite(white, image).convert("L" if grey else "RGB"))
    if (pixels != pixels[0, 0]).any() and (seen == seen[0, 0]).all():
        raise ValueError("on white nothing of it can be seen; put it on another background")
    return seen


def load(path, *, max_megabytes=formats.MAX_MEGABYTES):
    """Loads one image: a file to `decode`, or the array in an ``.npy`` file.

    Raises:
        lwt.errors.DataError: the file is missing or not an image.
    """
    path = pathlib.Path(path).expanduser()
    try:
        if path.suffix.lower() == ".npy":
            return arrays.load(path)
        return decode(path.read_bytes(), path, max_megabytes=max_megabytes)
    except (OSError, ValueError, EOFError) as error:
        raise errors.DataError(f"{path} cannot be read ({error}); it must be the path of an image file") from error


def fit(image, *, size=0, channels=0):
    """Converts an image to the form that a model takes.

    Args:
        image: [h w] or [h w c]; uint8, or floats (measured maps), which become float32 and do not change otherwise.
        size: the pixels of both sides: cuts out the middle square and resizes it. 0 keeps the size.
        channels: 3 repeats a grey image three times; 1 takes the brightness of a coloured one; 0 keeps the channels.

    Returns:
        [h w c], uint8 or float32.

    Raises:
        ValueError: the image has another shape or type.
    """
    image = np.asarray(image)
    image = image[..., None] if image.ndim == 2 else image
    if image.ndim != 3 or not image.size:
        raise ValueError(f"its shape {image.shape} must be (height, width) or (height, width, channels)")
    if np.issubdtype(image.dtype, np.floating):
        with np.errstate(over="ignore"):
            single = image.astype(np.float32)
        if not np.isfinite(single).all():
            raise ValueError("it has numbers that are not finite")
        if size and image.shape[:2] != (size, size):
            raise ValueError(f"its floats, {image.shape[0]} × {image.shape[1]}, are not resized: set data.image_size=0")
        if channels not in (0, image.shape[2]) and image.shape[2] != 1:
            raise ValueError(f"its floats have {image.shape[2]} channels, not {channels}: set data.channels=0")
        return np.repeat(single, channels // image.shape[2], axis=2) if channels else single
    if image.dtype != np.uint8:
        raise ValueError(f"its type {image.dtype} must be uint8, or floats")
    if image.shape[2] not in (1, 3) and (size or channels not in (0, image.shape[2])):
        raise ValueError(f"its {image.shape[2]} channels are neither 1 nor 3: set data.channels=0, data.image_size=0")
    return _converted(image, size, channels or image.shape[2])


def _converted(image, size, channels):
    if image.shape[2] == channels and size in (0, image.shape[0]) and size in (0, image.shape[1]):
        return image
    import PIL.Image
    import PIL.ImageOps

    made = PIL.Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    made = made.convert("L" if channels == 1 else "RGB")
    if size:
        made = PIL.ImageOps.fit(made, (size, size), PIL.Image.Resampling.BILINEAR)
    made = np.asarray(made)
    return made[..., None] if made.ndim == 2 else made
