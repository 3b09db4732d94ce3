"""Finds the configs of lwt by path, since nothing in lwt imports configs/.

They are in `folder()`: the checkout's ``configs/``, or a part of the installed package. ``quickstart`` and
``configs/quickstart.py`` name the file there, unless the current folder has its own ``configs/quickstart.py``.
"""

import importlib
import pathlib
import sys
import types

from lwt import errors


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
    importable(folder() / "common.py")
    return importlib.import_module("configs.common")


def find(path):
    """The config file at `path`; if it does not exist, ``NAME`` and ``configs/NAME.py`` name one in `folder()`.

    Raises:
        lwt.errors.ConfigError: there is no such file.
    """
    path = pathlib.Path(path)
    inside = pathlib.Path("configs", f"{path.stem}.py")
    ours = path in (inside, pathlib.Path(path.stem))
    for file in (path, inside, folder() / inside.name) if ours else (path,):
        if file.is_file():
            return file
    known = {str(file) for file in path.parent.glob("*.py")} if path.suffix else set()
    if path.parent == pathlib.Path():
        known.update(names())
    if path.parent == inside.parent:
        known.update(f"configs/{name}.py" for name in names())
    hint = errors.suggest(path, known, limit=len(known))
    raise errors.ConfigError(f"config file {path} is not there; {hint}")


def names():
    """The names of lwt's configs, such as ``quickstart``, sorted."""
    return sorted(file.stem for file in folder().glob("*.py") if file.stem not in ("__init__", "common"))


def importable(file):
    """Lets a config `file` import others as ``from configs import common``: of its own ``configs/``, or of lwt's."""
    package = sys.modules.setdefault("configs", types.ModuleType("configs"))
    own = [file.resolve().parent] if file.resolve().parent.name == "configs" else []
    package.__path__ = list(dict.fromkeys(map(str, [*own, *getattr(package, "__path__", ()), folder()])))
    return file
