"""Adds a linear classifier of n-grams to a text classifier: the two are fitted apart, and their logits are added.

    python -m lwt.classify.ngrams --workdir=runs/tickets --out=runs/tickets-n
    python -m lwt.classify.ngrams --workdir=runs/tickets --out=runs/tickets-n --weights=128000

The n-grams are the tokens of a text and the pairs of neighbours, hashed into a table (`lwt/layers/text_head.py`), which
becomes part of the new run's head: every program and every export treats it like the run's other weights. A support
vector machine is fitted to them on the training part. Its regularization and the scales of both logits are those with
the lowest loss on the validation part. It makes other errors than the network and needs fewer texts. It needs
scikit-learn (``pip install '.[sklearn]'``). The last line of output is one JSON object.
"""

import logging
import pathlib
import time
import warnings

import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.sparse
from absl import flags

from lwt import errors, extras, files
from lwt.compress import program
from lwt.layers import linear, text_head
from lwt.metrics import calibration
from lwt.runs import checkpoint
from lwt.runs import experiment as experiments
from lwt.tasks import classify
from lwt.training import new_run

LOG = logging.getLogger(__name__)
TABLE = "head/ngrams/embedding"
KERNEL, BIAS = "head/classifier/kernel", "head/classifier/bias"
ROWS, WEIGHTS = 2**14, 2**19  # the most that a table has by default
STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0)  # the support vector machine's C: the larger, the less it is regularized


def fits(experiment):
    """Whether `add` takes the run: a text classifier with one class per text and no table of n-grams."""
    kind = isinstance(experiment.task, classify.Classify) and isinstance(experiment.model, text_head.TextModel)
    return kind and not experiment.model.ngram_weights


def add(experiment, out, *, weights=0):
    """Writes the run `out`, `experiment` with a table of n-grams; returns it and a dict that describes the change.

    Args:
        experiment: a run that `fits`.
        weights: the most weights of the table; 0 for `ROWS` rows, or fewer if these had more than `WEIGHTS` weights.

    Raises:
        lwt.errors.ConfigError: the run is not a text classifier with one class per text, or it has a table already,
            or scikit-learn is missing.
    """
    if not fits(experiment):
        raise errors.ConfigError(
            f"{experiment.workdir}: n-grams are added to a text classifier of one class per text that has none yet"
        )
    begin, classes = time.perf_counter(), len(experiment.labels)
    weights = weights or min(ROWS * classes, WEIGHTS)
    if weights < classes:
        raise errors.ConfigError(f"--weights={weights} must be at least {classes}, one for each class")
    (train, labels), (validation, known) = (
        features(experiment, part, rows=weights // classes) for part in ("train", "validation")
    )
    _, _, outputs, _ = experiment.evaluate("validation")
    there = known >= 0
    validation, outputs, known = validation[there], np.asarray(outputs)[there], known[there]
    tried = []
    for strength in STRENGTHS:
        table, bias = fit(train, labels, strength=strength, classes=classes)
        loss, scales = scales_of(outputs, validation @ table + bias, labels=known)
        LOG.info("C=%g: %.3g times the network, %.3g times the n-grams: loss %.4f", strength, *scales, loss)
        tried.append((loss, strength, scales[0], scales[1] * table, scales[1] * bias))
    _, strength, scale, table, bias = min(tried, key=lambda one: one[0])
    added = validation @ table + bias
    logits = {"network": outputs, "ngrams": added, "both": scale * outputs + added}
    right = {name: round(float(np.mean(x.argmax(1) == known)), 4) for name, x in logits.items()}
    arrays = linear.merge(experiment.weights)
    arrays = {**arrays, TABLE: jnp.asarray(table), KERNEL: scale * arrays[KERNEL], BIAS: scale * arrays[BIAS] + bias}
    done = {"method": "ngrams", "weights": table.size, "strength": strength, "validation_accuracy": right}
    done["seconds"] = round(time.perf_counter() - begin, 1)
    return new_run.write(experiment, out, weights=arrays, model={"ngram_weights": weights}, how=done), done


def add_once(network, out, *, weights=0):
    """Makes the run `out` from the run `network` with `add`, unless it is there; returns what `add` says of it."""
    if checkpoint.of_run(out).last_step() is None:
        add(experiments.load(str(network)), out, weights=weights)
    return files.read_json(pathlib.Path(out, new_run.ORIGIN))


def features(experiment, part, *, rows):
    """The n-grams of the texts of a part of the run's data, as `text_head.Ngrams` counts them; and their classes.

    Args:
        part: "train" or "validation".
        rows: of the table.

    Returns:
        A sparse matrix `[n rows]`, and the classes `[n]`, -1 for one that the run does not know.
    """
    data = experiment.data
    evaluation = data.evaluation(part)
    found, labels = [], np.full(len(evaluation.sources), -1)
    for batch in data.batches(evaluation):
        batch = {name: values[batch["example"] >= 0] for name, values in batch.items()}  # without filler rows
        places, exist = map(np.asarray, text_head.places(batch["ids"], batch["segments"], rows=rows))
        scale = text_head.GAIN / np.sqrt(exist.sum((1, 2)))
        value, record = (np.broadcast_to(x[:, None, None], exist.shape)[exist] for x in (scale, batch["example"]))
        found.append((value, record, places[exist]))
        labels[batch["example"]] = batch["label"]
    value, record, place = map(np.concatenate, zip(*found, strict=True))
    return scipy.sparse.csr_matrix((value, (record, place)), shape=(len(labels), rows)), labels


def fit(counts, labels, *, strength, classes):
    """The table `[rows classes]` and the bias `[classes]`, float32, of a linear support vector machine.

    Args:
        counts, labels: see `features`; the classes of all records are known.
        strength: its C.
        classes: the number of classes; a class without a record has the logit 0.
    """
    svm, exceptions = (extras.load(f"sklearn.{name}", "a classifier of n-grams") for name in ("svm", "exceptions"))
    machine = svm.LinearSVC(C=strength, random_state=0)
    with warnings.catch_warnings():  # without convergence, the validation loss still tells how good the fit is
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        machine.fit(counts, labels)
    kernel, intercept = machine.coef_, machine.intercept_
    if len(kernel) == 1:  # of two classes, the second one's
        kernel, intercept = np.concatenate([-kernel, kernel]), np.concatenate([-intercept, intercept])
    table, bias = np.zeros((counts.shape[1], classes), np.float32), np.zeros(classes, np.float32)
    table[:, machine.classes_], bias[machine.classes_] = kernel.T, intercept
    return table, bias


def scales_of(logits, added, *, labels):
    """The lowest loss of ``a · logits + b · added`` over a and b from 1/100 to 100, in nats per record; and ``(a, b)``.

    Args:
        logits, added: `[n c]`.
        labels: `[n]`.
    """

    def loss(logs):
        scales = np.exp(logs)
        return calibration.negative_log_likelihood(scales[0] * logits + scales[1] * added, labels)

    bound = np.log(calibration.HOTTEST)
    found = scipy.optimize.minimize(loss, (0.0, 0.0), method="Nelder-Mead", bounds=[(-bound, bound)] * 2)
    return float(found.fun), tuple(np.exp(found.x).tolist())


def main(experiment, values):
    """Adds the table as the flags say."""
    return add(experiment, values.out, weights=values.weights)[1]


if __name__ == "__main__":
    flags.DEFINE_integer(
        "weights", 0, "Most weights of the table; 0: 16,384 for each class, but at most 524,288.", lower_bound=0
    )
    program.run(main)
