"""Compares runs: what differs in their configs, their sizes, their best figures and their times."""

import contextlib
import dataclasses
import json
import math
import pathlib
import re

from lwt import errors, trees
from lwt.report import plots, results
from lwt.runs import experiment, run_config
from lwt.training import new_run

NOT_COMPARED = ("log_every", "save_every", "keep_last", "profile_steps")


@dataclasses.dataclass(frozen=True)
class Facts:
    """The values of one run that a comparison shows.

    Attributes:
        config: its config as a flat dict, ``{"optimizer/learning_rate": 0.1}``.
        parameters, trained: the number of scalars that its weights are made from, and of those that it trains.
        figure: the name of the evaluation figure that is compared.
        best, step: the best value of the figure on the validation set, and its step; NaN and 0 without one.
        seconds: of its training, evaluations included; 0 for a run that was made from another one.
    """

    config: dict
    parameters: int
    trained: int
    figure: str
    best: float
    step: int
    seconds: float


def facts(folder, figure=""):
    """The `Facts` of a finished or unfinished run. One that was made from another and has no log is evaluated.

    Args:
        folder: the workdir of the run.
        figure: an evaluation figure; "": the one that its config selects by.

    Raises:
        lwt.errors.CheckpointError: the folder holds no run.
        lwt.errors.DataError: its metrics.jsonl is missing or damaged, or there is no such figure.
    """
    config = run_config.read(str(folder))
    figure = figure or config.select
    adapters = [f"{folder}/{task}/adapter" for task in config.tasks]  # of one base
    opened, *others = (experiment.load(one) for one in adapters or [str(folder)])
    if _is_derived(folder):
        figures, *_ = opened.evaluate(opened.data.named("validation"))
        if figure not in figures:
            raise errors.DataError(f"{folder} has no figure {figure!r}; {errors.suggest(figure, figures)}")
        result = float(figures[figure]), opened.step, 0.0
    else:
        steps, values = plots.read(folder, f"validation/{figure}")
        _, times = plots.read(folder, "time")
        if not values:
            raise errors.DataError(f"{folder}/metrics.jsonl has no validation/{figure}; {_suggest(folder, figure)}")
        best = _best(values, mode=mode_of(config, figure))
        result = values[best], steps[best], times[-1]
    trained, frozen = (trees.count(leaves) for leaves in opened.stored())
    trained += sum(trees.count(other.stored()[0]) for other in others)
    return Facts(trees.flatten(run_config.as_json(config)), trained + frozen, trained, figure, *result)


def _is_derived(folder):
    """Whether a run was made from another one, and not trained since."""
    return pathlib.Path(folder, new_run.ORIGIN).exists() and not pathlib.Path(folder, "metrics.jsonl").exists()


def mode_of(config, figure):
    """Whether the "max" or the "min" of a figure is best: as the config says, else by its name."""
    if figure == config.select:
        return config.select_mode
    return "min" if re.search("loss|error|perplexity|mae|rmse|ece", figure) else "max"


def differences(found):
    """``{key: [value of each run]}`` of the config keys in which runs differ; a key that a run lacks is None.

    Args:
        found: the `Facts` of the runs.
    """
    keys = dict.fromkeys(key for one in found for key in one.config)
    values = {key: [one.config.get(key) for one in found] for key in keys if key not in NOT_COMPARED}
    return {key.replace("/", "."): row for key, row in values.items() if any(value != row[0] for value in row)}


def table(runs):
    """A Markdown table of ``{name: Facts}``: a column for each run, a line for each key in which they differ."""
    found = list(runs.values())
    lines = [[key, *map(_text, row)] for key, row in differences(found).items()]
    lines.append(["parameters", *(f"{one.parameters:,}" for one in found)])
    lines.append(["trained", *(f"{one.trained:,} ({100 * one.trained / one.parameters:.3g} %)" for one in found)])
    lines.append([f"best {found[0].figure}", *(f"{one.best:.4g}" for one in found)])
    lines.append(["at step", *(f"{one.step:,}" for one in found)])
    lines.append(["minutes", *(f"{one.seconds / 60:.1f}" for one in found)])
    return results.markdown(["", *runs], lines)


def draw(runs, path, *, title=""):
    """Draws the curves of the compared figure of ``{name: (folder, Facts)}``; None if no run has one."""
    figure = next(iter(runs.values()))[1].figure
    folders = {name: folder for name, (folder, _) in runs.items() if not _is_derived(folder)}
    return plots.learning_curves(folders, path, figure=figure, label=figure, title=title) if folders else None


def _best(values, *, mode):
    sign = 1 if mode == "max" else -1
    return max(range(len(values)), key=lambda i: (math.isfinite(values[i]), sign * values[i]))


def _suggest(folder, figure):
    names = set()
    for line in pathlib.Path(folder, "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):  # the last line may be in the middle of being written
            names.update(name for name in json.loads(line) if name.startswith("validation/"))
    return errors.suggest(figure, {name.removeprefix("validation/") for name in names})


def _text(value):
    return "-" if value is None else json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
