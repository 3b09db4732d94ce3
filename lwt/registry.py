"""Parts by name: ``model.name = "seq2seq"`` means `lwt/models/seq2seq.py`; the file is its registration.

A file of a package is a choice if it defines a class with the attributes (or defines the functions) that its `Registry`
needs. Helper modules and abstract bases in the same package are not choices. The arguments of a config section are
checked against the annotations of the class.
"""

import collections.abc
import dataclasses
import functools
import importlib
import inspect
import math
import numbers
import pkgutil
import types
import typing

from lwt import errors


@dataclasses.dataclass(frozen=True)
class Registry:
    """The files of a package that define a part: a class with the attributes `needs`, or a module of such functions.

    The files of the sub-packages `rooms` are choices, too.
    """

    package: str
    needs: tuple
    function: bool = False
    rooms: tuple = ()

    def names(self):
        """The names that a config can give, sorted."""
        return [name for name in self._files() if self._part(name) is not None]

    def find(self, name, *, key):
        """The class (or module) in the file `name`; `key` is the config key that errors blame."""
        part = self._part(name) if name in self._files() else None
        if part is None:
            raise errors.ConfigError(f"{key}={name!r}: {errors.suggest(name, self.names(), limit=99)}")
        return part

    def resolve(self, section, *, key, taken=()):
        """``(class, checked arguments)`` of a config section ``{"name": FILE, argument: value, ...}``.

        Args:
            section: the section, or a string ``"FILE"`` or ``"FILE:argument=value,..."``.
            key: config key of the section.
            taken: arguments that the caller sets and the section must not.
        """
        if isinstance(section, str):
            name, _, text = section.partition(":")
            cls = self.find(name, key=key)
            section = _parsed(cls, text, key=key)
        else:
            if not hasattr(section, "items"):
                raise errors.ConfigError(f"{key} is {section!r:.80}; it has to be a name or a dict with a name")
            section = dict(section.items())
            if "name" not in section:
                raise errors.ConfigError(f"{key} has no name; {errors.suggest('', self.names())}")
            cls = self.find(section.pop("name"), key=f"{key}.name")
        return cls, arguments(cls, section, key=key, taken=taken)

    def make(self, section, *, key, **more):
        """Builds an object from a config section; of the caller's arguments `more`, the class gets those it has."""
        cls, given = self.resolve(section, key=key, taken=more)
        return cls(**given, **{name: value for name, value in more.items() if name in fields(cls)})

    def partial(self, section, *, key, taken):
        """Binds the arguments of a config section to its class; a model adds those of `taken` in each layer."""
        cls, given = self.resolve(section, key=key, taken=taken)
        return Bound(cls, **given)

    def _files(self):
        """``{name: module}`` of all files, sorted."""
        found = {}
        for package in (self.package, *(f"{self.package}.{room}" for room in self.rooms)):
            path = importlib.import_module(package).__path__
            found |= {file.name: f"{package}.{file.name}" for file in pkgutil.iter_modules(path) if not file.ispkg}
        return dict(sorted(found.items()))

    def _part(self, name):
        """The part in a file, or None."""
        module = importlib.import_module(self._files()[name])
        if self.function:
            return module if all(callable(vars(module).get(need)) for need in self.needs) else None
        for value in vars(module).values():
            own = isinstance(value, type) and value.__module__ == module.__name__ and not inspect.isabstract(value)
            if own and all(hasattr(value, need) for need in self.needs):
                return value
        return None


class Bound(functools.partial):
    """A class with arguments; equal to another of the same, so that models of equal configs are equal too."""

    def __eq__(self, other):
        return isinstance(other, Bound) and (self.func, self.keywords) == (other.func, other.keywords)

    def __hash__(self):
        return hash((self.func, *sorted(self.keywords)))


NUMBERS = {bool: bool, int: numbers.Integral, float: numbers.Real}

MODELS = Registry("lwt.models", ("example",))
TASKS = Registry("lwt.tasks", ("loss", "finish"))
ATTENTIONS = Registry("lwt.attention", ("mix",))
REPARAMS = Registry("lwt.reparam", ("init", "expand", "labels"), rooms=("compression",))
DATA_KINDS = Registry("lwt.data.kinds", ("training", "evaluation"))
SOURCES = Registry("lwt.data.sources", ("read",), function=True)


def fields(cls):
    """The arguments of a class that a config section can set, ``{name: dataclass field}``."""
    return {f.name: f for f in dataclasses.fields(cls) if f.init and f.name not in ("parent", "name")}


def arguments(cls, section, *, key, taken=()):
    """Checks the arguments of a config section by name and type against the annotations of a dataclass.

    An int fits a float, but a bool fits no number. Lists become tuples, since JSON stores tuples as lists.
    """
    choices = {name: field for name, field in fields(cls).items() if name not in taken}
    given = {name: _plain(value) for name, value in section.items()}
    for name, value in given.items():
        if name not in choices:
            raise errors.ConfigError(
                f"{key}.{name}: {cls.__name__} has no such argument; {errors.suggest(name, choices)}"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise errors.ConfigError(f"{key}.{name}={value!r} should be a finite number")
        if not fits(value, choices[name].type):
            default = choices[name].default
            like = "" if default is dataclasses.MISSING or callable(default) else f", like its default {default!r}"
            raise errors.ConfigError(f"{key}.{name}={value!r} should be of type {_spelt(choices[name].type)}{like}")
    return given


def _plain(value):
    """A value as Python has it: of JSON a list is a tuple, and of a config a section is a dict."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return value.to_dict() if hasattr(value, "to_dict") else value


def fits(value, annotation):
    """Whether a value has an annotated type: a class, a union, or a tuple such as ``tuple[str, ...]``."""
    if annotation in (typing.Any, object):
        return True
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, part) for part in inner)
    if annotation in (None, types.NoneType):
        return value is None
    kind = origin or annotation
    if kind is tuple:
        return isinstance(value, (tuple, list)) and (not inner or all(fits(item, inner[0]) for item in value))
    if kind in NUMBERS:
        return isinstance(value, NUMBERS[kind]) and isinstance(value, bool) == (kind is bool)
    if kind in (dict, collections.abc.Mapping):
        return hasattr(value, "items")
    return callable(value) if kind is collections.abc.Callable else isinstance(value, kind)


def _parsed(cls, text, *, key):
    """Parses ``"rank=16,folded=true"`` to a section; each value gets the type of its argument."""
    section = {}
    for item in filter(None, text.split(",")):
        name, separator, value = item.partition("=")
        if not separator:
            raise errors.ConfigError(f"{key}: {item!r} should be ARGUMENT=VALUE")
        if name in section:
            raise errors.ConfigError(f"{key}: {name} is given twice")
        section[name] = _value(value, fields(cls)[name].type) if name in fields(cls) else value
    return section


def _value(text, annotation):
    """Parses a text as the first type of an annotation that fits; returns the text itself if none does."""
    for kind in typing.get_args(annotation) or (annotation,):
        if kind is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
    return text


def _spelt(annotation):
    """Spells an annotation for an error message: "int", "str or tuple"."""
    union = typing.get_origin(annotation) in (types.UnionType, typing.Union)
    parts = typing.get_args(annotation) if union else (annotation,)
    names = ["None" if part is types.NoneType else getattr(part, "__name__", str(part)) for part in parts]
    return " or ".join(names)
