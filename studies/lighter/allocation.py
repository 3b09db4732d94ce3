"""Compares ranks allocated by importance with one rank for all weights, at equal adapter parameters.

    python -m studies.lighter.allocation --base=runs/snips --data=folder:nlu --workdir=runs/allocation \\
        --out=docs/results/allocation
    python -m studies.lighter.allocation --base=runs/snips --workdir=runs/allocation --only=uniform --seeds=1

LoRA+ on the frozen base learns other data, with a new head: with one rank for every linear layer (`RANKS`), and with
the ranks that `lwt/compress/allocate_ranks.py` finds in the largest of these adapters of the same seed, under the
budget of each smaller one, by each of `SCORES`. All adapters are trained from scratch with `configs/lightweight.py`,
for the same epochs at the same rate.

`lwt/report/study.py` chooses, resumes and reports the runs. A run with allocated ranks first trains the largest uniform
run of its seed if it does not exist; the jobs of an array should find it finished.
"""

import dataclasses
import os

from absl import flags

import lwt
from lwt import trees
from lwt.compress import allocate_ranks
from lwt.inspect import measuring
from lwt.machine import hardware
from lwt.reparam import compose
from lwt.report import pages, plots, results, study
from lwt.runs import checkpoint

CONFIG = "configs/lightweight.py"
RECORD = os.path.join("eval", "allocation_study.json")
RANKS = (1, 2, 4, 8, 16)
SCORES = ("adalora", "energy")
UNIFORM = "uniform"
TITLES = {UNIFORM: "one rank", "adalora": "allocated by importance (AdaLoRA's)", "energy": "allocated by energy"}
HOW_TO_READ = """\
Quality is measured on the test set: mean ± standard deviation over the seeds. A budget is a number of adapter
parameters, given as the rank at which adapters of one rank on all linear layers have as many. Allocated ranks may leave
a few of them unused. "Rank of a weight" is the range of the ranks (seed 0), and the number of weights with an adapter.

The ranks are found in an adapter of rank {largest} that was trained before, for the same epochs with the same seed: an
allocated adapter costs this training, too. All adapters train at one rate, which was not searched for each rank.
"""


@dataclasses.dataclass(frozen=True)
class Adapted(study.Entry):
    """A run of the study.

    Attributes:
        source: the entry whose update gives the ranks; None: one rank for all weights.
    """

    source: study.Entry | None = None


def entries(base, workdir, *, data, epochs, rate, seeds=3, smoke=False):
    """The runs of the study, seed by seed, the largest rank first.

    Args:
        base: folder of the run to adapt.
        workdir: folder of the study.
        data: the training set, ``KIND:NAME``.
        epochs, rate: epochs and learning rate of each run.
        seeds: number of runs of every setting.
        smoke: train two steps each.
    """
    runs = []
    for seed in range(seeds):
        for how in (UNIFORM, *SCORES):
            for rank in sorted(RANKS if how == UNIFORM else RANKS[:-1], reverse=True):
                name = f"{how}-r{rank}-seed{seed}"
                given = dict(base=base, method="lora_plus", rank=rank, data=data, epochs=epochs, rate=rate, seed=seed)
                given |= {} if how == UNIFORM else dict(ranks=allocated(workdir, name))
                spec = study.spec_of(CONFIG, given, more="smoke=true" if smoke else "")
                source = None if how == UNIFORM else next(e for e in runs if e.name == largest(seed))
                runs.append(Adapted(name, dict(ranks=how, rank=rank, seed=seed), spec, source))
    return runs


def largest(seed):
    """The name of the run whose update gives the ranks of a seed."""
    return f"{UNIFORM}-r{RANKS[-1]}-seed{seed}"


def allocated(workdir, name):
    """The folder of the allocated ranks of a run."""
    return os.path.join(workdir, "ranks", name)


def run(entry, workdir):
    """Trains or resumes the run of `entry` if it is unfinished, measures it once, and returns its record."""
    if entry.source:
        run(entry.source, workdir)
        folder = allocated(workdir, entry.name)
        if checkpoint.of_run(folder).last_step() is None:
            source = lwt.load(os.path.join(workdir, entry.source.name), checkpoint="last")
            share = entry.arguments["rank"] / entry.source.arguments["rank"]
            pattern = compose.build(source.config.reparam).targets
            given = dict(budget=share, which=entry.arguments["ranks"], pattern=pattern)
            allocate_ranks.reallocate(source, folder, base=source.base(), **given)
    return study.run(entry, workdir, measure=measure, record=RECORD)


def measure(entry, folder):
    """The record of a run: its test figures, and the adapter's size and ranks."""
    del entry
    experiment = lwt.load(folder)
    metric, _, quality = measuring.quality(experiment)
    adapter = {
        name: w for name, w in trees.subtree(experiment.stored()[0], "adapter").items() if name.endswith(("/a", "/b"))
    }
    ranks = {name.removesuffix("/a"): w.shape[1] for name, w in adapter.items() if name.endswith("/a")}
    return {
        "metric": metric,
        "quality": quality,
        "parameters": trees.count(adapter),
        "ranks": ranks,
        "spread": {"smallest": min(ranks.values()), "largest": max(ranks.values()), "weights": len(ranks)},
        "figures": experiment.report(),
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
    """Writes README.md, results.json and ranks.png into the folder `out`; see `study.main`."""
    page = pages.Page(out, "Ranks allocated by importance", command_line=command_line)
    first, machines = next(iter(records.values())), pages.machines(records.values())
    page.rows(rows_of(records, command_line=command_line))
    factor = 100 if first["metric"] in results.SHARES else 1
    label = results.shown(first["metric"])[0]
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
        shown = (
            "{smallest} to {largest}, of {weights} weights".format(**own[0]["spread"]) if how != UNIFORM else f"{rank}"
        )
        quality = results.Cell.of([record["quality"] for record in own], scale=factor)
        body.append([str(rank), TITLES[how], f"{own[0]['parameters']:,}", shown, quality.text(2)])
    given = dict(item.split("=", 1) for item in first["config"].partition(":")[2].split(","))
    minutes = sum(record["seconds"] for record in records.values()) / 60
    page.add(
        pages.bullets(pages.notes(records, missing=missing)),
        f"The frozen model `{given['base']}` learns `{given['data']}`: {len(records)} runs of {given['epochs']} epochs "
        f"at the rate {given['rate']}, trained in {minutes:.0f} minutes in all, on {machines} "
        "(`studies/lighter/allocation.py`).",
        HOW_TO_READ.format(largest=RANKS[-1]),
    )
    picture = page.picture("ranks.png", "quality over rank and parameters")
    plots.ranks(
        series,
        picture,
        parameters=parameters,
        label=label,
        title="One rank for all weights, or ranks by need",
    )
    header = ["budget", "ranks", "adapter parameters", "rank of a weight", label]
    page.add(results.markdown(header, sorted(body, key=_order)))
    return page.write()


def _order(line):
    return int(line[0]), list(TITLES.values()).index(line[1])


def main():
    """The program."""
    values = flags.FLAGS
    given = {key: getattr(values, key) for key in ("data", "epochs", "rate", "seeds", "smoke")}
    found = entries(values.base, values.workdir, **given)
    study.main(found, run, write=write, record=RECORD)


if __name__ == "__main__":
    study.define_flags()
    flags.DEFINE_string("base", None, "Folder of the run to adapt.")
    flags.DEFINE_string("data", "folder:nlu", "Training set of the adapters, KIND:NAME.")
    flags.DEFINE_float("epochs", 3.0, "Epochs of each run.", lower_bound=0)
    flags.DEFINE_float("rate", 5e-4, "Learning rate of each run; B's is 16 times as large.", lower_bound=0)
    study.start(main, required=["base"])
