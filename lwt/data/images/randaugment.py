"""RandAugment (Cubuk et al. 2020, arXiv 1909.13719) on the host, by torchvision (extra ``augment``).

An image of 32 × 32 pixels takes about 0.4 ms as a PIL image; as a tensor, twenty times that.
"""

import numpy as np

from lwt import errors, extras


class RandAugment:
    """Applies operations drawn from fourteen (shears, shifts, rotation, colours, contrast, ...) to every image.

    Args:
        operations: operations per image, N of the paper.
        magnitude: their strength, M of the paper, 0 to 30.

    Raises:
        lwt.errors.ConfigError: numbers out of range; or torchvision is not installed.
    """

    def __init__(self, operations, magnitude):
        if not (operations >= 1 and 0 <= magnitude <= 30):
            raise errors.ConfigError(
                f"data.randaugment={(operations, magnitude)} must be (operations, magnitude): 1 or more, and 0 to 30"
            )
        transforms = extras.load("torchvision.transforms.v2", f"data.randaugment={(operations, magnitude)}")
        import PIL.Image
        import torch

        self._torch, self._image = torch, PIL.Image
        self._transform = transforms.RandAugment(num_ops=operations, magnitude=magnitude, num_magnitude_bins=31)

    def __call__(self, images, chance):
        """Augments `images`, [n h w c] uint8 of 1 or 3 channels; `chance`, [n] float32 in [0, 1), is the randomness.

        Raises:
            lwt.errors.ConfigError: the images have another type.
        """
        if images.dtype != np.uint8 or images.shape[-1] not in (1, 3):
            raise errors.ConfigError(
                f"data.randaugment is for uint8 images of 1 or 3 channels, not {images.dtype} of {images.shape[-1]}: "
                "set data.randaugment=()"
            )
        made = np.empty_like(images)
        with self._torch.random.fork_rng(devices=[]):  # leaves torch's global stream as it was
            for image, drawn, seed in zip(images, made, np.float32(chance).view(np.int32).tolist(), strict=True):
                self._torch.manual_seed(seed)
                picture = self._image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
                drawn[...] = np.asarray(self._transform(picture)).reshape(image.shape)
        return made
