"""Image augmentation on the device: pure functions of a batch and a key.

Each image of a batch gets its own random draws. Mixing takes the other image from the same batch, see `partner`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Num, Shaped

PADDINGS = {"zero": "constant", "reflect": "reflect"}


def flip(image: Num[Array, "b h w c"], key: Key[Array, ""]) -> Num[Array, "b h w c"]:
    """Mirrors each image left to right with probability 1/2."""
    chosen = jax.random.bernoulli(key, 0.5, (len(image), 1, 1, 1))
    return jnp.where(chosen, image[:, :, ::-1], image)


def crop(
    image: Num[Array, "b h w c"], key: Key[Array, ""], *, padding: int, mode: str = "zero"
) -> Num[Array, "b h w c"]:
    """Shifts each image by up to `padding` pixels vertically and horizontally, drawn uniformly.

    Args:
        mode: fills the border with "zero", or with "reflect" (the image mirrored at its border; `padding` < h, w).
    """
    count, height, width, _ = image.shape
    around = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    padded = jnp.pad(image, around, mode=PADDINGS[mode])
    start = jax.random.randint(key, (count, 2), 0, 2 * padding + 1)

    def window(image, corner):  # image by image, so that devices need not see each other's
        return jax.lax.dynamic_slice(image, (*corner, 0), (height, width, image.shape[-1]))

    return jax.vmap(window)(padded, start)


def partner(x: Shaped[Array, "b ..."]) -> Shaped[Array, "b ..."]:
    """The row that each row is mixed with: the one before it."""
    return jnp.roll(x, 1, axis=0)


def mixup(
    image: Float[Array, "b h w c"], key: Key[Array, ""], *, alpha: float
) -> tuple[Float[Array, "b h w c"], Float[Array, "b"]]:  # noqa: F821
    """``(λ x + (1-λ) partner(x), λ)`` with λ ~ Beta(α, α) for each image (Zhang et al. 2018, arXiv 1710.09412)."""
    share = _beta(key, alpha, len(image))
    own = share[:, None, None, None]
    return own * image + (1 - own) * partner(image), share


def cutmix(
    image: Num[Array, "b h w c"], key: Key[Array, ""], *, alpha: float
) -> tuple[Num[Array, "b h w c"], Float[Array, "b"]]:  # noqa: F821
    """Pastes a rectangle of the partner over each image, at the same place (Yun et al. 2019, arXiv 1905.04899).

    Its sides are ``√(1-λ)`` of the image's, rounded down to even numbers, with λ ~ Beta(α, α). Its centre is drawn
    uniformly; the border clips it. The second result is the weight of an image's own label: the share of its pixels.
    """
    count, height, width, _ = image.shape
    drawing, placing = jax.random.split(key)
    side = jnp.sqrt(1 - _beta(drawing, alpha, count)[:, None])
    sizes = jnp.array([height, width])
    half = (side * sizes) // 2
    middle = jax.random.randint(placing, (count, 2), 0, sizes)
    low, high = jnp.maximum(middle - half, 0), jnp.minimum(middle + half, sizes)
    rows, columns = jnp.arange(height), jnp.arange(width)
    inside = ((rows >= low[:, :1]) & (rows < high[:, :1]))[:, :, None]
    inside &= ((columns >= low[:, 1:]) & (columns < high[:, 1:]))[:, None, :]
    share = 1 - inside.mean((1, 2))
    return jnp.where(inside[..., None], partner(image), image), share


def _beta(key, alpha, count):
    """Draws `[count]` numbers from Beta(α, α); compiles in half the time of `jax.random.beta`."""
    first, second = jax.random.loggamma(key, alpha, (2, count))
    return jax.nn.sigmoid(first - second)
