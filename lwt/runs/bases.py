"""Where the run lies from which another run started: where it was, or where both were moved to."""

import os
import pathlib

from lwt.runs import bundle


def find(recorded, workdir):
    """The folder of the run `recorded`, from which the run in `workdir` started; `recorded` itself if there is none."""
    return next(iter(candidates(recorded, workdir)), recorded)


def candidates(recorded, workdir):
    """Folders of runs that may be the run `recorded`, the likeliest first.

    A relative path holds from the current folder, or from a folder above `workdir`, where training began. Runs that
    were moved together still share the end of their paths: at least, they lie beside each other.

    Args:
        recorded: ``config.init_from``.
        workdir: the run that started from it.
    """
    own, recorded = os.path.abspath(workdir), pathlib.Path(recorded)
    above = [*pathlib.Path(own).parents, *pathlib.Path(os.path.realpath(own)).parents]
    names = recorded.parts[recorded.is_absolute() :]
    ends = (pathlib.Path(*names[i:]) for i in range(len(names)))
    found = {}
    for path in (recorded, *(folder / end for end in ends for folder in above)):
        if os.path.isfile(path / bundle.CONFIG) or bundle.is_bundle(path):
            found.setdefault(os.path.realpath(path), str(path))
    found.pop(os.path.realpath(own), None)
    return list(found.values())
