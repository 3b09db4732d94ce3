"""The bundles that come with lwt: in the checkout's ``pretrained/``, or those that the installed package has."""

import pathlib

from lwt import errors
from lwt.runs import bundle


def folder(name):
    """The folder of a bundle such as ``"embbert-tinynlp"``.

    Raises:
        lwt.errors.ConfigError: lwt comes without it.
    """
    for place in _places():
        if bundle.is_bundle(place / name):
            return place / name
    raise errors.ConfigError(f"lwt comes without the bundle {name!r}; {errors.suggest(name, names())}")


def names():
    """The names of the bundles that are there, sorted."""
    return sorted({path.name for place in _places() if place.is_dir() for path in place.iterdir() if path.is_dir()})


def _places():
    package = pathlib.Path(__file__).parents[1]
    return package / "pretrained", package.parent / "pretrained"
