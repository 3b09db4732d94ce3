"""Config files opened by path or name, as the flag ``--config`` opens them; see `config_folder`.

An argument such as ``base=hf:NAME`` names a model of Hugging Face, which is imported before the config asks for it.
"""

import dataclasses
import importlib.util
import re
import sys

import ml_collections
from absl import flags
from ml_collections import config_flags

from lwt import errors, registry
from lwt.machine import command_line, config_folder
from lwt.runs import hub

PARTS = {"model": registry.MODELS, "reparam": registry.REPARAMS, "task": registry.TASKS}
OVERRIDE = re.compile(rf"--?(?:no)?config\.({'|'.join(PARTS)})\.(\w+)(?:=(.*))?", re.DOTALL)


def define(help=""):
    """Declares the flag --config, which takes overrides --config.KEY=VALUE; returns its holder."""
    command_line.CONFIGS["config"] = lambda spec: with_named(load(spec), sys.argv), describe
    names = ", ".join(config_folder.names())
    help = help or f"NAME:ARGUMENT=VALUE,... or a file FILE.py:ARGUMENT=VALUE,...; NAME is one of {names}."
    holder = config_flags.DEFINE_config_file("config", None, help)
    parser = flags.FLAGS["config"].parser
    parse = parser.parse

    def parse_where_it_lies(spec):
        file, *arguments = spec.split(":", 1)
        bring(*arguments)
        path = str(config_folder.importable(config_folder.find(file)))
        return with_named(parse(":".join([path, *arguments])), sys.argv)

    parser.parse = parse_where_it_lies
    return holder


def bring(arguments=""):
    """Imports the models ``hf:...`` among the arguments of a config, and tells `configs/common.py` where they are."""
    for name in hub.named_in(arguments):
        config_folder.common().FOLDERS[name] = hub.folder(name)


def module(path):
    """The config file that `path` names, as a Python module, for its ``get_config`` and what else it has (``sweep``).

    Raises:
        lwt.errors.ConfigError: there is no such file.
    """
    path = config_folder.importable(config_folder.find(path))
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
    bring(*arguments)
    try:
        config = get_config(*arguments)
    except ValueError as error:
        raise errors.ConfigError(f"{spec}: {error}") from error
    command_line.check_config(config, spec)
    return config


def with_named(config, argv):
    """The config, with the defaults of the keys that its file leaves out and that the command line `argv` sets.

    These are the arguments of a part, such as ``--config.task.beams=4`` where the file only names the task. Without a
    value to replace, the flag would have no type.

    Raises:
        lwt.errors.ConfigError: the part has no such argument, or the argument has no default.
    """
    given = [match.groups() for argument in argv if (match := OVERRIDE.fullmatch(argument))]
    for section, key, value in given:
        part = config.get(section)
        if not isinstance(part, ml_collections.ConfigDict) or "name" not in part or key in part:
            continue
        name = next((own for other, k, own in reversed(given) if (other, k) == (section, "name")), part.name)
        fields = registry.fields(PARTS[section].find(name, key=f"--config.{section}.name"))
        flag = f"--config.{section}.{key}={value}"
        if key not in fields:
            raise errors.ConfigError(f"{flag}: {name} has no such argument; {errors.suggest(key, fields)}")
        default = fields[key].default
        if default is dataclasses.MISSING or default is None:
            raise errors.ConfigError(f"{flag}: {key} has no default value, so only a config file can set it")
        with config.unlocked():
            part[key] = default
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
