"""What is fitted to a run's validation set after training: the temperature of its probabilities, or its thresholds.

A run that chooses one class gets a temperature, one that may give several labels a threshold for each.
``calibration.json`` of a run folder, adapter or bundle keeps them; they hold for one checkpoint.
"""

import dataclasses
import logging
import os
import pathlib

import numpy as np

from lwt import errors, files
from lwt.metrics import calibration as metrics
from lwt.metrics import multilabel
from lwt.reparam import adapters
from lwt.runs import adapter_folder, bundle

LOG = logging.getLogger(__name__)
FILE = "calibration.json"


@dataclasses.dataclass(frozen=True)
class Calibration:
    """A temperature that changes a model's probabilities, or thresholds that change its answers.

    Attributes:
        temperature: T of ``softmax(logits / T)``.
        thresholds: `[c]`, where a text may have several labels: the probability from which a class is one of them.
    """

    temperature: float = 1.0
    thresholds: tuple = ()

    def __post_init__(self):
        if not 0 < self.temperature < np.inf:
            raise ValueError(f"temperature={self.temperature} should be above 0")
        if not all(0 <= threshold <= 1 for threshold in self.thresholds):
            raise ValueError(f"thresholds={self.thresholds} should be from 0 to 1")

    def decided(self, outputs):
        """Logits `[n c]`, shifted by the thresholds, if any: then those above 0 are answers, else the largest is."""
        if not self.thresholds:
            return np.asarray(outputs)
        bounds = np.clip(np.asarray(self.thresholds), 1e-12, 1 - 1e-12)
        return np.asarray(outputs) - np.log(bounds / (1 - bounds))


NONE = Calibration()


def read(workdir, *, step):
    """The `Calibration` of a run; None if it has none, or only one of another checkpoint than `step`.

    Raises:
        lwt.errors.CheckpointError: the file is damaged.
    """
    path = pathlib.Path(workdir, FILE)
    if not os.path.exists(path):
        return None
    try:
        content = files.read_json(path)
        thresholds = tuple(map(float, content.get("thresholds", {}).values()))
        found = Calibration(temperature=float(content.get("temperature", 1.0)), thresholds=thresholds)
        fitted_at = int(content["checkpoint"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.CheckpointError(f"{path} is damaged ({error}); fit it again with eval.py --calibrate") from error
    if fitted_at != step:
        LOG.warning(
            "%s was fitted to checkpoint %d and this is %d: it is not used; fit it again with eval.py --calibrate",
            *(path, fitted_at, step),
        )
        return None
    return found


def fit(experiment):
    """Fits a run's temperature or thresholds to its validation set and writes the file; returns its content.

    That is ``temperature`` or ``thresholds`` (by label), ``checkpoint``, ``data``, ``records`` and the figures
    ``before`` and ``after``: ``loss`` (negative log-likelihood, nats per record) and ``ece``
    (`metrics.expected_calibration_error`), or those of `multilabel.score`.

    Raises:
        lwt.errors.ConfigError: the task gives no probabilities.
        lwt.errors.WriteError: the folder is read-only.
    """
    if not hasattr(experiment.task, "probabilities"):
        name = experiment.config.task["name"]
        raise errors.ConfigError(f"--calibrate needs probabilities of classes, and task.name={name!r} gives none")
    name = experiment.data.named("validation")
    _, _, outputs, references = experiment.evaluate(name)
    known = experiment.data.labels.known(references)
    logits, labels = np.asarray(outputs)[known], np.asarray(references)[known]
    content = {"checkpoint": int(experiment.step), "data": name, "records": len(labels)}
    if labels.ndim == 2:
        found = Calibration(thresholds=tuple(multilabel.fit_thresholds(experiment.task.probabilities(logits), labels)))
        content["thresholds"] = dict(zip(experiment.labels, found.thresholds, strict=True))
    else:
        found = Calibration(temperature=metrics.fit_temperature(logits, labels))
        content["temperature"] = found.temperature
    before, after = (figures(one, logits, labels=labels) for one in (NONE, found))
    content |= {"before": before, "after": after}
    write(pathlib.Path(experiment.workdir), content)
    return content


def write(workdir, content):
    """Writes the file into a run or bundle, and into the ``adapter/`` of a run, if that is of the same step."""
    if bundle.is_bundle(workdir):
        bundle.unlist(workdir, FILE)  # it has a checksum of its own
    files.write_json(workdir / FILE, content, checked=True)
    beside = pathlib.Path(adapter_folder.of(workdir))
    if beside != workdir and adapters.load(beside).step == content["checkpoint"]:
        files.write_json(beside / FILE, content, checked=True)


def figures(found, logits, *, labels):
    """The figures that a `Calibration` changes, of `[n c]` logits; see `fit`."""
    labels = np.asarray(labels)
    if labels.ndim == 2:
        return multilabel.score(found.decided(logits), labels)
    scaled = np.asarray(logits, np.float64) / found.temperature
    known = (labels >= 0) & (labels < scaled.shape[1])
    return {
        "loss": metrics.negative_log_likelihood(scaled[known], labels[known]),
        "ece": metrics.expected_calibration_error(metrics.softmax(scaled), labels),
    }
