"""Config files opened by path or name, as the flag ``--config`` opens them: nothing in lwt imports configs/.

The configs of lwt lie in `folder()`: the checkout's ``configs/``, or a part of the installed package. ``quickstart``
and ``configs/quickstart.py`` name the file there, unless the current folder has its own ``configs/quickstart.py``.
"""

import importlib
import importlib.util
import pathlib
import sys
import types

from absl import flags
from ml_collections import config_flags

from lwt import errors
from lwt.machine import command_line


def define(help="A file of configs/ or its name, with arguments: FILE.py:key=value,..."):
    """Declares the flag --config, which takes overrides --config.KEY=VALUE; returns its holder."""
    command_line.CONFIGS["config"] = load, describe
    holder = config_flags.DEFINE_config_file("config", None, help)
    parser = flags.FLAGS["config"].parser
    parse = parser.parse

    def parse_where_it_lies(spec):
        file, *arguments = spec.split(":", 1)
        return parse(":".join([str(_importable(find(file))), *arguments]))

    parser.parse = parse_where_it_lies
    return holder


def folder():
    """The folder of lwt's configs: that of the checkout, or the one inside the installed package."""
    package = pathlib.Path(__file__).parents[1]
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def defaults():
    """The config with every key and its default, ``base()`` of ``configs/common.py``, not locked."""
    return common().base()


def common():
    """The module ``configs.common``, the same one that configs import."""
    _importable(folder() / "common.py")
    return importlib.import_module("configs.common")


def find(path):
    """The config file at `path`; if there is none, ``NAME`` and ``configs/NAME.py`` name one in `folder()`.

    Raises:
        lwt.errors.ConfigError: there is no such file.
    """
    path = pathlib.Path(path)
    inside = pathlib.Path("configs", f"{path.stem}.py")
    ours = path in (inside, pathlib.Path(path.stem))
    for file in (path, inside, folder() / inside.name) if ours else (path,):
        if file.is_file():
            return file
    known = {str(file) for file in path.parent.glob("*.py")}
    if path.parent == pathlib.Path():
        known.update(names())
    if path.parent == inside.parent:
        known.update(f"configs/{name}.py" for name in names())
    raise errors.ConfigError(f"config file {path} is not there; {errors.suggest(path, known)}")


def names():
    """The names of lwt's configs, such as ``quickstart``, sorted."""
    return sorted(file.stem for file in folder().glob("*.py") if file.stem not in ("__init__", "common"))


def _importable(file):
    """Lets a config `file` import others as ``from configs import common``: of its own ``configs/``, or of lwt's."""
    package = sys.modules.setdefault("configs", types.ModuleType("configs"))
    own = [file.resolve().parent] if file.resolve().parent.name == "configs" else []
    package.__path__ = list(dict.fromkeys(map(str, [*own, *getattr(package, "__path__", ()), folder()])))
    return file


def module(path):
    """The config file that `path` names, as a Python module, for its ``get_config`` and what else it has (``sweep``).

    Raises:
        lwt.errors.ConfigError: there is no such file.
    """
    path = _importable(find(path))
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
