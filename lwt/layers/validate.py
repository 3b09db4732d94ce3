"""Checks of a model's fields, with errors that name the config key."""

from lwt import errors


def require_positive(model, *keys):
    """Raises ConfigError for the first of these fields that is below 1."""
    for key in keys:
        if getattr(model, key) < 1:
            raise errors.ConfigError(f"model.{key}={getattr(model, key)} should be at least 1")


def require_rates(model, *keys):
    """Raises ConfigError for the first of these fields that is not a dropout rate."""
    for key in keys:
        if not 0 <= getattr(model, key) < 1:
            raise errors.ConfigError(f"model.{key}={getattr(model, key)} should be in [0, 1)")


def require_choices(model, **choices):
    """Raises ConfigError for the first of these fields whose value is not among its choices, and lists them."""
    for key, names in choices.items():
        value = getattr(model, key)
        if value not in names:
            raise errors.ConfigError(f"model.{key}={value!r}: {errors.suggest(value, names)}")
