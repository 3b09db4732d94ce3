"""Config files opened by path, as the flag ``--config`` opens them: nothing in lwt imports configs/."""

import importlib.util
import pathlib

from ml_collections import config_flags

from lwt import errors
from lwt.machine import command_line


def define(help="A file of configs/, with arguments: FILE.py:key=value,..."):
    """Declares the flag --config, which takes overrides --config.KEY=VALUE; returns its holder."""
    command_line.CONFIGS["config"] = load, describe
    return config_flags.DEFINE_config_file("config", None, help)


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
    command_line.check_config(config, spec)
    return config


def arguments(path):
    """``{argument: default}`` of the config file at `path`, which its ``get_config("help")`` raises."""
    try:
        module(path).get_config("help")
    except Exception as error:  # a config may know no arguments, or may not work without some
        return getattr(error, "arguments", {})
    return {}


def describe(spec):
    """What a config file does, its arguments with their defaults, and the keys of the config that `spec` gives."""
    path = spec.partition(":")[0]
    lines = [(module(path).__doc__ or "").strip(), "", f"arguments, as in --config={path}:NAME=VALUE,... :"]
    lines += [f"  {name}={default}" for name, default in arguments(path).items()]
    try:
        keys = _flat(load(spec).to_dict())
    except errors.ConfigError as error:
        return "\n".join([*lines, "", f"keys: {error}"])
    lines += ["", "keys, as in --config.KEY=VALUE :"]
    return "\n".join([*lines, *(f"  {key}={value!r}" for key, value in keys)])


def _flat(section, prefix=""):
    for key, value in section.items():
        yield from _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
