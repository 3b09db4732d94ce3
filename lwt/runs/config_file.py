"""Config files opened by path, as the flag ``--config`` opens them: nothing in lwt imports configs/."""

import importlib.util
import pathlib

import ml_collections

from lwt import errors


def module(path):
    """The config file at `path` as a Python module, for its ``get_config`` and what else it offers (``sweep``).

    Raises:
        lwt.errors.ConfigError: there is no such file.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        there = [str(p) for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise errors.ConfigError(f"config file {path} is not there; {errors.suggest(path, there)}")
    spec = importlib.util.spec_from_file_location(f"config_{path.stem}", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def load(spec):
    """``"configs/lora_ranks.py:method=lora,rank=8"`` -> its config.

    Raises:
        lwt.errors.ConfigError: there is no such file, it fails, or it refuses the arguments.
    """
    path, *arguments = spec.split(":", 1)
    get_config = getattr(module(path), "get_config", None)
    if get_config is None:
        raise errors.ConfigError(f"{path} has no function get_config(arg)")
    try:
        config = get_config(*arguments)
    except ValueError as error:
        raise errors.ConfigError(f"{spec}: {error}") from error
    return checked(config, spec)


def checked(config, spec):
    """`config`, or a `lwt.errors.ConfigError` if it is not a ConfigDict."""
    if not isinstance(config, ml_collections.ConfigDict):
        kind = "nothing" if config is None else f"a {type(config).__name__}"
        raise errors.ConfigError(f"{spec}: get_config returns {kind}; it should return an ml_collections.ConfigDict")
    return config


def arguments(path):
    """``{argument: default}`` of the config file at `path`, which its ``get_config("help")`` raises."""
    try:
        module(path).get_config("help")
    except Exception as error:  # a config may know no arguments, or may not work without some
        return getattr(error, "arguments", {})
    return {}
