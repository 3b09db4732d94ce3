"""Fine-tunes a small text model on the parts of a table: one run, or the best of several within a time."""

import dataclasses
import itertools
import json
import logging
import os
import pathlib
import random
import shutil

import jax
import numpy as np

from lwt import errors, files
from lwt.data import text, tokenizer, tokenizer_files
from lwt.report import plots, study
from lwt.runs import config_file, pretrained, run_config
from lwt.training import train

LOG = logging.getLogger(__name__)
MODEL = "embbert"  # unless the user names one
SCRATCH = ("embedder", "bert_tiny")  # models without trained weights here
UNKNOWN, SAMPLE = 0.1, 1000  # share of unknown tokens of so many texts beyond which the trained weights are of no use
BASES = ("embbert-small-tables", "embbert-encoder")  # of the model `MODEL`: the first that is there
STEPS = 500  # of a run on a small table ...
EPOCHS = (3, 30)  # ... within these epochs, because a pass over a large table is enough for it
ROWS = 32  # of a batch
ADAPTED = dict(method="lora")  # how a model of Hugging Face is tuned; its rate and epochs are those of the config
RATES, LENGTHS = (1.0, 0.5, 2.0), (1.0, 2.0, 0.5)  # the search: factors on the rate and the epochs
DROPOUTS, DROPOUTS_OF_LARGE = (0.2, 0.0, 0.4), (0.0, 0.1)  # and word dropout; the usual value comes first
TRIALS = "trials.jsonl"


@dataclasses.dataclass(frozen=True)
class Start:
    """How to make and start a model.

    Attributes:
        name: of the model, as a user gives it.
        config, arguments: the name of a config file, and its arguments.
        about: a sentence on the model.
        large: whether it is a model of Hugging Face, which is tuned in another way.
    """

    name: str
    config: str
    arguments: dict
    about: str
    large: bool = False


def start(model, *, base=""):
    """The `Start` of a model.

    Args:
        model: `MODEL`, one of `SCRATCH`, or what a base can be: ``hf:FOLDER``, or the folder of a run or bundle.
        base: what it starts from instead.

    Raises:
        lwt.errors.ConfigError: there is no such model.
    """
    given = base or model
    bundles = [name for name in BASES if name in pretrained.names()]
    if given in SCRATCH or (given == MODEL and not bundles):
        return scratch(given)
    if given == MODEL:
        folder = _relative(pretrained.folder(bundles[0]))
        return Start(given, "finetune", {"base": folder}, f"{given}, from the trained weights of {folder}")
    large = given.startswith("hf:")
    if not large and not os.path.isdir(given):
        known = ", ".join([MODEL, *SCRATCH, "hf:FOLDER", "or a folder"])
        raise errors.ConfigError(
            f"--{'base' if base else 'model'}={given}: there is no such model; choose from {known}"
        )
    arguments = {"base": given, **(ADAPTED if large else {})}
    return Start(given, "finetune", arguments, f"the trained weights of {given}", large)


def suited(started, texts):
    """A model that knows the language of the texts: `started`, or one from scratch.

    Args:
        started: the `Start` of `MODEL`.
        texts: those of the training part.

    Returns:
        The `Start`, and sentences that say why it is another one.
    """
    base = started.arguments.get("base")
    if not base:
        return started, []
    own = tokenizer_files.of_run(base, specials=tokenizer.ENCODER)
    cleaner = text.Cleaner(**run_config.read(base).data.clean)
    ids = own.encode([cleaner.clean(one) for one in texts[:SAMPLE]])
    share = tokenizer.unknown_share(np.array([*itertools.chain.from_iterable(ids)], int), own)
    if share <= UNKNOWN:
        return started, []
    return scratch(SCRATCH[0]), [
        f"{100 * share:.2g} % of the tokens are unknown to {MODEL}, whose trained weights are of another language. So "
        f"{SCRATCH[0]} learns from these texts alone, with a vocabulary of its own; --model={MODEL} trains {MODEL} all "
        "the same, and --model=hf:FOLDER starts from a model of your language."
    ]


def scratch(model):
    """The `Start` of a model of `configs/embbert_pretrain.py` without trained weights.

    Small initial tables matter on small data: after 4 epochs on Emotion, Embedder has 88.0 % with them and 68.7 % with
    those of the paper's code (``configs/embbert_finetune.py:model=embedder,task=emotion,recipe=tuned,epochs=4``, with
    ``tables=small`` and without; one seed).
    """
    arguments = {"model": model, "recipe": "tuned", "tables": "small"}
    return Start(model, "embbert_finetune", arguments, f"{model}, from scratch")


def make_config(started, *, data, text, label, rows, seed=0, teacher="", epochs=0, settings=None, apart=False):
    """The config of a run.

    Args:
        started: a `Start`.
        data: the folder of the parts.
        text, label: the columns.
        rows: of the training part.
        epochs: 0 for what suits the number of rows, or for a model of Hugging Face the config's.
        settings: of a trial: factors on ``rate`` and ``epochs``, and ``word_dropout``.
        apart: whether n-grams are fitted after the training: then the network has no table of them, as a base may have.
    """
    settings = settings or {}
    least, most = EPOCHS
    if not epochs and not started.large:
        epochs = min(most, max(least, round(STEPS * ROWS / rows)))
    given = {**started.arguments, "data": f"folder:{data}", "seed": seed, "teacher": teacher, "epochs": epochs}
    given = {key: value for key, value in given.items() if value not in ("", 0)}
    if teacher:  # it reads the whole texts once, and may have another tokenizer
        given["word_dropout"] = 0.0
    elif "word_dropout" in settings:
        given["word_dropout"] = settings["word_dropout"]
    spec = f"{started.config}:" + ",".join(f"{key}={value}" for key, value in given.items())
    config = config_file.load(spec).copy_and_resolve_references()
    with config.unlocked():
        config.data.fields, config.data.label, config.data.leak_free = (text,), label, True
        config.data.max_malformed = 0.0
        if apart:
            config.model.ngram_weights = 0
        config.epochs = float(max(1, round(config.epochs * settings.get("epochs", 1.0))))
        config.optimizer.learning_rate *= settings.get("rate", 1.0)
    return config


def search(config_of, workdir, *, folder, seconds, dropouts=DROPOUTS, seed=0):
    """Trains runs with other rates, epochs and word dropout until the time is over; the best becomes the run `workdir`.

    The first has the usual settings. A run starts only if the time is enough for it, at the pace of those before. The
    best has the highest MCC on the validation set and, of equal ones, the lowest loss there.

    Args:
        config_of: ``(settings) -> config``.
        folder: keeps the trials; a search that was stopped continues there.
        seconds: for all runs together.
        dropouts: the shares of masked words to try.
        seed: of the order of the trials.

    Returns:
        What was tried, a list of ``{"trial", "settings", "mcc", "loss", "seconds"}``.
    """
    folder = pathlib.Path(folder)
    record = folder / TRIALS
    tried = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    for number, settings in enumerate(_grid(dropouts, seed)):
        if any(trial["settings"] == settings for trial in tried):
            continue
        pace = max((trial["seconds"] / trial["settings"]["epochs"] for trial in tried), default=0.0)
        left = seconds - sum(trial["seconds"] for trial in tried)
        if tried and pace * settings["epochs"] > left:
            continue
        LOG.info("trial %d: %s; %.0f s are left", number + 1, _shown(settings), left)
        place = folder / f"trial{number:03}"
        train.run(config_of(settings), str(place))
        tried.append({"trial": place.name, "settings": settings, **_figures(place), "seconds": study.seconds(place)})
        files.write_text(record, "".join(json.dumps(trial) + "\n" for trial in tried))
        jax.clear_caches()
    best = best_of(tried)
    shutil.copytree(folder / best["trial"], workdir, dirs_exist_ok=True)
    return tried


def best_of(tried):
    """The trial with the highest MCC and, of equal ones, the lowest loss on the validation set."""
    return max(tried, key=lambda trial: (trial["mcc"], -trial["loss"]))


def described(tried):
    """A sentence for each trial."""
    best = best_of(tried)
    return [
        f"{_shown(trial['settings'])}: MCC {trial['mcc']:.4f}, loss {trial['loss']:.4f} on the validation set, "
        f"{trial['seconds']:.0f} s" + ", the best" * (trial is best)
        for trial in tried
    ]


def _grid(dropouts, seed):
    """The settings of all trials: the usual ones first, then one change each, then all others in random order."""
    usual = {"rate": RATES[0], "epochs": LENGTHS[0], "word_dropout": dropouts[0]}
    values = {"rate": RATES, "epochs": LENGTHS, "word_dropout": dropouts}
    found = [usual, *({**usual, key: value} for key in values for value in values[key][1:])]
    rest = [
        {"rate": rate, "epochs": epochs, "word_dropout": dropout}
        for rate in values["rate"]
        for epochs in values["epochs"]
        for dropout in values["word_dropout"]
    ]
    rest = [settings for settings in rest if settings not in found]
    random.Random(seed).shuffle(rest)
    return found + rest


def _figures(workdir):
    """The best ``mcc`` of a run's validation set, and the ``loss`` there."""
    steps, values = plots.read(workdir, "validation/mcc")
    losses = dict(zip(*plots.read(workdir, "validation/loss"), strict=True))
    best = max(zip(values, steps, strict=True), key=lambda pair: (pair[0], -losses[pair[1]]))
    return {"mcc": best[0], "loss": losses[best[1]]}


def _shown(settings):
    return f"rate × {settings['rate']:g}, epochs × {settings['epochs']:g}, word dropout {settings['word_dropout']:g}"


def _relative(path):
    """A path from the current folder, if it is below it."""
    path = pathlib.Path(path)
    return str(path.relative_to(pathlib.Path.cwd())) if path.is_relative_to(pathlib.Path.cwd()) else str(path)
