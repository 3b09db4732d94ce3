"""Names to files: ``model.name = "seq2seq"`` means `lwt/models/seq2seq.py`; the file is its registration."""

import dataclasses
import functools
import importlib
import pkgutil

from lwt import errors


def names(package):
    """The files of a package, by name."""
    return sorted(m.name for m in pkgutil.iter_modules(importlib.import_module(package).__path__) if not m.ispkg)


def module(package, name, *, key):
    """The module ``package.name``; `key` is the config key to blame.

    Raises:
        lwt.errors.ConfigError: there is no such file; the message lists those there are.
    """
    if name not in names(package):
        raise errors.ConfigError(f"{key}={name!r}: {errors.suggest(name, names(package))}")
    return importlib.import_module(f"{package}.{name}")


def class_of(package, name, *, key):
    """The class in ``PACKAGE/NAME.py`` that bears the file's name: ``lh_vit.py`` holds ``LHViT``."""
    found = module(package, name, key=key)
    wanted = name.replace("_", "")
    for attribute, value in vars(found).items():
        if isinstance(value, type) and attribute.lower() == wanted and value.__module__ == found.__name__:
            return value
    raise errors.ConfigError(f"{key}={name!r}: {found.__name__} has no class of that name")


def make(package, section, *, key, **more):
    """An object from a config section ``{"name": FILE, argument: value, ...}``; `more` are arguments of the caller's.

    Raises:
        lwt.errors.ConfigError: an argument that the class does not have, or one of another type.
    """
    cls = class_of(package, section["name"], key=f"{key}.name")
    given = _arguments(cls, section, key=key, taken=more)
    return cls(**given, **{name: value for name, value in more.items() if name in fields(cls)})


def maker(package, section, *, key, taken):
    """The class of that name in a file of a package, with the arguments of a config section: what a model is given to
    make the modules of its layers with.

    Args:
        package: such as "lwt.attention", whose files all call their class ``Attention``.
        section: the file's name, ``"FILE:argument=value,..."``, or ``{"name": FILE, argument: value, ...}``.
        taken: arguments that the model gives.

    Raises:
        lwt.errors.ConfigError: as `make`.
    """
    name, _, given = section.partition(":") if isinstance(section, str) else (section["name"], "", "")
    cls_name = package.rpartition(".")[2].capitalize()
    found = module(package, name, key=key)
    if not hasattr(found, cls_name):
        raise errors.ConfigError(f"{key}={name!r}: {found.__name__} has no class {cls_name}")
    cls = getattr(found, cls_name)
    section = _parsed(cls, given, key=key) if isinstance(section, str) else section
    return functools.partial(cls, **_arguments(cls, section, key=key, taken=taken))


def _parsed(cls, text, *, key):
    """``"rank=16,folded=true"`` as a section, each value of the type of its argument's default."""
    section = {}
    for item in filter(None, text.split(",")):
        name, separator, value = item.partition("=")
        if not separator:
            raise errors.ConfigError(f"{key}: {item!r} should be ARGUMENT=VALUE")
        kind = type(fields(cls)[name].default) if name in fields(cls) else str
        try:
            section[name] = {"true": True, "false": False}[value.lower()] if kind is bool else kind(value)
        except (KeyError, ValueError):
            section[name] = value  # refused as of another type
    return section


def _arguments(cls, section, *, key, taken):
    """The arguments of a config section, all but its name, checked against the fields of a class."""
    # a tuple comes back as a list from a config that was kept as JSON
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in dict(section).items() if k != "name"}
    there = fields(cls)
    for name, value in given.items():
        if name not in there or name in taken:
            raise errors.ConfigError(
                f"{key}.{name}: {cls.__name__} has no such argument; {errors.suggest(name, there)}"
            )
        default = there[name].default
        if isinstance(default, (int, float, str, bool)) and not _fits(value, default):
            raise errors.ConfigError(
                f"{key}.{name}={value!r} should be of type {type(default).__name__}, like its default {default!r}"
            )
    return given


def fields(cls):
    """What a config section can give to a class, ``{name: dataclass field}``."""
    return {f.name: f for f in dataclasses.fields(cls) if f.init and f.name not in ("parent", "name")}


def _fits(value, default):
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, float):
        return isinstance(value, (int, float))
    return isinstance(value, type(default)) or callable(value)
