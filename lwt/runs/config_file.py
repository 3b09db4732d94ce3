"""Config files opened by path, as the flag ``--config`` opens them: nothing in lwt imports configs/."""

import importlib.util
import pathlib

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
        lwt.errors.ConfigError: there is no such file, or it refuses the arguments.
    """
    path, _, arguments = spec.partition(":")
    try:
        return module(path).get_config(arguments)
    except ValueError as error:
        raise errors.ConfigError(f"{spec}: {error}") from error
