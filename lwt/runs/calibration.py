"""What is fitted to a run's validation set after training: the temperature of its probabilities.

``calibration.json`` of a run folder or bundle keeps it; it holds for one checkpoint.
"""

import dataclasses
import logging
import os
import pathlib

import numpy as np

from lwt import errors, files
from lwt.metrics import calibration as metrics

LOG = logging.getLogger(__name__)
FILE = "calibration.json"


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What changes a model's probabilities.

    Attributes:
        temperature: T of ``softmax(logits / T)``.
    """

    temperature: float = 1.0


def read(workdir, *, step):
    """The `Calibration` of a run; None if there is none, or one for another checkpoint than `step`.

    Raises:
        lwt.errors.CheckpointError: the file is damaged.
    """
    path = pathlib.Path(workdir, FILE)
    if not os.path.exists(path):
        return None
    try:
        content = files.read_json(path)
        found, fitted_at = Calibration(temperature=float(content["temperature"])), int(content["checkpoint"])
        if not 0 < found.temperature < np.inf:
            raise ValueError(f"temperature={found.temperature} should be above 0")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.CheckpointError(f"{path} is damaged ({error}); fit it again with eval.py --calibrate") from error
    if fitted_at != step:
        LOG.warning(
            "%s was fitted to checkpoint %d and this is %d: it is not used; fit it again with eval.py --calibrate",
            *(path, fitted_at, step),
        )
        return None
    return found


def fit(experiment):
    """Fits a run's temperature to its validation set and writes the file; returns its content.

    That is ``temperature``, ``checkpoint``, ``data``, ``records`` and, of ``before`` and ``after``, ``loss`` (negative
    log-likelihood, nats per record) and ``ece`` (`metrics.expected_calibration_error`).

    Raises:
        lwt.errors.ConfigError: the task does not choose one class by the highest logit.
        lwt.errors.WriteError: the folder is read-only.
    """
    if not hasattr(experiment.task, "probabilities"):
        name = experiment.config.task["name"]
        raise errors.ConfigError(f"--calibrate needs probabilities of classes, and task.name={name!r} gives none")
    name = experiment.data.named("validation")
    _, _, outputs, references = experiment.evaluate(name)
    known = np.asarray(references) >= 0
    logits, labels = np.asarray(outputs)[known], np.asarray(references)[known]
    found = Calibration(temperature=metrics.fit_temperature(logits, labels))
    content = {"temperature": found.temperature, "checkpoint": int(experiment.step)}
    content |= {"data": name, "records": len(labels)}
    content |= {"before": figures(Calibration(), logits, labels=labels), "after": figures(found, logits, labels=labels)}
    files.write_json(pathlib.Path(experiment.workdir, FILE), content, checked=True)
    return content


def figures(found, logits, *, labels):
    """``loss`` and ``ece`` of `[n c]` logits with a `Calibration`."""
    scaled, labels = np.asarray(logits, np.float64) / found.temperature, np.asarray(labels)
    known = (labels >= 0) & (labels < scaled.shape[1])
    return {
        "loss": metrics.negative_log_likelihood(scaled[known], labels[known]),
        "ece": metrics.expected_calibration_error(metrics.softmax(scaled), labels),
    }
