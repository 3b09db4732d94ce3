"""The steps in a folder of checkpoints: which are complete, which is the best, and which can be restored."""

import logging
import os

from lwt import errors
from lwt.runs import manifest

LOG = logging.getLogger("lwt.runs.checkpoint")  # one name for all messages about checkpoints


class SavedSteps:
    """The steps in a folder, from their manifests. What is damaged is passed over, never without a warning in the log.

    Args:
        folder: a `pathlib.Path`, which need not exist.
        select: the evaluation figure that decides which step is best.
        mode: ``"min"`` or ``"max"``.
    """

    def __init__(self, folder, select, *, mode):
        self.folder, self._select, self._mode = folder, select, mode
        self._reported = set()

    def path(self, step):
        """The folder of a step."""
        return self.folder / str(step)

    def complete(self):
        """The steps whose save finished, ascending."""
        return [step for step in self._all() if os.path.isfile(self.path(step) / manifest.NAME)]

    def manifests(self, *, until=None):
        """``{step: manifest}`` of the steps up to `until` with a readable manifest, ascending; the log names others."""
        found, damage = self._read()
        for step, error in damage.items():
            self._warn(f"{error}; step {step} is ignored, and removed by the next save")
        return {step: contents for step, contents in found.items() if until is None or step <= until}

    def best_first(self, *, until=None):
        """The steps up to `until` that have the selected figure, the best first (of equals, the earliest)."""
        return self._ranked(self.manifests(until=until))

    def find(self, step):
        """``"last"``, ``"best"`` or a number -> ``(step, manifest)`` of a step whose every byte was compared.

        Raises:
            lwt.errors.CheckpointError: there is no such step, or it is damaged; see `checkpoint.Checkpoints.restore`.
        """
        newest = self._all()[::-1]
        if step == "last":
            return self._first_whole(newest)
        if step == "best":
            found, damage = self._read()
            return self._first_whole([*damage, *self._ranked(found), *newest])  # a damaged step may be the best
        if not str(step).isdecimal():
            raise errors.CheckpointError(f"checkpoint {step!r}: it must be 'best', 'last' or the number of a step")
        if int(step) not in newest:
            steps = ", ".join(map(str, self.complete())) or "none"
            raise errors.CheckpointError(f"{self.folder}: no checkpoint of step {step}; saved steps: {steps}")
        return int(step), manifest.verify(self.path(step))

    def _first_whole(self, steps):
        """The first of `steps` without damage; the log names those passed over, and the one used instead."""
        damage = []
        for step in dict.fromkeys(steps):
            try:
                contents = manifest.verify(self.path(step))
            except errors.CheckpointError as error:
                damage.append(str(error))
                continue
            for text in damage:
                self._warn(f"{text}; using step {step} instead")
            return step, contents
        if damage:
            raise errors.CheckpointError(
                f"no checkpoint can be restored: {'; '.join(damage)}; restore the files, or remove {self.folder}"
            )
        raise errors.CheckpointError(f"{self.folder}: there is no checkpoint")

    def _all(self):
        """All steps that have a folder, complete or not, ascending."""
        if not os.path.isdir(self.folder):
            return []
        try:
            return sorted(int(name) for name in os.listdir(self.folder) if name.isdecimal())
        except OSError as error:
            raise errors.CheckpointError(f"{self.folder} cannot be read: {error.strerror}") from error

    def _read(self):
        """``({step: manifest}, {step: error})`` of all steps, ascending."""
        found, damage = {}, {}
        for step in self._all():
            try:
                found[step] = manifest.read(self.path(step))
            except errors.CheckpointError as error:
                damage[step] = error
        return found, damage

    def _ranked(self, manifests):
        figures = {step: contents["metrics"].get(self._select) for step, contents in manifests.items()}
        steps = [step for step, figure in figures.items() if figure is not None]
        return sorted(steps, key=lambda step: figures[step] if self._mode == "min" else -figures[step])

    def _warn(self, message):
        if message not in self._reported:
            self._reported.add(message)
            LOG.warning("%s", message)
