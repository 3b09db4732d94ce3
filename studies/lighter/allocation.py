"""Compares ranks allocated by importance with one rank for all weights, at equal adapter parameters.

    python -m studies.lighter.allocation --base=runs/snips --data=folder:nlu --workdir=runs/allocation \\
        --out=docs/results/allocation
    python -m studies.lighter.allocation --base=runs/a,runs/b,runs/c --workdir=runs/allocation
    python -m studies.lighter.allocation --base=runs/snips --workdir=runs/allocation --only=uniform --seeds=1

LoRA+ on the frozen base learns other data, with a new head: with one rank for every linear layer (`RANKS`), and with
the ranks that `lwt/compress/allocate_ranks.py` finds in the largest of these adapters of the same seed, under the
budget of each smaller one, by each of `SCORES`. All adapters are trained from scratch with `configs/lightweight.py`,
for the same epochs. With several bases, the i-th (from 0) is that of seed i.

Every setting gets the same search of three rates. How rates are searched, and runs are chosen, resumed and reported:
`lwt/report/searched.py`. A run with allocated ranks first trains the largest uniform run of its seed if it does not
exist; the jobs of an array should find it finished.
"""

import functools
import os

from absl import flags

import lwt
from lwt import trees
from lwt.compress import allocate_ranks
from lwt.inspect import measuring
from lwt.reparam import compose
from lwt.report import pages, plots, results, searched, study
from lwt.runs import checkpoint, config_file

CONFIG = "configs/lightweight.py"
RECORD = os.path.join("eval", "allocation_study.json")
RANKS = (1, 2, 4, 8, 16)
SCORES = ("adalora", "energy")
UNIFORM = "uniform"
RATES = (1.25e-4, 5e-4, 2e-3)  # of the search; B's are 16 times as large
TITLES = {UNIFORM: "one rank", "adalora": "allocated by importance (AdaLoRA's)", "energy": "allocated by energy"}
HOW_TO_READ = """\
Quality is measured on the test set: mean ± standard deviation over the seeds. A budget is a number of adapter
parameters: as many as adapters of the given rank on all linear layers have. Allocated ranks may leave a few of them
unused. "Rank of a weight" is the range of the ranks (seed 0), and the number of weights with an adapter.
Every rate is the best of three on the validation set, with seed 0 and half of the training. "Difference" is relative
to one rank with the same budget and seed, in points.

The ranks are found in an adapter of rank {largest} that was trained before, for the same epochs with the same seed: an
allocated adapter costs this training, too. AdaLoRA itself changes the ranks while it trains. All adapters are LoRA+:
their b learns at 16 times the rate. Where one rank has a large standard deviation, some seeds did not converge.
"""


def entries(bases, workdir, *, data, epochs, seeds=3, smoke=False):
    """The searches and runs of the study, the largest rank first.

    Args:
        bases: folders of the runs to adapt: one, or one for each seed.
        workdir: folder of the study.
        data: the training set, ``KIND:NAME``.
        epochs: of each run.
        seeds: number of runs of every setting.
        smoke: train two steps each.

    Raises:
        lwt.errors.ConfigError: there are several bases, but not one for each seed.
    """
    bases = searched.per_seed(bases, seeds)

    def spec_of(setting, seed):
        rank = setting["rank"]
        given = dict(base=bases[seed], method="lora_plus", rank=rank, data=data, epochs=epochs, seed=seed)
        given |= {} if setting["ranks"] == UNIFORM else dict(ranks=allocated(workdir, setting, seed))
        return study.spec_of(CONFIG, given)

    largest_first = sorted(RANKS, reverse=True)
    settings = [dict(ranks=UNIFORM, rank=rank) for rank in largest_first]
    settings += [dict(ranks=how, rank=rank) for how in SCORES for rank in largest_first[1:]]
    return searched.entries(settings, of=spec_of, seeds=seeds, smoke=smoke)


def allocated(workdir, setting, seed):
    """The folder of the allocated ranks of a setting and seed."""
    return os.path.join(workdir, "ranks", f"{setting['ranks']}-rank{setting['rank']}-seed{seed}")


def config_of(entry):
    """The config of a run, or of a trial of a search."""
    return searched.shortened(config_file.load(entry.spec), entry)


def run(entry, workdir, *, known):
    """Trains or resumes a run, or searches a rate, unless that is done; returns the record; see `searched.run`."""
    own = entry.arguments
    if own["ranks"] != UNIFORM:
        if not searched.is_search(own):
            run(known[searched.search_of(entry)], workdir, known=known)  # with the ranks of seed 0
        seed, kept = own.get("seed", 0), study.read_record(os.path.join(workdir, entry.name), RECORD)
        if kept and not os.path.isdir(allocated(workdir, own, seed)):
            return kept  # of ``--records``; its ranks are elsewhere
        allocate(own, workdir, seed=seed, known=known)
    config = config_of(entry)
    judged = dict(metric=config.select, lower=config.select_mode == "min")
    given = dict(rates=RATES, record=RECORD, config_of=config_of, measure=measure)
    return searched.run(entry, workdir, known=known, **given, **judged)


def allocate(setting, workdir, *, seed, known):
    """Finds the ranks of a setting in the largest uniform run of the seed, unless that is done."""
    folder = allocated(workdir, setting, seed)
    if checkpoint.of_run(folder).last_step() is not None:
        return
    name = searched.name_of(dict(ranks=UNIFORM, rank=RANKS[-1], seed=seed))
    run(known[name], workdir, known=known)
    source = lwt.load(os.path.join(workdir, name), checkpoint="last")
    given = dict(budget=setting["rank"] / RANKS[-1], which=setting["ranks"])
    allocate_ranks.reallocate(
        source, folder, base=source.base(), pattern=compose.build(source.config.reparam).targets, **given
    )


def measure(entry, folder):
    """The record of a run: its test figures, and the adapter's size and ranks."""
    del entry
    trained = lwt.load(folder)
    metric, _, quality = measuring.quality(trained)
    adapter = {
        name: w for name, w in trees.subtree(trained.stored()[0], "adapter").items() if name.endswith(("/a", "/b"))
    }
    ranks = {name.removesuffix("/a"): w.shape[1] for name, w in adapter.items() if name.endswith("/a")}
    return searched.facts(trained, folder) | {
        "base": trained.config.init_from,
        "learned": trained.config.data.train,
        "metric": metric,
        "quality": quality,
        "parameters": trees.count(adapter),
        "ranks": ranks,
        "spread": {"smallest": min(ranks.values()), "largest": max(ranks.values()), "weights": len(ranks)},
    }


def rows_of(runs, *, command_line):
    """Rows for ``results.json``: quality and adapter parameters of every run."""
    rows = []
    for record in runs:
        fixed = results.of_run(record, command_line=command_line)
        values = {record["metric"]: record["quality"], "parameters": record["parameters"]}
        rows += [fixed | {"metric": name, "value": value} for name, value in values.items()]
    return rows


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and ranks.png into the folder `out`; see `study.main`."""
    page = pages.Page(out, "Ranks allocated by importance", command_line=command_line)
    runs, searches = searched.parted(records)
    page.rows(rows_of(runs, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)))
    if runs:
        bases = sorted({record["base"] for record in runs})
        several = len(bases) > 1
        page.add(
            f"The frozen {'models' if several else 'model'} `{', '.join(bases)}` {'learn' if several else 'learns'} "
            f"`{runs[0]['learned']}` for {runs[0]['epochs']:g} epochs: {pages.effort(runs)}, without the searches.",
            HOW_TO_READ.format(largest=RANKS[-1]),
        )
        label, factor = results.shown(runs[0]["metric"])
        groups = grouped(runs)
        draw(page.picture("ranks.png", "quality over rank and parameters"), groups, label=label, factor=factor)
        page.add(table(groups, label=label, factor=factor))
    if searches:
        labels = {
            "budget": lambda record: str(record["arguments"]["rank"]),
            "ranks": lambda record: TITLES[record["arguments"]["ranks"]],
        }
        page.add("## Searches", searched.about(searches), searched.table(searches, labels=labels))
    return page.write()


def grouped(runs):
    """``{(ranks, rank): records}`` of the runs, budget by budget."""
    found = {}
    for rank in RANKS:
        own = [record for record in runs if record["arguments"]["rank"] == rank]
        found |= {(how, rank): same for how, same in searched.grouped(own, order=TITLES, by="ranks").items()}
    return found


def table(groups, *, label, factor):
    """The Markdown table: a line for every budget and way to spend it, compared seed by seed with one rank."""
    body = []
    for (how, rank), own in groups.items():
        one = {record["arguments"]["seed"]: record["quality"] for record in groups.get((UNIFORM, rank), [])}
        pairs = [(record["quality"], one.get(record["arguments"]["seed"])) for record in own]
        gaps = [mine - others for mine, others in pairs if others is not None]
        gap = results.Cell.of(gaps, scale=factor) if gaps and how != UNIFORM else None
        allocated = "{smallest} to {largest}, of {weights} weights".format(**own[0]["spread"])
        quality = results.Cell.of([record["quality"] for record in own], scale=factor)
        parameters = f"{own[0]['parameters']:,}"
        about = [str(rank), TITLES[how], parameters, f"{rank}" if how == UNIFORM else allocated, f"{own[0]['rate']:g}"]
        body.append([*about, quality.text(2), gap.short(2, sign="+") if gap else "–"])
    header = ["budget", "ranks", "adapter parameters", "rank of a weight", "rate", label, "difference"]
    return results.markdown(header, body)


def draw(path, groups, *, label, factor):
    """Quality over the rank, and over the adapter's parameters."""
    series, parameters = {}, {}
    for (how, rank), own in groups.items():
        series.setdefault(TITLES[how], {})[rank] = [factor * record["quality"] for record in own]
        parameters.setdefault(TITLES[how], {})[rank] = own[0]["parameters"]
    plots.ranks(series, path, parameters=parameters, label=label, title="One rank for all weights, or ranks by need")


def main():
    """The program."""
    values = flags.FLAGS
    given = {key: getattr(values, key) for key in ("data", "epochs", "seeds", "smoke")}
    found = entries(values.base, values.workdir, **given)
    known = {entry.name: entry for entry in found}
    study.main(found, functools.partial(run, known=known), write=write, record=RECORD, config=config_of)


if __name__ == "__main__":
    study.define_flags()
    flags.DEFINE_list("base", None, "Folder of the run to adapt; several, A,B,C, are those of the seeds.")
    flags.DEFINE_string("data", "folder:nlu", "Training set of the adapters, KIND:NAME.")
    flags.DEFINE_float("epochs", 3.0, "Epochs of each run.", lower_bound=0)
    study.start(main, required=["base"])
