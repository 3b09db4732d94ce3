"""Ranks that are given out by what they are worth, beside one rank for all, at as many adapter parameters.

    python -m studies.lighter.allocation --base=runs/snips --data=folder:nlu --workdir=runs/allocation \\
        --out=docs/results/allocation
    python -m studies.lighter.allocation --base=runs/snips --workdir=runs/allocation --only=uniform --seeds=1

LoRA+ on the frozen base learns other data, with a new head: once with one rank for every linear layer (`RANKS`); and
with the ranks that `lwt/compress/allocate_ranks.py` finds in the largest of these adapters of the same seed, under the
budget of each smaller one, by each of `SCORES`. All adapters are trained from the start, with `configs/lightweight.py`,
for the same epochs at the same rate.

How runs are chosen, gone on with and reported: `lwt/report/study.py`. A run with given-out ranks trains
the largest uniform one of its seed first, if it is not there: the jobs of an array should find it.
"""

import dataclasses
import functools
import os
import pathlib

from absl import flags

from lwt import trees
from lwt.compress import allocate_ranks
from lwt.inspect import measuring
from lwt.machine import hardware
from lwt.reparam import compose
from lwt.report import pages, plots, results, study
from lwt.runs import checkpoint, experiment

CONFIG = "configs/lightweight.py"
RECORD = os.path.join("eval", "allocation_study.json")
RANKS = (1, 2, 4, 8, 16)
SCORES = ("adalora", "energy")
UNIFORM = "uniform"
TITLES = {UNIFORM: "one rank", "adalora": "given out by importance (AdaLoRA's)", "energy": "given out by energy"}
HOW_TO_READ = """\
Mean ± standard deviation over the seeds, each on the test set. "Ranks" are the smallest and the largest that a weight
has, of the first seed; where fewer weights are adapted than there are, the others got none. Adapters of one line have
as many parameters, but for what is left of a budget that no further direction fits into.
"""


@dataclasses.dataclass(frozen=True)
class Adapted(study.Entry):
    """A run of the study.

    Attributes:
        source: the entry of whose update its ranks are found; None for one rank.
    """

    source: study.Entry | None = None


def entries(base, workdir, *, data, epochs, rate, seeds=3, smoke=False):
    """The runs of the study, seed by seed, the largest rank first.

    Args:
        base: folder of the run that is adapted.
        workdir: of the study.
        data: the training set, ``KIND:NAME``.
        epochs, rate: of each run.
        seeds: runs of every setting.
        smoke: two steps each.
    """
    found = []
    for seed in range(seeds):
        for how in (UNIFORM, *SCORES):
            for rank in sorted(RANKS if how == UNIFORM else RANKS[:-1], reverse=True):
                name = f"{how}-r{rank}-seed{seed}"
                given = dict(base=base, method="lora_plus", rank=rank, data=data, epochs=epochs, rate=rate, seed=seed)
                given |= {} if how == UNIFORM else dict(ranks=allocated(workdir, name))
                spec = study.spec_of(CONFIG, given, more="smoke=true" if smoke else "")
                source = None if how == UNIFORM else next(e for e in found if e.name == largest(seed))
                found.append(Adapted(name, dict(ranks=how, rank=rank, seed=seed), spec, source))
    return found


def largest(seed):
    """The name of the run in which the ranks of a seed are found."""
    return f"{UNIFORM}-r{RANKS[-1]}-seed{seed}"


def allocated(workdir, name):
    """The folder of the ranks that were given out for a run."""
    return os.path.join(workdir, "ranks", name)


def run(entry, workdir):
    """Trains, goes on with, or leaves alone the run of `entry`; measures it once; returns its record."""
    if entry.source:
        run(entry.source, workdir)
        folder = allocated(workdir, entry.name)
        if checkpoint.of_run(folder).last_step() is None:
            opened = experiment.load(os.path.join(workdir, entry.source.name), checkpoint="last")
            share = entry.arguments["rank"] / entry.source.arguments["rank"]
            pattern = compose.build(opened.config.reparam).targets
            given = dict(budget=share, which=entry.arguments["ranks"], pattern=pattern)
            allocate_ranks.reallocate(opened, folder, base=opened.base(), **given)
    return study.run(entry, workdir, measure=measure, record=RECORD)


def measure(entry, folder):
    """What is kept of a run: figures on the test set, the adapter's size and ranks."""
    del entry
    opened = experiment.load(folder)
    metric, _, quality = measuring.quality(opened)
    adapter = {
        name: w for name, w in trees.subtree(opened.stored()[0], "adapter").items() if name.endswith(("/a", "/b"))
    }
    return {
        "metric": metric,
        "quality": quality,
        "parameters": trees.count(adapter),
        "ranks": {name.removesuffix("/a"): w.shape[1] for name, w in adapter.items() if name.endswith("/a")},
        "figures": opened.report(),
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def rows_of(records, *, command_line):
    """Rows for ``results.json``: quality and adapter parameters of every run."""
    rows = []
    for record in records.values():
        fixed = results.of_run(record, command_line=command_line)
        values = {record["metric"]: record["quality"], "parameters": record["parameters"]}
        rows += [fixed | {"metric": name, "value": value} for name, value in values.items()]
    return rows


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and ranks.png into the folder `out`; returns their names.

    Args:
        records: ``{name: what was kept of the run}``.
        missing: names of runs that were asked for and have no record.
    """
    out, first = pathlib.Path(out), next(iter(records.values()))
    results.write(out / "results.json", rows_of(records, command_line=command_line))
    factor = 100 if first["metric"] in results.SHARES else 1
    label = first["metric"] + (" (%)" if factor == 100 else "")
    groups = {}
    for how in TITLES:
        for rank in RANKS:
            own = [r for r in records.values() if (r["arguments"]["ranks"], r["arguments"]["rank"]) == (how, rank)]
            if own:
                groups[how, rank] = sorted(own, key=lambda record: record["arguments"]["seed"])
    series, parameters, body = {}, {}, []
    for (how, rank), own in groups.items():
        series.setdefault(TITLES[how], {})[rank] = [factor * record["quality"] for record in own]
        parameters.setdefault(TITLES[how], {})[rank] = own[0]["parameters"]
        ranks = own[0]["ranks"].values()
        spread = f"{min(ranks)} to {max(ranks)}, of {len(ranks)} weights" if how != UNIFORM else f"{rank}"
        quality = results.Cell.of([record["quality"] for record in own], scale=factor)
        body.append([str(rank), TITLES[how], f"{own[0]['parameters']:,}", spread, quality.text(2)])
    plots.ranks(series, out / "ranks.png", parameters=parameters, label=label)
    given = dict(item.split("=", 1) for item in first["config"].partition(":")[2].split(","))
    minutes = sum(record["seconds"] for record in records.values()) / 60
    machines = "; ".join(sorted({record["hardware"] for record in records.values()}))
    text = ["# Ranks given out by their worth", "", f"    {command_line}", ""]
    text += [f"- Not in the figures: {pages.listed(missing)}.", ""] if missing else []
    text += [
        f"`{given['base']}`, frozen, learns `{given['data']}`: {len(records)} runs of {given['epochs']} epochs at "
        f"the rate {given['rate']}, trained in {minutes:.0f} minutes together, on {machines}. How: "
        "`studies/lighter/allocation.py`.",
        "",
        HOW_TO_READ,
        "![quality over rank and parameters](ranks.png)",
        "",
        results.markdown(
            ["rank or budget", "ranks", "adapter parameters", "rank of a weight", label], sorted(body, key=_order)
        ),
    ]
    (out / "README.md").write_text("\n".join(text), encoding="utf-8")
    return ["README.md", "results.json", "ranks.png"]


def _order(line):
    return int(line[0]), list(TITLES.values()).index(line[1])


def main():
    """The program."""
    values = flags.FLAGS
    given = {key: getattr(values, key) for key in ("data", "epochs", "rate", "seeds", "smoke")}
    chosen = study.choose(entries(values.base, values.workdir, **given), only=values.only, index=values.index)
    study.main(chosen, functools.partial(run, workdir=values.workdir), write=write, record=RECORD)


if __name__ == "__main__":
    study.define_flags()
    flags.DEFINE_string("base", None, "Folder of the run that is adapted.")
    flags.DEFINE_string("data", "folder:nlu", "What it learns.")
    flags.DEFINE_float("epochs", 3.0, "Of each run.")
    flags.DEFINE_float("rate", 5e-4, "Of each run; that of B is 16 times it.")
    flags.DEFINE_boolean("smoke", False, "Two steps of each: to see that all runs.")
    study.start(main, required=["base"])
