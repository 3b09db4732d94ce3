"""Reparametrizations by name, and chains of them."""

import dataclasses
import importlib
import pkgutil

import jax

from lwt import errors, reparam, trees
from lwt.layers import linear


@dataclasses.dataclass(frozen=True)
class Compose:
    """Several reparametrizations, one after the other: each adapts the weights that the one before it gave.

    The leaves of part number i, of file NAME, carry the prefix ``i_NAME/``.

    Attributes:
        parts: reparametrizations, at least one.

    Raises:
        lwt.errors.ConfigError: there are no parts.
    """

    parts: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise errors.ConfigError("reparam.parts is empty; it has to be a tuple of {'name': ..., ...}")

    @property
    def identity_at_start(self):
        return all(part.identity_at_start for _, part in self._named())

    def init(self, key, base):
        """The parts' leaves; a part is started on the dense weights that the parts before it give at step 0."""
        adapter = {}
        for i, (prefix, part) in enumerate(self._named()):
            own = part.init(jax.random.fold_in(key, i), base)
            adapter.update(trees.with_prefix(own, prefix))
            base = {name: linear.dense(w) for name, w in part.expand(stored(part, base), own, 0).items()}
        return adapter

    def stored(self, base):
        """What the first part keeps of the weights; the others adapt what it makes of them.

        Raises:
            lwt.errors.ConfigError: another part would leave weights out.
        """
        for prefix, part in self._named()[1:]:
            if hasattr(part, "stored"):
                raise errors.ConfigError(f"reparam.parts: {prefix} replaces stored weights, so it has to be the first")
        return stored(self.parts[0], base)

    def expand(self, base, adapter, step, *, key=None):
        """The weights after the last part."""
        for i, (prefix, part) in enumerate(self._named()):
            own_key = None if key is None else jax.random.fold_in(key, i)
            base = part.expand(base, trees.subtree(adapter, prefix), step, key=own_key)
        return base

    def labels(self, adapter):
        """The parts' labels."""
        labels = {}
        for prefix, part in self._named():
            labels.update(trees.with_prefix(part.labels(trees.subtree(adapter, prefix)), prefix))
        return labels

    def ramp_at(self, step):
        """``{prefix: u(step)}`` of the parts that have a ramp."""
        return {prefix: part.ramp_at(step) for prefix, part in self._named() if hasattr(part, "ramp_at")}

    def _named(self):
        return [(f"{i}_{type(part).__module__.rsplit('.', 1)[-1]}", part) for i, part in enumerate(self.parts)]


def stored(reparam, base):
    """The weights of the whole model `base` that are parameters beside the adapter: all, unless `reparam` says less."""
    return reparam.stored(base) if hasattr(reparam, "stored") else base


def names():
    """The files of this folder that hold a reparametrization."""
    return sorted(name for name in _files() if _class_in(name) is not None)


def find(name, *, key="reparam"):
    """The reparametrization's class in lwt/reparam/NAME.py: the file's own class with ``init`` and ``expand``.

    Raises:
        lwt.errors.ConfigError: there is no such file, or it holds none.
    """
    found = _class_in(name) if name in _files() else None
    if found is None:
        raise errors.ConfigError(f"{key}.name is {name!r}; files in lwt/reparam: {', '.join(names())}")
    return found


def build(section, *, key="reparam"):
    """``{"name": "lora", "rank": 8, ...}`` (a dict or ConfigDict) -> ``LoRA(rank=8, ...)``.

    Args:
        section: the file's name and the arguments of its class. ``"compose"`` takes ``parts``, a tuple of sections.
        key: how errors call the section.

    Raises:
        lwt.errors.ConfigError: an unknown name or key, or a value out of its range.
    """
    options = dict(section.items())
    if "name" not in options:
        raise errors.ConfigError(f"{key} has no name; files in lwt/reparam: {', '.join(names())}")
    name = options.pop("name")
    kind = find(name, key=key)
    fields = [field.name for field in dataclasses.fields(kind)]
    for option in options:
        if option not in fields:
            raise errors.ConfigError(f"{key}.{option} is unknown to {name!r}; {errors.suggest(option, fields)}")
    if kind is Compose:
        parts = enumerate(options.get("parts", ()))
        options["parts"] = tuple(build(part, key=f"{key}.parts[{i}]") for i, part in parts)
    return kind(**options)


def _files():
    return [info.name for info in pkgutil.iter_modules(reparam.__path__)]


def _class_in(name):
    module = importlib.import_module(f"lwt.reparam.{name}")
    own = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
    return next((c for c in own if hasattr(c, "init") and hasattr(c, "expand")), None)
