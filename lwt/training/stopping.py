"""Early stopping: training ends when the selected figure has not improved for a number of evaluations."""

import math


class Stopping:
    """Follows the figure that decides which checkpoint is best.

    Args:
        select: its name.
        mode: ``"min"`` or ``"max"``: whether lower or higher figures are better.
        patience: the evaluations in a row without improvement after which training ends; 0: it never does. A figure
            that equals the best one, or is not finite, is not an improvement.
    """

    def __init__(self, select, *, mode, patience):
        self._select, self._sign, self._patience = select, 1 if mode == "max" else -1, patience
        self._best, self._since = None, 0

    def update(self, figures):
        """Takes the figures of an evaluation."""
        value = figures.get(self._select)
        value = math.nan if value is None else value  # a manifest keeps None for what is not finite
        better = math.isfinite(value) and (self._best is None or self._sign * value > self._sign * self._best)
        self._best, self._since = (float(value), 0) if better else (self._best, self._since + 1)

    @property
    def over(self):
        """Whether training ends."""
        return 0 < self._patience <= self._since

    def __str__(self):
        best = "never finite" if self._best is None else f"{self._best:.6g} at best"
        return f"{self._select} has not improved in {self._since} evaluations ({best})"

    def state(self):
        """What a checkpoint keeps, as JSON; see `restore`."""
        return {"select": self._select, "best": self._best, "since": self._since}

    def restore(self, state):
        """Goes on from `state`, unless that followed another figure; None, saved without patience, changes nothing."""
        if state and state["select"] == self._select:
            self._best, self._since = state["best"], state["since"]
