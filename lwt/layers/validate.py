"""Checks of a model's fields, with errors that name the config key."""

import math

import jax.numpy as jnp

from lwt import errors


def refuse(model, key, *, must):
    """An error that names the field, its value and what it must be."""
    return errors.ConfigError(f"model.{key}={getattr(model, key)!r} must be {must}")


def require_positive(model, *keys):
    """Raises ConfigError for the first of these fields that is below 1."""
    for key in keys:
        if not getattr(model, key) >= 1:
            raise refuse(model, key, must="at least 1")


def require_scales(model, *keys):
    """Raises ConfigError for the first of these fields that is negative or not finite."""
    for key in keys:
        if not 0 <= getattr(model, key) < math.inf:
            raise refuse(model, key, must="finite and at least 0")


def require_rates(model, *keys):
    """Raises ConfigError for the first of these fields that is not a dropout rate."""
    for key in keys:
        if not 0 <= getattr(model, key) < 1:
            raise refuse(model, key, must="in [0, 1)")


def require_choices(model, **choices):
    """Raises ConfigError for the first of these fields whose value is not among its choices, and lists them."""
    for key, names in choices.items():
        value = getattr(model, key)
        if value not in names:
            raise errors.ConfigError(f"model.{key}={value!r}: {errors.suggest(value, names)}")


def require_multiple(model, key, *, of):
    """Raises ConfigError if one field is not a multiple of another."""
    if getattr(model, key) % getattr(model, of):
        raise refuse(model, key, must=f"a multiple of model.{of}={getattr(model, of)}")


def image_example(model):
    """A batch of one blank image, to initialize a model; checks the fields that give its shape."""
    require_positive(model, "image_size", "channels")
    return {"image": jnp.zeros((1, model.image_size, model.image_size, model.channels))}


def require_images(model, image):
    """Raises ConfigError if images `[b h w c]` do not have the model's size and channels."""
    if image.shape[1:] != (model.image_size, model.image_size, model.channels):
        raise errors.ConfigError(
            f"images of shape {image.shape[1:]} do not fit model.image_size={model.image_size} and "
            f"model.channels={model.channels}"
        )
