"""The page of the radar study, made from the runs' records."""

import collections

from lwt.data import sources
from lwt.data.radar import maps
from lwt.report import pages, results, searched
from studies.radar import plots

SETS = {  # what the maps are, the picture's source, and the axes of a map
    "radar_har": (
        "Generated maps of eight activities (hard)",
        "generated:radar_har,difficulty=hard",
        dict(extent=(0, maps.DURATION, -maps.FASTEST, maps.FASTEST), xlabel="seconds", ylabel="m/s towards the radar"),
    ),
    "radar_parrad": (
        "A recording of one person: six groups of movements, five folds by event",
        "folder:radar_parrad",
        dict(xlabel="columns", ylabel="rows"),
    ),
}
TITLES = {
    "lh_vit": "LH-ViT",
    "vit": "ViT",
    "cnn": "CNN",
    "cnn_small": "The small CNN",
    "cnn_tiny": "The tiny CNN",
    "cnn_light": "The light CNN",
}
LINEAR = "linear"  # the model that is not trained by steps
EXAMPLES = {"radar_har": "test", "radar_parrad": "fold0"}
HOW_TO_READ = """\
Accuracy is that on test records, which no choice depended on: mean ± standard deviation over the seeds. All networks
train for as many epochs; only where it says so, the light CNN trains for three times as many. Its widths were chosen by
the accuracy on validation records. The rate of a network, unless it was not searched, is the best of four on generated
maps for validation, after half of the epochs and with seed 0: three that are the same for all, and one beside or beyond
the best of these.

For the recording, all folds of a seed make one figure: every event is tested once, by a network that was not trained on
it. There is no validation set: the rate is that of generated maps, and the loss on the training events chooses the
checkpoint. The linear classifier is `studies.radar.linear_classifier`. "In int8" is the accuracy of the file of
integers whose bytes stand beside it; runs without it were not written to such a file.
"""


def runs_of(records):
    """Groups the runs that make one figure: ``{(data, name): {seed: [record of each fold, or the one]}}``.

    The name is the model's, ``"cnn_light, 180 epochs"`` of one that trains longer than the others.
    """
    found = {}
    for record in records:
        own = record["arguments"]
        name = f"{own['model']}, {own['epochs']} epochs" if "epochs" in own else own["model"]
        found.setdefault((own["data"], name), {}).setdefault(own["seed"], []).append(record)
    return found


def accuracy(runs):
    """Share of right answers over all records of the runs."""
    answers = [pair for record in runs for pair in record["answers"]]
    return sum(label == answer for label, answer in answers) / len(answers)


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json, confusion matrices and maps into the folder `out`; see `study.main`."""
    linear = {own["arguments"]["data"]: own for own in records.values() if own["arguments"]["model"] == LINEAR}
    runs, searches = searched.parted(records)
    rates = {record["arguments"]["model"]: record["rate"] for record in searches}
    found = complete(runs_of(record for record in runs if record["arguments"]["model"] != LINEAR))
    report = pages.Page(out, "Radar maps: LH-ViT compared with other networks", command_line=command_line)
    report.rows(row for runs in found.values() for row in rows_of(runs, command_line=command_line))
    report.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    for data, (title, name, axes) in SETS.items():
        own = {model: seeds for (of, model), seeds in found.items() if of == data}
        if not own:
            continue
        report.add(f"## {title}", setting(own), table(own, linear.get(data), rates=rates))
        path = report.picture(f"maps_{data}.png", "one map of each class")
        if not path.exists():  # of the data, not of the runs: drawn once
            source = sources.load(name, split=EXAMPLES[data])
            plots.maps(plots.examples(source), path, title=title, **axes)
        for model, seeds in own.items():
            if "," not in model:
                path = report.picture(f"confusion_{data}_{model}.png", f"confusions of {model}")
                draw(seeds, path, model=TITLES.get(model, model))
    if searches:
        labels = {"model": lambda record: record["arguments"]["model"]}
        about = "Accuracy (%) on generated maps for validation after half of the training, by rate."
        report.add("## Searches", searched.edges(searches, about), searched.table(searches, labels=labels))
    return report.write()


def complete(found):
    """The seeds of `runs_of` that have every fold that any seed of their data has."""
    wanted = {}
    for (data, _), seeds in found.items():
        wanted[data] = wanted.get(data, set()).union(*map(_folds, seeds.values()))
    kept = {
        key: {seed: runs for seed, runs in seeds.items() if _folds(runs) == wanted[key[0]]}
        for key, seeds in found.items()
    }
    return {key: seeds for key, seeds in kept.items() if seeds}


def _folds(runs):
    return {record["arguments"].get("fold") for record in runs}


def rows_of(seeds, *, command_line):
    """Rows for ``results.json``: accuracy and size of a model on a set of data, for every seed."""
    rows = []
    for runs in seeds.values():
        fixed = results.of_run(runs[0], command_line=command_line)
        fixed["overrides"].pop("fold", None)
        if len(runs) > 1:
            fixed["split"] = f"{fixed['split'].partition('@')[0]}@{len(runs)} folds"
        fixed["seconds"] = sum(record["seconds"] for record in runs)
        values = {"accuracy": accuracy(runs), "parameters": runs[0]["parameters"]}
        rows += [fixed | {"metric": name, "value": value} for name, value in values.items()]
    return rows


def setting(own):
    """A sentence that says how the models of a set of data were trained."""
    runs = [record for seeds in own.values() for some in seeds.values() for record in some]
    steps = " or ".join(f"{count:,}" for count in sorted({record["steps"] for record in runs}))
    return f"`configs/lh_vit.py`, {steps} steps: {pages.effort(runs)}."


def table(own, linear, *, rates):
    """The Markdown table of a set of data.

    Args:
        own: ``{name: {seed: records}}``, see `runs_of`.
        linear: the record of the linear classifier; None: no row.
        rates: ``{model: rate}`` that the searches found.
    """
    body = []
    for model, seeds in own.items():
        quality = results.Cell.of([accuracy(runs) for runs in seeds.values()], scale=100).text(2)
        first = next(iter(seeds.values()))
        rounded = [record["int8"] for runs in seeds.values() for record in runs if "int8" in record and len(runs) == 1]
        int8 = results.Cell.of([own["accuracy"] for own in rounded], scale=100).text(2) if rounded else "–"
        size = f"{max(own['bytes'] for own in rounded):,}" if rounded else "–"
        tested = f"{sum(len(record['answers']) for record in first):,}"
        rate, best = first[0]["rate"], rates.get(first[0]["arguments"]["model"])
        remark = "" if rate == best else f" (best: {best:g})" if best else " (not searched)"
        body.append([model, f"{first[0]['parameters']:,}", f"{rate:g}{remark}", quality, int8, size, tested])
    if linear:
        figures = linear["figures"]
        for name, key in (("linear classifier", "accuracy"), ("the most frequent class", "majority")):
            body.append([name, "–", "–", f"{100 * figures[key]:.2f}", "–", "–", f"{figures['test']:,}"])
    header = ["model", "parameters", "rate", "accuracy (%)", "in int8 (%)", "int8, bytes", "test records"]
    return results.markdown(header, body)


def draw(seeds, path, *, model):
    """The confusion matrix of all seeds (and folds) of a model, which people call `model`."""
    runs = [record for some in seeds.values() for record in some]
    names = sorted({name for record in runs for name in record["classes"]})
    pairs = [(names.index(label), names.index(answer)) for record in runs for label, answer in record["answers"]]
    right = sum(label == answer for label, answer in pairs) / len(pairs)
    title = f"{model} is right about {right:.0%} of the records"
    wrong = collections.Counter(pair for pair in pairs if pair[0] != pair[1])
    if wrong:
        label, answer = (names[i].replace("_", " ") for i in wrong.most_common(1)[0][0])
        title += f"; it most often takes “{label}” for “{answer}”"
    plots.confusion(*zip(*pairs), names=names, path=path, title=title)
