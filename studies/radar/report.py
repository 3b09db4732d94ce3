"""The page of the study of radar maps, made from the runs' records and from the data."""

import pathlib

from lwt.data import sources
from lwt.data.radar import maps
from lwt.report import results, study
from studies.radar import baseline, plots

SETS = {  # what the maps are, the picture's source, and the axes of a map
    "radar_har": (
        "Generated maps of eight activities (hard)",
        "generated:radar_har,difficulty=hard",
        dict(extent=(0, maps.DURATION, -maps.FASTEST, maps.FASTEST), xlabel="seconds", ylabel="m/s, to the radar"),
    ),
    "radar_parrad": (
        "A recording of one person: six groups of movements, five folds by event",
        "folder:radar_parrad",
        dict(xlabel="columns", ylabel="rows"),
    ),
}
EXAMPLES = {"radar_har": "test", "radar_parrad": "fold0"}
HOW_TO_READ = """\
Accuracy on test records that no choice was made by: mean ± standard deviation over the seeds. Of the recording all
folds of a seed are one figure: every event is tested once, by a network that has not seen it. The linear classifier is
`studies.radar.baseline`, computed with this page.
"""


def runs_of(records):
    """The runs of one figure together: ``{(data, model): {seed: [record of each fold, or the one]}}``."""
    found = {}
    for record in records.values():
        own = record["arguments"]
        found.setdefault((own["data"], own["model"]), {}).setdefault(own["seed"], []).append(record)
    return found


def accuracy(runs):
    """Share of right answers over all records of the runs."""
    answers = [pair for record in runs for pair in record["answers"]]
    return sum(label == answer for label, answer in answers) / len(answers)


def write(out, records, *, missing, command):
    """Writes README.md, results.json, confusion matrices and maps into the folder `out`; returns their names.

    Args:
        records: ``{name: what radar_study kept of the run}``.
        missing: names of runs that were asked for and have no record.
    """
    out = pathlib.Path(out)
    found, files = whole(runs_of(records)), []
    rows = [row for runs in found.values() for row in rows_of(runs, command=command)]
    results.write(out / "results.json", rows)
    text = ["# Radar maps: LH-ViT beside other networks", "", f"    {command}", ""]
    text += [f"- Not in the figures: {study.listed(missing)}.", ""] if missing else []
    text += [HOW_TO_READ]
    for data, (title, name, axes) in SETS.items():
        own = {model: runs for (of, model), runs in found.items() if of == data}
        if not own:
            continue
        linear = baseline.baseline(name)
        text += [
            f"## {title}",
            "",
            setting(own),
            "",
            table(own, linear),
            f"![one map of each class](maps_{data}.png)",
            "",
        ]
        source = sources.load(name, split=EXAMPLES[data])
        plots.maps(plots.examples(source), out / f"maps_{data}.png", title=source.name, **axes)
        files.append(f"maps_{data}.png")
        for model, runs in own.items():
            drawn = f"confusion_{data}_{model}.png"
            draw(runs, out / drawn, title=f"{model}, all seeds")
            text += [f"![confusions of {model}]({drawn})", ""]
            files.append(drawn)
    (out / "README.md").write_text("\n".join(text), encoding="utf-8")
    return ["README.md", "results.json", *files]


def whole(found):
    """Of `runs_of`, the seeds that have all folds that any seed of the data has."""
    folds = lambda runs: {record["arguments"].get("fold") for record in runs}  # noqa: E731
    wanted = {}
    for (data, _), seeds in found.items():
        wanted[data] = wanted.get(data, set()).union(*map(folds, seeds.values()))
    kept = {
        key: {seed: runs for seed, runs in seeds.items() if folds(runs) == wanted[key[0]]}
        for key, seeds in found.items()
    }
    return {key: seeds for key, seeds in kept.items() if seeds}


def rows_of(seeds, *, command):
    """Rows for ``results.json``: accuracy and size of a model on a set of data, for every seed."""
    rows = []
    for runs in seeds.values():
        fixed = results.of_run(runs[0], command=command)
        fixed["overrides"].pop("fold", None)
        if len(runs) > 1:
            fixed["split"] = f"{fixed['split'].partition('@')[0]}@{len(runs)} folds"
        fixed["seconds"] = sum(record["seconds"] for record in runs)
        values = {"accuracy": accuracy(runs), "parameters": runs[0]["parameters"]}
        rows += [fixed | {"metric": name, "value": value} for name, value in values.items()]
    return rows


def setting(own):
    """A sentence on how the models of a set of data were trained."""
    runs = [record for seeds in own.values() for some in seeds.values() for record in some]
    hours = sum(record["seconds"] for record in runs) / 3600
    machines = "; ".join(sorted({record["hardware"] for record in runs}))
    steps = ", ".join(f"{count:,}" for count in sorted({record["steps"] for record in runs}))
    return f"`configs/lh_vit.py`, {steps} steps; runs: {len(runs)}, {hours:.1f} hours in all on {machines}."


def table(own, linear):
    """The Markdown table of a set of data; `linear` from `baseline.baseline`."""
    body = []
    for model, seeds in own.items():
        quality = results.Cell.of([accuracy(runs) for runs in seeds.values()], scale=100).text(2)
        first = next(iter(seeds.values()))
        body.append([model, f"{first[0]['parameters']:,}", quality, f"{sum(len(r['answers']) for r in first):,}"])
    body.append(["linear classifier", "–", f"{100 * linear['accuracy']:.2f}", f"{linear['test']:,}"])
    body.append(["the most frequent class", "–", f"{100 * linear['majority']:.2f}", f"{linear['test']:,}"])
    return results.markdown(["model", "parameters", "accuracy (%)", "test records"], body)


def draw(seeds, path, *, title):
    """The confusion matrix of all seeds (and folds) of a model."""
    runs = [record for some in seeds.values() for record in some]
    names = sorted({name for record in runs for name in record["classes"]})
    pairs = [(names.index(label), names.index(answer)) for record in runs for label, answer in record["answers"]]
    plots.confusion(*zip(*pairs), names, path, title=title)
