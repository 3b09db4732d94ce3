"""Measures which attention heads a trained model needs: ablations, and a pruning curve.

After Michel et al. 2019, "Are Sixteen Heads Really Better than One?" (arXiv 1905.10650), for any run with softmax
attention. `lwt/compress/gates.py` scores the heads; figures are taken with the weights as they are:

    ablated     the figure without one head
    alone       the figure when it is the only one of its module (the paper's "all but one")
    the curve   the figure without a growing share of all heads, lowest scores first, or in random order

The heads are masked, which changes no shape, so one compilation serves all; `lwt/compress/structured.py` removes
them. Nothing is retrained.
"""

import dataclasses
import datetime
import logging
import time

from lwt import errors
from lwt.compress import gates

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Point:
    """One model with fewer heads.

    Attributes:
        order: "importance" or "random"; seed: of the random order.
        share: the share of all heads that is pruned; heads: the number that remains.
        value: the figure.
    """

    order: str
    seed: int
    share: float
    heads: int
    value: float


class Measure:
    """The figure of a run with some of its heads masked.

    Args:
        experiment: an experiment.
        metric: an evaluation figure; "" for the first that exists of BLEU, accuracy and the loss.
        data: the set, ``KIND:NAME@SPLIT``; "" for the test set.
        limit: the number of its records; 0: all.
        total: the number of figures to come, for an estimate of the time left.

    Raises:
        lwt.errors.ConfigError: the evaluation does not compute the metric.
    """

    def __init__(self, experiment, *, metric="", data="", limit=0, total=0):
        self._experiment, self._data, self._limit = experiment, data, limit
        self._count, self._total, self._began = 0, total, None
        figures, sources = experiment.evaluate(data, limit=limit)[:2]
        self.metric = metric or next((name for name in ("bleu", "accuracy") if name in figures), "loss")
        if self.metric not in figures:
            raise errors.ConfigError(f"--metric={metric} is not a figure here; {errors.suggest(metric, figures)}")
        self.whole, self.records = figures[self.metric], len(sources)

    def __call__(self, keep):
        """The figure with only the heads of `keep`, ``{module: [heads] bool}``."""
        weights = gates.masked(self._experiment.weights, keep, kind="heads")
        masked = self._experiment.with_weights(weights, name="masked", step=self._experiment.step)
        value = masked.evaluate(self._data, limit=self._limit)[0][self.metric]
        self._say(value)
        return value

    def _say(self, value):
        """Logs the progress; the first figure, which includes the compilation, does not count in the rate."""
        self._count, left, now = self._count + 1, "", time.monotonic()
        if self._began is None:
            self._began = now
        elif self._count <= self._total:
            seconds = (now - self._began) / (self._count - 1) * (self._total - self._count)
            left = f" of {self._total}, {datetime.timedelta(seconds=round(seconds))} left"
        LOG.info("%s %.4g, figure %d%s", self.metric, value, self._count, left)


def ablations(measure, scores):
    """``{(module, head): (ablated, alone)}``, figures of `measure` for every head."""
    found = {}
    for name, values in scores.items():
        every = [(name, i) for i in range(len(values))]
        for head in every:
            others = [other for other in every if other != head]
            found[head] = measure(gates.drop(scores, [head])), measure(gates.drop(scores, others))
    return found


def curve(experiment, measure, *, scores, shares, seeds):
    """The points of the pruning curve: by importance, and in a random order for every seed."""
    ranked = [("importance", 0, scores)]
    ranked += [("random", seed, gates.random(experiment, "heads", seed=seed)) for seed in range(seeds)]
    points = []
    for order, seed, values in ranked:
        points.append(Point(order, seed, 0.0, len(gates.order(values)), measure.whole))
        for share in shares:
            keep = gates.drop_least(values, share)
            left = sum(int(kept.sum()) for kept in keep.values())
            points.append(Point(order, seed, share, left, measure(keep)))
    return points
