"""Finds the run from which another run started: where it was, or where both were moved to."""

import logging
import os
import pathlib

from lwt import errors
from lwt.reparam import adapters
from lwt.runs import bundle, hub

LOG = logging.getLogger(__name__)


def find(recorded, workdir):
    """The folder of the run `recorded`, from which the run in `workdir` started; `recorded` itself if there is none."""
    return next(iter(candidates(recorded, workdir)), recorded)


def candidates(recorded, workdir):
    """Folders of runs that may be the run `recorded`, the likeliest first.

    A relative path starts at the current folder, or at a folder above `workdir`, where training began. Runs that
    were moved together still share the end of their paths: at least, they lie beside each other.

    Args:
        recorded: ``config.init_from``; also a model ``hf:...``, see `hub.folder`.
        workdir: the run that started from it.
    """
    own, recorded = os.path.abspath(workdir), pathlib.Path(hub.folder(recorded))
    above = [*pathlib.Path(own).parents, *pathlib.Path(os.path.realpath(own)).parents]
    names = recorded.parts[recorded.is_absolute() :]
    ends = (pathlib.Path(*names[i:]) for i in range(len(names)))
    found = {}
    for path in (recorded, *(folder / end for end in ends for folder in above)):
        if os.path.isfile(path / bundle.CONFIG) or bundle.is_bundle(path):
            found.setdefault(os.path.realpath(path), str(path))
    found.pop(os.path.realpath(own), None)
    return list(found.values())


def weights(recorded, workdir, *, read, given="", fingerprint=""):
    """The weights of the run `recorded`, from which the run in `workdir` started.

    Args:
        recorded: ``config.init_from``.
        workdir: the run that started from it.
        read: ``(folder) -> weights`` of a run.
        given: the folder to take; "": the first of the `candidates` that has the fingerprint.
        fingerprint: `adapters.fingerprint` of the weights in training; "" if it is not known.

    Raises:
        lwt.errors.CheckpointError: there is no such run; says what was found instead.
    """
    wrong = []
    for path in [given] if given else candidates(recorded, workdir):
        try:
            found = read(path)
        except errors.LwtError as error:
            wrong.append(str(error))
            continue
        own = adapters.fingerprint(found)
        if fingerprint in ("", own):
            if not given and os.path.realpath(path) != os.path.realpath(hub.folder(recorded)):
                LOG.info("%s: its base %s is now %s", workdir, recorded, path)
            return found
        wrong.append(f"{path} has the fingerprint {own:.12} instead of {fingerprint:.12}")
    beside = os.path.join(os.path.dirname(os.path.abspath(workdir)), os.path.basename(recorded.rstrip("/")))
    wrong = wrong or [f"which is neither there nor at {beside}"]
    raise errors.CheckpointError(
        f"{workdir} adapts the run {recorded}, {'; '.join(wrong)}; put it back, or give its folder as --base"
    )
