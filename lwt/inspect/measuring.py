"""Measures quality, bytes and time of runs, and of the quantized files in their ``export/``.

quality   the figure that selects the runs' checkpoints, on the test set; for runs selected by their loss, the first of
          `FIGURES` that exists. Read from ``eval/`` if checkpoint and decoding agree, else evaluated now.
bytes     the size of a file; for a run, of its weights in float32 (factors, integers and pruned layers as stored), or
          of base and adapter, if that is less. A weight that is zero takes as many bytes as any other.
time      of a record alone, and the rate in batches of 64, measured now, all models in turn (`lwt/machine/latency.py`)
"""

import dataclasses
import glob
import logging
import os
import re
import statistics

import jax

import lwt
from lwt import errors, files, trees
from lwt.machine import latency
from lwt.reparam import compose
from lwt.report import study
from lwt.runs import assembly, bases, checkpoint, eval_files, run_config
from lwt.training import new_run

LOG = logging.getLogger(__name__)
FIGURES = ("bleu", "rougeL", "exact_match", "accuracy", "loss")
ROWS = 64  # rows of the timed batch


@dataclasses.dataclass(frozen=True)
class Point:
    """A model on the plot of a task.

    Attributes:
        name: of the model; made: how it was made.
        task: the test set.
        metric: name of the figure; quality: its value; lower: whether less of it is better.
        seeds: the number of runs behind the mean quality.
        bytes: the size of the file or the weights.
        milliseconds: the time of a record alone.
        rate: records a second, in batches.
    """

    name: str
    made: str
    task: str
    metric: str
    lower: bool
    quality: float
    seeds: int
    bytes: int
    milliseconds: float = 0.0
    rate: float = 0.0

    @property
    def rank(self):
        """The quality as a number, higher is better."""
        return -self.quality if self.lower else self.quality


def groups(points):
    """``{(task, metric): points}``, the best first."""
    found = {}
    for point in sorted(points, key=lambda p: -p.rank):
        found.setdefault((point.task, point.metric), []).append(point)
    return dict(sorted(found.items()))


def find(patterns, *, only=""):
    """Folders of runs with checkpoints: those that a pattern with ``*`` and ``**`` matches, and the regex `only`.

    Raises:
        lwt.errors.ConfigError: no folder matches, or `only` is not a regular expression.
    """
    try:
        wanted = re.compile(only)
    except re.error as error:
        raise errors.ConfigError(f"--only={only!r} is not a regular expression: {error}") from error
    paths = {path for pattern in patterns for path in glob.glob(f"{pattern}/{run_config.NAME}", recursive=True)}
    folders = sorted(os.path.dirname(path) for path in paths)
    found = [folder for folder in folders if wanted.search(folder) and os.path.isdir(f"{folder}/checkpoints")]
    if not found:
        raise errors.ConfigError(f"--runs={','.join(patterns)} --only={only}: no folder of a run matches")
    return found


def check_finished(folder):
    """Raises an error for an unfinished run; a run that was made from another (`new_run.py`) counts as finished."""
    if os.path.exists(os.path.join(folder, new_run.ORIGIN)):
        return
    steps = study.steps_of(run_config.read(folder), folder)
    if not study.finished(folder, steps):
        last = checkpoint.of_run(folder).last_step()
        raise errors.CheckpointError(f"{folder} stopped after step {last} of {steps}")


def made_by(folder):
    """How a run was made, such as ``seq2seq, structured, fine-tuned, lora``."""
    config, path = run_config.read(folder), os.path.join(folder, new_run.ORIGIN)
    origin = files.load_json(path) if os.path.exists(path) else {}
    parent = origin.get("run", config.init_from)
    methods = [origin.get("method", "derived")] if origin else _names(config.reparam)
    if config.task.name == "distill":
        methods.insert(0, "distilled")
    if not parent:
        return ", ".join([config.model.name, *methods])
    parent = bases.find(parent, folder)
    there = os.path.isfile(os.path.join(parent, run_config.NAME))
    return ", ".join([made_by(parent) if there else parent, *(methods or ["fine-tuned"])])


def _names(section):
    """Names of the reparametrizations of a section."""
    if section.name == "compose":
        return [name for part in section.parts for name in _names(part)]
    return [] if section.name == "none" else [section.name]


def quality(experiment, *, file=""):
    """``(metric, lower, value)`` on the run's test set; `file` is that of the weights, "" for the run's own."""
    return figure_of(experiment.config, kept(experiment, file) or experiment.report())


def figure_of(config, figures):
    """``(metric, lower, value)``: the figure that measures a run's quality, and whether less is better."""
    metric, lower = config.select, config.select_mode == "min"
    if metric in ("loss", "perplexity"):
        metric = next((name for name in FIGURES if name in figures), metric)
        lower = metric == "loss"
    if not isinstance(figures.get(metric), int | float):
        raise errors.DataError(f"the evaluation has no figure {metric!r}; run eval.py again")
    return metric, lower, float(figures[metric])


def kept(experiment, file=""):
    """The figures of an earlier evaluation of this model in the run's ``eval/``, or None."""
    made = {"data": experiment.test, "checkpoint": experiment.step}
    if hasattr(experiment.task, "decoding"):
        made["decoding"] = experiment.task.decoding()
    for path, found in eval_files.read(experiment.workdir):
        same = all(found.get(key) == value for key, value in made.items())
        fresh = not file or os.path.getmtime(path) >= os.path.getmtime(file)
        if same and fresh and found.get("weights", "") == os.path.basename(file):
            return found
    return None


def size(experiment):
    """Bytes of a run's weights, or of what it stores, if that is less."""
    reparam = compose.build(experiment.config.reparam)
    stored = jax.eval_shape(lambda: assembly.initial_params(experiment.config, experiment.model, reparam=reparam))
    return min(trees.nbytes(experiment.weights), trees.nbytes(stored))


def candidates(folder):
    """Yields ``(file or "", experiment, bytes)`` for a run and for each of its files."""
    experiment = lwt.load(folder)
    if not hasattr(experiment.task, "generate") and not hasattr(experiment.task, "predict"):
        raise errors.ConfigError(f"{folder}: task.name={experiment.config.task.name!r} gives no answers")
    yield "", experiment, size(experiment)
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "export", "*.safetensors"))):
        try:
            yield path, experiment.with_file(path), os.path.getsize(path)
        except errors.CheckpointError as error:
            LOG.info("skipped: %s", error)


def title(experiment):
    """The name of a task: its test set, with the data that it is part of."""
    name = experiment.test
    return name if ":" in name else f"{experiment.config.data.train.partition('@')[0]}@{name}"


def collect(folders):
    """Quality and bytes of all runs: ``[(point, experiment)]``, where the first of several seeds is the experiment.

    Runs that cannot be measured are logged and skipped.
    """
    found = {}  # task, metric and name -> points and experiments of the seeds
    root = os.path.commonpath([os.path.dirname(os.path.abspath(folder)) for folder in folders])
    for folder in folders:
        try:
            check_finished(folder)
            for file, experiment, count in candidates(folder):
                metric, lower, value = quality(experiment, file=file)
                name = re.sub(r"[-_]?seed\d+", "", os.path.relpath(os.path.abspath(folder), root))
                if file:
                    name += f", {os.path.splitext(os.path.basename(file))[0]}"
                point = Point(name, made_by(folder), title(experiment), metric, lower, value, 1, count)
                found.setdefault((point.task, metric, name), []).append((point, experiment))
        except errors.LwtError as error:
            LOG.info("skipped: %s", error)
    joined = []
    for own in found.values():
        mean = statistics.fmean(point.quality for point, _ in own)
        joined.append((dataclasses.replace(own[0][0], quality=mean, seeds=len(own)), own[0][1]))
    return joined


def measure(found, *, rounds):
    """The points of `collect` with times; the models of a task take turns."""
    points = []
    for group in groups(point for point, _ in found):
        own = {point: experiment for point, experiment in found if (point.task, point.metric) == group}
        seconds = latency.of_runs(
            {point.name: experiment for point, experiment in own.items()}, rows=ROWS, rounds=rounds
        )
        for point in own:
            alone, together = seconds[point.name]
            points.append(dataclasses.replace(point, milliseconds=1e3 * alone, rate=ROWS / together))
        jax.clear_caches()
    return points
