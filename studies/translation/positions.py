"""Compares sinusoidal with learned positions on sentences that are longer than those of training.

    python -m studies.translation.positions --workdir=runs/positions --out=docs/results/positions
    python -m studies.translation.positions --workdir=runs/positions --only=learned --seeds=1
    python -m studies.translation.positions --workdir=runs/positions --report_only

"Implementing Transformers" (section 2.1 and appendix 1) says that sinusoids generalize better to unseen lengths. A run
is `configs/translation.py` on Multi30k, whose training leaves out pairs with a side of more than `TRAINED` tokens. The
test set keeps all of its pairs, in groups by the length of their longer side. The best checkpoint is chosen on the
validation set, which also keeps all of its pairs.

How runs are chosen, resumed and reported: `lwt/report/study.py`.
"""

import os

import numpy as np
from absl import flags

from lwt.inspect import cost
from lwt.machine import hardware
from lwt.metrics import translation
from lwt.report import pages, results, study
from lwt.runs import config_file, experiment

CONFIG = "configs/translation.py"
RECORD = os.path.join("eval", "positions_study.json")
KINDS = {"sinusoidal": "sinusoids", "learned": "learned"}
TRAINED = 15  # most tokens of a side in training
BORDERS = (TRAINED, 20, 25)  # most tokens of a group's pairs
GROUPS = (
    f"up to {TRAINED}",
    *(f"{low + 1} to {high}" for low, high in zip(BORDERS, BORDERS[1:])),
    f"{BORDERS[-1] + 1} and more",
)
LONGEST = 127  # tokens of a translation
SETTINGS = {"steps": 2_000, "eval_every": 500, "save_every": 500, "optimizer.schedule.warmup": 400}
HOW_TO_READ = f"""\
BLEU is that on test2016_flickr: mean ± standard deviation over the seeds. Training left out pairs with a side of more
than {TRAINED} tokens, so no position after that was ever trained. The checkpoint has the best BLEU on the whole
validation set. Test pairs are grouped by the tokens of their longer side, with the number of pairs in brackets; "kept"
is the BLEU of the longest group divided by that of the shortest.

Both kinds of positions train for few steps at one rate, without a search. So a difference of level, such as that in the
first group, may be one of the speed of learning.
"""


def entries(*, seeds=3, smoke=False):
    """The runs of the study, seed by seed.

    Args:
        seeds: runs of each kind of positions.
        smoke: whether to train tiny models for two steps each.
    """
    found = []
    for seed in range(seeds):
        for kind in KINDS:
            own = dict(positions=kind, seed=seed)
            spec = study.spec_of(CONFIG, dict(data="multi30k") | own, more="smoke=true" if smoke else "")
            found.append(study.Entry(f"{kind}-seed{seed}", own, spec))
    return found


def config_of(entry):
    """The config of a run: short pairs in training, all of them in evaluations."""
    config = config_file.load(entry.spec)
    with config.unlocked():
        if "smoke" not in entry.spec:  # the settings say how long it trains
            config.update_from_flattened_dict(SETTINGS)
        config.data.row_length, config.data.max_tokens = TRAINED + 1, LONGEST
        if entry.arguments["positions"] == "learned":
            config.model.max_length = LONGEST + 1
    return config


def run(entry, workdir):
    """Trains or resumes the run of `entry` unless it is finished; measures it once; returns its record."""
    return study.run(entry, workdir, measure=measure, record=RECORD, config=config_of(entry))


def measure(entry, folder):
    """The record of a run: BLEU of all test pairs and of each group, and the pairs of each group."""
    del entry
    trained = experiment.load(folder)
    groups = groups_of(longer_sides(trained.data, trained.data.test))
    figures, _, outputs, references = trained.evaluate()
    scores = translation.score(outputs, references, groups=groups)
    return {
        "checkpoint": trained.step,
        "figures": {"data": trained.data.test, "bleu": scores["bleu"], "loss": figures["loss"]},
        "groups": {name: {"pairs": groups.count(name), "bleu": scores[f"bleu/{name}"]} for name in sorted(set(groups))},
        "trained_pairs": int((longer_sides(trained.data, trained.data.named("train")) <= TRAINED).sum()),
        "parameters": cost.parameters(trained.config, vocabulary=trained.tokenizer.vocabulary)["total"],
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def longer_sides(data, name):
    """Tokens `[n]` of the longer side of each pair of a set."""
    examples = data.evaluation(name).examples
    return np.maximum(examples.source.lengths, examples.target.lengths)


def groups_of(lengths):
    """The name of each length's group, one of `GROUPS`."""
    return [GROUPS[place] for place in np.searchsorted(BORDERS, lengths)]


def write(out, records, *, missing, command_line):
    """Writes README.md and results.json into the folder `out`; see `study.main`."""
    report = pages.Page(out, "Translation of longer sentences than in training", command_line=command_line)
    report.rows(row for record in records.values() for row in rows_of(record, command_line=command_line))
    runs = list(records.values())
    first = runs[0]
    report.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    report.add(f"`{CONFIG}`, {first['steps']:,} steps on {first['trained_pairs']:,} pairs: {pages.effort(runs)}.")
    names = [name for name in GROUPS if name in first["groups"]]
    sizes = [f"{name} ({first['groups'][name]['pairs']})" for name in names]
    header = ["positions", "parameters", "all", *sizes, "kept (%)"]
    report.add(results.markdown(header, list(lines(runs, names))))
    return report.write()


def rows_of(record, *, command_line):
    """Rows for ``results.json``: BLEU of all pairs and of each group."""
    fixed = results.of_run(record, command_line=command_line)
    values = {"bleu": record["figures"]["bleu"], "parameters": record["parameters"]}
    values |= {f"bleu/{name}": own["bleu"] for name, own in record["groups"].items()}
    return [fixed | {"metric": name, "value": value} for name, value in values.items()]


def lines(runs, names):
    """The lines of the table: a kind of positions each."""
    for kind, title in KINDS.items():
        own = [record for record in runs if record["arguments"]["positions"] == kind]
        if own:
            scores = [[record["figures"]["bleu"] for record in own]]
            scores += [[record["groups"][name]["bleu"] for record in own] for name in names]
            cells = [results.Cell.of(values).text(2) for values in scores]
            kept = [long / short for short, long in zip(scores[1], scores[-1]) if short]
            last = results.Cell.of(kept, scale=100).text(0) if kept else "–"
            yield [title, f"{own[0]['parameters']:,}", *cells, last]


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(seeds=values.seeds, smoke=values.smoke)
    study.main(found, run, write=write, record=RECORD, config=config_of)


if __name__ == "__main__":
    study.define_flags()
    study.start(main)
