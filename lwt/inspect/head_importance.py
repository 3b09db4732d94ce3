"""Measures which attention heads a trained model needs: scores, ablations, and a pruning curve.

    python -m lwt.inspect.head_importance --workdir=runs/multi30k --out=docs/results/heads
    python -m lwt.inspect.head_importance --workdir=runs/snips --out=docs/results/heads_snips --shares=0.25,0.5,0.75

After Michel et al. 2019, "Are Sixteen Heads Really Better than One?" (arXiv 1905.10650), for any run with softmax
attention. Scores are taken on the validation set, figures on the test set, both with the weights as they are:

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

from absl import flags

import lwt
from lwt import errors
from lwt.compress import gates
from lwt.inspect import head_report
from lwt.machine import command_line, hardware
from lwt.report import pages

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Point:
    """One model with fewer heads.

    Attributes:
        order: "importance" or "random".
        seed: of the random order.
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


def main():
    """The program: measures, and writes the page."""
    values, begin = flags.FLAGS, time.perf_counter()
    try:
        shares = [float(share) for share in values.shares]
    except ValueError as error:
        raise errors.ConfigError(f"--shares={','.join(values.shares)}: expected numbers") from error
    if not all(0 < share <= 1 for share in shares):
        raise errors.ConfigError(f"--shares={','.join(values.shares)}: each should be above 0, and at most 1")
    experiment = lwt.load(values.workdir, checkpoint=values.checkpoint)
    scores = gates.scores(experiment, "heads", batches=experiment.batches(limit=values.examples), over=values.over)
    ranking = gates.normalised(scores) if values.normalise else scores
    total = values.ablate * 2 * sum(map(len, scores.values())) + (1 + values.seeds) * len(shares)
    measure = Measure(experiment, metric=values.metric, data=values.data, limit=values.limit, total=total)
    ablated = ablations(measure, scores) if values.ablate else {}
    points = curve(experiment, measure, scores=ranking, shares=shares, seeds=values.seeds)
    about = {
        "config": values.workdir,
        "data": values.data or "the run's test set",
        "records": measure.records,
        "metric": measure.metric,
        "whole": measure.whole,
        "over": values.over,
        "normalised": values.normalise,
        "hardware": hardware.describe(),
        "seconds": round(time.perf_counter() - begin, 1),
        "command": pages.command_line(),
    }
    files = head_report.write(values.out, points, scores=scores, ranking=ranking, ablated=ablated, about=about)
    command_line.report({"out": values.out, "files": files, "metric": measure.metric, "whole": measure.whole})


if __name__ == "__main__":
    command_line.define_run(out="Folder of the page.")
    flags.DEFINE_string("metric", "", "The figure; default: the first that exists of bleu, accuracy and loss.")
    flags.DEFINE_string("data", "", "Data set of the figures, KIND:NAME@SPLIT; default: the test set.")
    flags.DEFINE_integer("limit", 0, "Number of its records; 0: all.")
    flags.DEFINE_integer("examples", 0, "Number of validation records for the scores; 0: all.")
    flags.DEFINE_enum("over", "examples", gates.OVER, "What absolute values are summed over.")
    flags.DEFINE_boolean("normalise", False, "Rank by scores with an L2 norm of 1 in every module, as the paper does.")
    flags.DEFINE_boolean("ablate", True, "Also measure without each head, and with it alone: two evaluations a head.")
    flags.DEFINE_list("shares", [f"{i / 10}" for i in range(1, 11)], "Shares of the heads that the curve prunes.")
    flags.DEFINE_integer("seeds", 3, "Number of random orders.")
    command_line.run(main, required=["workdir", "out"])
