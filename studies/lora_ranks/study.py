"""The study of LoRA's rank on one trained base: searches of rates, the runs with the rates found, and the report.

    python -m studies.lora_ranks --base=pretrained/multi30k --workdir=runs/ranks --out=docs/results/lora_ranks
    python -m studies.lora_ranks --base=pretrained/multi30k --workdir=runs/ranks --only=rank8
    python -m studies.lora_ranks --base=pretrained/multi30k --workdir=runs/ranks --report_only

Every method of `METHODS` trains at all ranks, and gets the same search of its learning rate (`lwt/report/search.py`):
five runs of `SEARCH_STEPS` steps with seed 0, judged by the loss on the validation set, at each rank in `SEARCHED`.
Ranks in between take the rate on the line through their neighbours. LoRA+ has a search for each ratio at rank
`rows.RATIO_RANK`; the other ranks take the ratio that was best there. No choice sees the test set.

Runs have names like ``rank16-lora-one-seed0``, searches like ``search-rank8-dora``. How runs are chosen, resumed and
reported: `lwt/report/study.py`.
"""

import dataclasses
import functools
import os
import re

from absl import flags

from lwt.inspect import cost
from lwt.machine import hardware
from lwt.report import plots, search, study
from lwt.runs import checkpoint, config_file, experiment, run_config
from studies.lora_ranks import report as rank_report
from studies.lora_ranks import rows as tables

CONFIG = "configs/lora_ranks.py"
RECORD = os.path.join("eval", "rank_study.json")
RANKS = (1, 2, 4, 8, 16, 32)
SEARCHED = (1, 8, 32)
STEPS, SEARCH_STEPS = 2_000, 1_000
METHODS = (
    dict(method="lora", scaling="one"),
    dict(method="lora", scaling="alpha/r"),
    *(dict(method=method) for method in ("rslora", "lora_plus", "singlora", "dora", "pissa", "olora")),
)
UNRANKED = (dict(method="bitfit"), dict(method="full"))
LONGER = dict(rank=8, method="lora", scaling="one", steps=6_000)  # what rank 8 reaches with time
RATIOS = (2, 4, 8, 16, 32)  # of LoRA+; 1 is LoRA


def entries(base, *, seeds=3, more=""):
    """All searches, then all runs, seed by seed.

    Args:
        base: workdir or bundle of the run that all start from.
        more: further arguments of every run.
    """
    settings = [dict(rank=rank, **row) for row in METHODS for rank in RANKS]
    at_ratios = [dict(rank=tables.RATIO_RANK, method="lora_plus", ratio=ratio) for ratio in RATIOS]
    settings = [row for row in settings if row not in _without_ratio(at_ratios)] + at_ratios + [*UNRANKED]
    rows = [dict(row, stage="search") for row in settings if row.get("rank", tables.RATIO_RANK) in SEARCHED]
    rows += [dict(row, seed=seed) for seed in range(seeds) for row in settings] + [dict(LONGER, seed=0)]
    return [_entry(row, base, more=more) for row in rows]


def _without_ratio(rows):
    return [{key: value for key, value in row.items() if key != "ratio"} for row in rows]


def _entry(arguments, base, *, more):
    steps = SEARCH_STEPS if "stage" in arguments else STEPS
    own = {"steps": steps} | {key: value for key, value in arguments.items() if key != "stage"}
    return study.Entry(name_of(arguments), arguments, study.spec_of(CONFIG, {"base": base, **own}, more=more))


def name_of(arguments):
    """``{"rank": 16, "method": "lora", "scaling": "one", "seed": 0}`` -> ``"rank16-lora-one-seed0"``."""
    parts = ["search"] if "stage" in arguments else []
    parts += [f"rank{arguments['rank']}"] if "rank" in arguments else []
    parts += [arguments["method"], *filter(None, [arguments.get("scaling")])]
    parts += [f"ratio{arguments['ratio']}"] if "ratio" in arguments else []
    parts += [f"steps{arguments['steps']}"] if "steps" in arguments else []
    parts += [f"seed{arguments['seed']}"] if "seed" in arguments else []
    return re.sub(r"[^\w.-]+", "_", "-".join(parts))


def run(entry, workdir, *, searches):
    """Searches, trains or resumes `entry` unless it is finished; returns its record.

    Args:
        searches: ``{name: entry}`` of all searches; those that a run needs are made first.
    """
    if entry.name in searches:
        spec = with_ratio(entry, workdir, searches=searches)
        own = dataclasses.replace(entry, spec=spec)
        return search.run(
            own, workdir, record=RECORD, config_of=config_of, measure=figures_of, metric="loss", lower=True
        )
    spec = with_ratio(entry, workdir, searches=searches)
    rate = rate_of(entry, workdir, searches=searches)
    own = dataclasses.replace(entry, spec=f"{spec},rate={rate:g}")
    return study.run(own, workdir, measure=measure, record=RECORD, config=config_of(own.spec))


def with_ratio(entry, workdir, *, searches):
    """The spec of an entry; LoRA+ without a ratio takes the one that was best at rank `rows.RATIO_RANK`."""
    if entry.arguments["method"] != "lora_plus" or "ratio" in entry.arguments:
        return entry.spec
    return f"{entry.spec},ratio={best_ratio(workdir, searches=searches)}"


def best_ratio(workdir, *, searches):
    """The ratio of LoRA+ whose best trial has the lowest validation loss."""
    lowest = {}
    for ratio in RATIOS:
        name = search_of(dict(rank=tables.RATIO_RANK, method="lora_plus", ratio=ratio))
        found = run(searches[name], workdir, searches=searches)
        lowest[ratio] = min(trial["loss"] for trial in found["tried"] if "loss" in trial)
    return min(lowest, key=lowest.get)


def rate_of(entry, workdir, *, searches):
    """The rate of a run, from the searches of its method and ratio."""
    own = {key: value for key, value in entry.arguments.items() if key not in ("seed", "steps")}
    if "rank" not in own or "ratio" in own:
        return run(searches[search_of(own)], workdir, searches=searches)["rate"]
    found = {}
    for rank in [own["rank"]] if own["rank"] in SEARCHED else SEARCHED:
        about = dict(own, rank=rank)
        if own["method"] == "lora_plus" and rank == tables.RATIO_RANK:
            about["ratio"] = best_ratio(workdir, searches=searches)
        found[rank] = run(searches[search_of(about)], workdir, searches=searches)["rate"]
    return search.interpolated(found, own["rank"])


def search_of(arguments):
    """The name that the search of a setting has, if there is one."""
    return name_of({key: value for key, value in arguments.items() if key != "seed"} | {"stage": "search"})


def config_of(spec):
    """The config of a run or trial; its loss is logged often, since the page compares speeds."""
    config = config_file.load(spec)
    with config.unlocked():
        config.log_every = min(config.log_every, 50)
    return config


def figures_of(folder):
    """The figures of a trial: those of the last evaluation on the validation set."""
    saved = checkpoint.of_run(folder)
    return {name: value for name, value in saved.metrics(saved.last_step()).items() if isinstance(value, float)}


def measure(entry, folder):
    """The record of a run: figures of the best checkpoint on the test set, and the training loss."""
    del entry
    trained = experiment.load(folder)
    return {
        "learning_rate": trained.config.optimizer.learning_rate,
        "ratio": trained.config.optimizer.lora_plus,
        "checkpoint": trained.step,
        "split": trained.config.data.test,
        "figures": trained.report(),
        "parameters": cost.parameters(trained.config, vocabulary=trained.tokenizer.vocabulary),
        "curve": plots.read(folder, "train/loss"),
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
        "base": measure_base(trained.config.init_from),
    }


def measure_base(workdir):
    """What the page says of the run that all start from: its data, its length, and the figures of its best step."""
    config = run_config.read(workdir)
    saved = checkpoint.of_run(workdir, config)
    step = saved.best_step() or saved.last_step()
    figures = {name: value for name, value in saved.metrics(step).items() if isinstance(value, float)} if step else {}
    about = {"data": config.data.train, "steps": config.steps, "checkpoint": step}
    return about | {"workdir": workdir, "figures": figures}


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(values.base, seeds=values.seeds, more=values.arguments)
    if not values.report_only:
        run_config.read(values.base)  # one error, not one for every run
    searches = {entry.name: entry for entry in found if "stage" in entry.arguments}
    given = dict(write=rank_report.write, record=RECORD, config=lambda entry: config_of(entry.spec))
    study.main(found, functools.partial(run, searches=searches), **given)
