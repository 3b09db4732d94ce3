"""Classification of images: `classify` with normalisation, and with augmentation on the device in training."""

import dataclasses

import jax
import jax.numpy as jnp

from lwt import errors, values
from lwt.layers import augment
from lwt.tasks import classify


@dataclasses.dataclass(frozen=True)
class ClassifyImages(classify.Classify):
    """The task's settings; every method is pure.

    A batch holds `image` `[b h w c]` uint8 or float32, `weight` `[b]` (0 in a filler row) and `label` `[b]`. The model
    reads `(image - mean) / std` in float32; a uint8 image is divided by 255 first. Training crops and flips images,
    then mixes each with the previous row of the batch, by `mixup` or `cutmix` (by both with equal chance).
    ``accuracy`` in training is that of the class with the greater share.

    Attributes:
        mean, std: one per channel, or one for all.
        flip: mirror half of the images, left to right.
        crop: pixels to pad each side with before a random window of the image's size is cut out; 0 for none.
        padding: how to pad: "zero" or "reflect".
        mixup, cutmix: α of the Beta(α, α) distribution of shares; 0 for none.
    """

    mean: tuple = (0.0,)
    std: tuple = (1.0,)
    flip: bool = False
    crop: int = 0
    padding: str = "zero"
    mixup: float = 0.0
    cutmix: float = 0.0

    def __post_init__(self):
        if self.padding not in augment.PADDINGS:
            raise errors.ConfigError(f"task.padding={self.padding!r}: {errors.suggest(self.padding, augment.PADDINGS)}")
        super().__post_init__()
        shares, positive = values.every(values.real()), values.every(values.real(0, above=True))
        values.require("task", self, crop=values.whole(0), mixup=values.real(0), cutmix=values.real(0))
        values.require("task", self, mean=shares, std=positive)

    def loss(self, apply, batch, *, train=True, rngs=None):
        """See `classify.Classify.loss`; without `rngs` it augments nothing.

        Raises:
            lwt.errors.ConfigError: `mean` or `std` does not match the number of channels of the images.
        """
        if not train or not rngs:
            return super().loss(apply, self._normalised(batch), train=train, rngs=rngs)
        geometry, mixing, dropout = jax.random.split(rngs["dropout"], 3)
        batch = self._normalised({**batch, "image": self._moved(batch["image"], geometry)})
        return super().loss(apply, self._mixed(batch, mixing), train=train, rngs={**rngs, "dropout": dropout})

    def predict(self, apply, batch):
        """Logits `[b c]` in float32, one row per image; those of filler rows are meaningless."""
        return super().predict(apply, self._normalised(batch))

    def _normalised(self, batch):
        image, mean, std = batch["image"], jnp.asarray(self.mean), jnp.asarray(self.std)
        for name, numbers in (("mean", mean), ("std", std)):
            if numbers.shape not in ((1,), image.shape[-1:]):
                raise errors.ConfigError(
                    f"task.{name}={getattr(self, name)} must have 1 number or {image.shape[-1]}, one per channel"
                )
        scale = 255.0 if image.dtype == jnp.uint8 else 1.0
        return {**batch, "image": (image.astype(jnp.float32) / scale - mean) / std}

    def _moved(self, image, key):
        cropping, flipping = jax.random.split(key)
        if self.crop:
            image = augment.crop(image, cropping, padding=self.crop, mode=self.padding)
        return augment.flip(image, flipping) if self.flip else image

    def _mixed(self, batch, key):
        choosing, blending, pasting = jax.random.split(key, 3)
        image, made = batch["image"], []
        if self.mixup:
            made.append(augment.mixup(image, blending, alpha=self.mixup))
        if self.cutmix:
            made.append(augment.cutmix(image, pasting, alpha=self.cutmix))
        if not made:
            return batch
        image, share = made[0]
        if len(made) == 2:
            first = jax.random.bernoulli(choosing, 0.5, share.shape)
            image = jnp.where(first[:, None, None, None], image, made[1][0])
            share = jnp.where(first, share, made[1][1])
        # An image stays unmixed where one of the two has no known class.
        label, second = batch["label"], augment.partner(batch["label"])
        both = (label >= 0) & (second >= 0) & classify.real_rows(batch)
        both &= augment.partner(classify.real_rows(batch))
        image = jnp.where(both[:, None, None, None], image, batch["image"])
        share = jnp.where(both, share, 1.0)
        greater = share >= 0.5
        return {
            **batch,
            "image": image,
            "label": jnp.where(greater, label, second),
            "second": jnp.where(greater, second, label),
            "share": jnp.where(greater, share, 1 - share),
        }
