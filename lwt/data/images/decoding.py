"""Decodes image files and resizes images."""

import io
import pathlib
import zlib

import numpy as np

from lwt import errors


def decode(content, where):
    """Decodes an image file to uint8 [h w 3], or [h w] if it is grey; applies its EXIF orientation.

    Raises:
        lwt.errors.DataError: Pillow cannot read the image; the message calls it `where`.
    """
    import PIL.Image  # imported here: texts do not need it
    import PIL.ImageOps

    try:
        with PIL.Image.open(io.BytesIO(content)) as image:
            image = PIL.ImageOps.exif_transpose(image)
            return np.asarray(image.convert("L" if image.mode in ("1", "L") else "RGB"))
    except (OSError, ValueError, EOFError, SyntaxError, zlib.error, PIL.Image.DecompressionBombError) as error:
        raise errors.DataError(f"{where} cannot be decoded as an image: {error or type(error).__name__}") from error


def load(path):
    """Loads one image: a file to `decode`, or the array in an ``.npy`` file.

    Raises:
        lwt.errors.DataError: the file is missing or not an image.
    """
    path = pathlib.Path(path).expanduser()
    try:
        return np.load(path, allow_pickle=False) if path.suffix == ".npy" else decode(path.read_bytes(), path)
    except (OSError, ValueError, EOFError) as error:
        raise errors.DataError(f"{path} cannot be read ({error}); it should be the path of an image file") from error


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
        raise ValueError(f"its shape {image.shape} should be (height, width) or (height, width, channels)")
    if np.issubdtype(image.dtype, np.floating):
        if not np.isfinite(image).all():
            raise ValueError("it has numbers that are not finite")
        if size and image.shape[:2] != (size, size):
            raise ValueError(f"its floats, {image.shape[0]} × {image.shape[1]}, are not resized: set data.image_size=0")
        return image.astype(np.float32)
    if image.dtype != np.uint8:
        raise ValueError(f"its type {image.dtype} should be uint8, or floats")
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
