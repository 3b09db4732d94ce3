"""Compares translators that are trained on few and on many pairs.

    python -m studies.translation.amounts --workdir=runs/amounts --out=docs/results/amounts
    python -m studies.translation.amounts --workdir=runs/amounts --seeds=1
    python -m studies.translation.amounts --workdir=runs/amounts --report_only

"Implementing Transformers" (appendix 2, Figure 1) trains one transformer on two amounts of pairs, for the same epochs.
A run is `configs/translation.py` on Multi30k with 2 + 2 layers, and with all pairs or a quarter of them, drawn at
random. There are two runs on the quarter: one for as many epochs, and one for as many steps. All runs have the
tokenizer of `pretrained/multi30k`, so that their losses a token can be compared.

Every amount gets the same search of three rates. How rates are searched, and runs are chosen, resumed and reported:
`lwt/report/searched.py`.
"""

import functools
import os

from absl import flags

from lwt.report import pages, results, searched, study
from lwt.runs import config_file, experiment

CONFIG = "configs/translation.py"
TOKENIZER = "pretrained/multi30k/tokenizer.model"
RECORD = os.path.join("eval", "amounts_study.json")
ALL, EPOCHS, PARTS = 29_000, 6, 4
AMOUNTS = {  # name: (pairs, epochs)
    "all": (ALL, EPOCHS),
    "quarter": (ALL // PARTS, EPOCHS),
    "quarter-longer": (ALL // PARTS, EPOCHS * PARTS),
}
RATES = (7.5e-4, 3e-3, 1.2e-2)  # of the search
MODEL = {"encoder_layers": 2, "decoder_layers": 2}
SETTINGS = {
    "eval_every": 200,
    "save_every": 200,
    "optimizer.schedule.warmup": 100,
    "select": "loss",
    "select_mode": "min",
    "data.tokenizer.path": TOKENIZER,
}
HOW_TO_READ = """\
The checkpoint is the one with the lowest loss on the validation set. Losses are in nats a token, on the validation set
and on test2016_flickr; BLEU is on the latter. All are mean ± standard deviation over the seeds. The quarter has the
same pairs for all seeds. Each rate is that of the lowest validation loss of three, each tried with seed 0 for half of
the training. Training losses in the picture include dropout and label smoothing.
"""


def entries(*, seeds=3, smoke=False):
    """The searches, and the runs seed by seed.

    Args:
        seeds: runs of each amount.
        smoke: whether to train tiny models for two steps each.
    """
    return searched.entries([dict(amount=amount) for amount in AMOUNTS], of=spec_of, seeds=seeds, smoke=smoke)


def spec_of(arguments, seed):
    """``FILE.py:key=value,...`` of a run, the same for all amounts."""
    del arguments
    return study.spec_of(CONFIG, dict(data="multi30k", seed=seed))


def config_of(entry):
    """The config of a run, or of a trial of a search."""
    config, (pairs, epochs) = config_file.load(entry.spec), AMOUNTS[entry.arguments["amount"]]
    with config.unlocked():
        config.model.update(MODEL)
        if "smoke" not in entry.spec:
            config.update_from_flattened_dict(SETTINGS | {"epochs": float(epochs)})
            config.data.max_train_records = pairs
    return searched.shortened(config, entry)


def run(entry, workdir, *, known):
    """Trains or resumes a run, or searches a rate, unless that is done; returns the record; see `searched.run`."""
    given = dict(rates=RATES, record=RECORD, config_of=config_of, measure=measure)
    return searched.run(entry, workdir, known=known, metric="loss", lower=True, **given)


def measure(entry, folder):
    """The record of a run: figures on the test set, the loss on the validation set, and the number of pairs."""
    del entry
    trained = experiment.load(folder)
    validation = trained.report(data=trained.data.named("validation"))["loss"]
    own = {"validation": validation, "pairs": trained.config.data.max_train_records}
    return searched.facts(trained, folder) | own


def write(out, records, *, workdir, missing, command_line):
    """Writes README.md, results.json and the picture into the folder `out`; see `study.main`."""
    page = pages.Page(out, "Translators trained on fewer pairs", command_line=command_line)
    runs, searches = searched.parted(records)
    page.rows(row for record in runs for row in rows_of(record, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    page.add(pages.effort(runs) + ".")
    header = ["pairs", "epochs", "steps", "rate", "validation loss", "test loss", "BLEU"]
    page.add(results.markdown(header, list(lines(runs))))
    drawn = {title_of(records[name]): os.path.join(workdir, name) for name in curves(records)}
    page.curves("loss.png", "loss of the first seed", runs=drawn, title="Loss")
    if searches:
        labels = {
            key: lambda record, place=place: f"{AMOUNTS[record['arguments']['amount']][place]:,}"
            for place, key in enumerate(("pairs", "epochs"))
        }
        about = "Loss on the validation set after half of the training, by rate."
        page.add("## Searches", about, searched.table(searches, labels=labels))
    return page.write()


def curves(records):
    """The runs whose learning curves the page shows."""
    return [name for name, record in records.items() if record["arguments"].get("seed") == 0]


def title_of(record):
    """What a run is called in the picture."""
    return f"{record['pairs']:,} pairs, {record['epochs']:g} epochs"


def rows_of(record, *, command_line):
    """Rows for ``results.json``: the losses and BLEU of a run."""
    fixed, figures = results.of_run(record, command_line=command_line), record["figures"]
    values = {"validation/loss": record["validation"], "loss": figures["loss"], "bleu": figures["bleu"]}
    return [fixed | {"metric": name, "value": value} for name, value in values.items()]


def lines(runs):
    """The lines of the table: an amount each."""
    for amount in AMOUNTS:
        own = [record for record in runs if record["arguments"]["amount"] == amount]
        if own:
            columns = [[record["validation"] for record in own]]
            columns += [[record["figures"][name] for record in own] for name in ("loss", "bleu")]
            cells = [results.Cell.of(values).text(digits) for values, digits in zip(columns, (3, 3, 2), strict=True)]
            length = [f"{own[0]['epochs']:g}", f"{own[0]['steps']:,}", f"{own[0]['rate']:g}"]
            yield [f"{own[0]['pairs']:,}", *length, *cells]


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(seeds=values.seeds, smoke=values.smoke)
    known = {entry.name: entry for entry in found}
    running, writing = functools.partial(run, known=known), functools.partial(write, workdir=values.workdir)
    study.main(found, running, write=writing, record=RECORD, config=config_of, curves=curves)


if __name__ == "__main__":
    study.define_flags()
    study.start(main)
