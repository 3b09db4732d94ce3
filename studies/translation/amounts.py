"""Compares translators that are trained on few and on many pairs.

    python -m studies.translation.amounts --workdir=runs/amounts --out=docs/results/amounts
    python -m studies.translation.amounts --workdir=runs/amounts --seeds=1
    python -m studies.translation.amounts --workdir=runs/amounts --report_only

"Implementing Transformers" (appendix 2, Figure 1) trains one transformer on two amounts of pairs, for the same epochs.
A run is `configs/translation.py` on Multi30k with 2 + 2 layers, and with all pairs or a quarter of them, drawn at
random. There are two runs on the quarter: one for as many epochs, and one for as many steps. All runs have the
tokenizer of `pretrained/multi30k`, so that their losses a token can be compared.

How runs are chosen, resumed and reported: `lwt/report/study.py`.
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
same pairs for all seeds. All runs train at one rate, which was not searched. Training losses in the picture include
dropout and label smoothing.
"""


def entries(*, seeds=3, smoke=False):
    """The runs of the study, seed by seed.

    Args:
        seeds: runs of each amount.
        smoke: whether to train tiny models for two steps each.
    """
    found = []
    for seed in range(seeds):
        for amount in AMOUNTS:
            spec = study.spec_of(CONFIG, dict(data="multi30k", seed=seed), more="smoke=true" if smoke else "")
            found.append(study.Entry(f"{amount}-seed{seed}", dict(amount=amount, seed=seed), spec))
    return found


def config_of(entry):
    """The config of a run."""
    config, (pairs, epochs) = config_file.load(entry.spec), AMOUNTS[entry.arguments["amount"]]
    with config.unlocked():
        config.model.update(MODEL)
        if "smoke" not in entry.spec:
            config.update_from_flattened_dict(SETTINGS | {"epochs": float(epochs)})
            config.data.max_train_records = pairs
    return config


def run(entry, workdir):
    """Trains or resumes the run of `entry` unless it is finished; measures it once; returns its record."""
    return study.run(entry, workdir, measure=measure, record=RECORD, config=config_of(entry))


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
    runs = list(records.values())
    page.rows(row for record in runs for row in rows_of(record, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    page.add(pages.effort(runs) + ".")
    header = ["pairs", "epochs", "steps", "validation loss", "test loss", "BLEU"]
    page.add(results.markdown(header, list(lines(runs))))
    drawn = {title_of(records[name]): os.path.join(workdir, name) for name in curves(records)}
    page.curves("loss.png", "loss of the first seed", runs=drawn, title="Loss")
    return page.write()


def curves(records):
    """The runs whose learning curves the page shows."""
    return [name for name, record in records.items() if record["arguments"]["seed"] == 0]


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
            yield [f"{own[0]['pairs']:,}", f"{own[0]['epochs']:g}", f"{own[0]['steps']:,}", *cells]


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(seeds=values.seeds, smoke=values.smoke)
    writing = functools.partial(write, workdir=values.workdir)
    study.main(found, run, write=writing, record=RECORD, config=config_of, curves=curves)


if __name__ == "__main__":
    study.define_flags()
    study.start(main)
