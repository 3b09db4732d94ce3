"""Studies whose settings all get the same search of the learning rate: what their programs share.

A setting is a dict of arguments. Its search, ``search-SETTING``, trains with seed 0 for half of a run at each rate and
is judged on the validation set (`lwt/report/search.py`). Its runs, ``SETTING-seedN``, take the best rate. How runs are
chosen, resumed and reported: `lwt/report/study.py`.
"""

import functools
import math
import statistics

from absl import flags

from lwt import errors
from lwt.machine import hardware
from lwt.report import results, search, study

SEARCH = {"stage": "search"}
EDGES = "A star marks the best rate if it is the lowest or the highest one tried: a better one may lie beyond."


def entries(settings, *, of, seeds, smoke=False):
    """The searches of all `settings`, then their runs seed by seed: a list of `study.Entry`.

    Args:
        settings: dicts of arguments, in the order of the page.
        of: ``(setting, seed) -> spec``, the ``FILE.py:key=value,...`` of a run.
        seeds: runs of every setting.
        smoke: whether to train tiny models for two steps each.
    """
    rows = [SEARCH | setting for setting in settings]
    rows += [setting | {"seed": seed} for seed in range(seeds) for setting in settings]
    more = ",smoke=true" if smoke else ""
    return [study.Entry(name_of(row), row, of(row, row.get("seed", 0)) + more) for row in rows]


def name_of(arguments):
    """``emotion-embbert-seed0``, ``translation-layers4-heads2-seed0``, or ``search-emotion-embbert``."""
    own = {key: value for key, value in arguments.items() if key != "stage"}
    texts = [value if isinstance(value, str) else f"{key}{value}" for key, value in own.items()]
    return "-".join([*filter(None, [arguments.get("stage")]), *texts])


def per_seed(bases, seeds):
    """The base of each seed: of one base, the same for all; of several, the i-th is that of seed i.

    Raises:
        lwt.errors.ConfigError: there are several bases, but not one for each seed.
    """
    if len(bases) not in (1, seeds):
        raise errors.ConfigError(f"--base names {len(bases)} runs, --seeds is {seeds}: give one run, or one for a seed")
    return bases * (seeds // len(bases))


def search_of(entry):
    """The name of the search that a run takes its rate from."""
    return name_of(SEARCH | {key: value for key, value in entry.arguments.items() if key != "seed"})


def shortened(config, entry):
    """The `config` of a run; that of a search is made half as long, unless it is a smoke run."""
    if is_search(entry.arguments) and "smoke" not in entry.spec:
        length = "epochs" if config.epochs else "steps"
        with config.unlocked():
            config[length] = type(config[length])(config[length] / 2)
    return config


def is_search(arguments):
    """Whether the `arguments` of an entry or of a record are those of a search."""
    return SEARCH.items() <= arguments.items()


def run(entry, workdir, *, known, rates, record, config_of, measure, metric, lower=False, trials=0):
    """Searches a rate, or trains or resumes a run at the rate that its search finds, unless that is done.

    Args:
        entry: one of `entries`.
        workdir: of the study.
        known: all entries by name.
        rates: that the search begins with, ascending.
        record: path of the record in a run's folder.
        config_of: ``entry -> config``.
        measure: ``(entry, folder) -> dict`` of a run; see `study.run`.
        metric: the figure of the validation set that chooses a rate.
        lower: whether low values of it are good.
        trials: number of rates that the search tries; 0: the `rates` alone.

    Returns:
        The record.
    """
    searching = dict(rates=rates, trials=trials, record=record, config_of=config_of, metric=metric, lower=lower)
    if is_search(entry.arguments):
        return search.of_rates(entry, workdir, **searching)
    own = search.at_best(entry, search.of_rates(known[search_of(entry)], workdir, **searching))
    return study.run(own, workdir, measure=measure, record=record, config=config_of(own))


def facts(trained, folder):
    """What the record of every run has: the checkpoint, the figures on the test set, rate, time and machine.

    Args:
        trained: the run, opened by `lwt.runs.experiment.load`.
        folder: of the run.
    """
    return {
        "epochs": trained.config.epochs,
        "checkpoint": trained.step,
        "figures": trained.report(),
        "rate": trained.config.optimizer.learning_rate,
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def parted(records):
    """The records of the runs and those of the searches, of ``{name: record}``; others are in neither list."""
    runs = [record for record in records.values() if "stage" not in record["arguments"]]
    return runs, [record for record in records.values() if is_search(record["arguments"])]


def grouped(runs, *, order, by, **wanted):
    """``{key: runs}`` of the records `runs`, in the given order of the keys, seed by seed; keys without runs are out.

    Args:
        runs: records.
        order: the keys.
        by: the argument that has the key.
        wanted: other arguments that a run must have.
    """
    own = [record for record in runs if wanted.items() <= record["arguments"].items()]
    own.sort(key=lambda record: record["arguments"]["seed"])
    found = {key: [record for record in own if record["arguments"][by] == key] for key in order}
    return {key: found[key] for key in order if found[key]}


def accuracies(runs):
    """The accuracy of each run on the test set in per cent."""
    return [100 * record["figures"]["accuracy"] for record in runs]


def error_of(runs):
    """A sentence on the standard error of an accuracy that the size of the test set gives (binomial)."""
    count = runs[0]["figures"]["records"]
    share = statistics.fmean(record["figures"]["accuracy"] for record in runs)
    error = 100 * math.sqrt(share * (1 - share) / count)
    return f"The standard error of an accuracy of {100 * share:.1f} % on {count:,} texts is {error:.1f} points."


def about(searches):
    """The sentences above the `table` of searches."""
    label = results.shown(searches[0]["metric"])[0]
    return edges(searches, f"{label[0].upper()}{label[1:]} on the validation set after half of the training, by rate.")


def edges(searches, text):
    """The `text` above a `table` of searches, with a sentence on its stars if it has any."""
    return f"{text} {EDGES}" if any(map(at_edge, searches)) else text


def at_edge(record):
    """Whether the best rate of a search is the lowest or the highest of several that were tried."""
    rates = [trial["rate"] for trial in record["tried"]]
    return len(rates) > 1 and record["rate"] in (min(rates), max(rates))


def table(searches, *, labels):
    """The Markdown table of searches: a line for each, with the score at every rate, shares in per cent.

    The best score has a star if its rate is at an edge.

    Args:
        searches: records.
        labels: ``{header: record -> cell}`` of the columns before the scores.
    """
    rates = sorted({trial["rate"] for record in searches for trial in record["tried"]})
    body = []
    for record in searches:
        tried, metric = {trial["rate"]: trial for trial in record["tried"]}, record["metric"]
        factor = results.named(metric)[2]
        shown = ".1f" if factor == 100 else ".3f"
        scores = [tried[rate].get(metric) if rate in tried else "–" for rate in rates]
        cells = [
            "diverged" if score is None else score if score == "–" else f"{factor * score:{shown}}" for score in scores
        ]
        if at_edge(record):
            cells[rates.index(record["rate"])] += "*"
        body.append([*(cell(record) for cell in labels.values()), *cells])
    return results.markdown([*labels, *(f"{rate:g}" for rate in rates)], body)


def main(find, run, *, write, record, config):
    """The program of such a study.

    Args:
        find: `entries` of the study: ``(*, seeds, smoke) -> entries``.
        run: ``(entry, workdir, *, known) -> record``.
        write: see `study.main`.
        record: path of the record in a run's folder.
        config: ``entry -> config``, or None for what has no config.
    """
    values = flags.FLAGS
    found = find(seeds=values.seeds, smoke=values.smoke)
    known = {entry.name: entry for entry in found}
    study.main(found, functools.partial(run, known=known), write=write, record=record, config=config)


def start(main):
    """Defines the flags of such a study and starts its program."""
    study.define_flags()
    study.start(main)
