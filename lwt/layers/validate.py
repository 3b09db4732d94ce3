"""What a model asks of its fields: errors that name the config's key."""

from lwt import errors


def require_positive(model, *keys):
    """Refuses the first of these fields that is below 1.

    Raises:
        lwt.errors.ConfigError: names it.
    """
    for key in keys:
        if getattr(model, key) < 1:
            raise errors.ConfigError(f"model.{key}={getattr(model, key)} should be at least 1")


def require_rates(model, *keys):
    """Refuses the first of these fields that is no dropout rate.

    Raises:
        lwt.errors.ConfigError: names it.
    """
    for key in keys:
        if not 0 <= getattr(model, key) < 1:
            raise errors.ConfigError(f"model.{key}={getattr(model, key)} should be in [0, 1)")


def require_choices(model, **choices):
    """Refuses the first of these fields whose value is not among its choices.

    Raises:
        lwt.errors.ConfigError: names it, and what there is.
    """
    for key, names in choices.items():
        value = getattr(model, key)
        if value not in names:
            raise errors.ConfigError(f"model.{key}={value!r}: {errors.suggest(value, names)}")
