"""Writes the page of a trained translator: scores on several test sets, curves, best and worst translations.

    python -m studies.translation.report --workdir=pretrained/multi30k \\
        --config=configs/translation.py:data=multi30k,precision=float32 \\
        --data=folder:multi30k_de_en@test2016_flickr,folder:multi30k_de_en@test2017_flickr \\
        --out=docs/results/translation_multi30k
    python -m studies.translation.report --workdir=runs/pool --config=configs/translation.py:data=pool \\
        --data=folder:wmt_newstest_de_en@newstest2016 --out=page

Writes README.md, results.json and, unless it is a bundle, which has no curves, loss.png and bleu.png.
"""

import functools
import os
import pathlib
import tempfile
import time

from absl import flags

from lwt import errors
from lwt.machine import command_line, hardware
from lwt.report import pages, records, results, study
from lwt.runs import bundle, eval_files, experiment

METRICS = ("bleu", "chrf", "sentence_bleu", "loss")
SHOWN = (*METRICS, "sentences", "checkpoint", "bleu_signature")  # figures of an evaluation that the page holds
HEADER = ["test set", "decoding", "BLEU", "chrF", "mean sentence BLEU (0-1)", "loss (nats a token)", "sentences"]


def measure(workdir, config, names, *, beams, made):
    """What the page says: an evaluation of every set with every number of beams, and how the run was trained.

    Args:
        workdir: of the run.
        config: that it was trained with, as given to ``train.py``.
        names: of the test sets.
        beams: numbers of beams.
        made: the command that measures.
    """
    bundled, evaluations = bundle.is_bundle(workdir), []
    seconds = None if bundled else study.seconds(workdir)
    for width in beams:
        translator = experiment.load(workdir, decoding={"beams": width})
        for name in names:
            begin = time.perf_counter()
            figures = translator.report(data=name)
            evaluations.append(
                {key: figures[key] for key in SHOWN}
                | {"data": name, "decoding": translator.task.decoding()}
                | {"seconds": round(time.perf_counter() - begin, 1)}
            )
    extremes = pathlib.Path(workdir, "eval", extremes_name(names[0], beams[0])).read_text(encoding="utf-8")
    return {
        "workdir": workdir,
        "config": config,
        "seed": translator.config.seed,
        "hardware": hardware.describe() if bundled else hardware.of_run(workdir),
        "training_seconds": seconds,
        "evaluations": evaluations,
        "extremes": extremes,
        "command": made,
    }


def extremes_name(name, width):
    """The name of the file of best and worst outputs that an evaluation of a set wrote."""
    return eval_files.stem(name, {"beams": width}) + ".md"


def training(facts):
    """The command that trained the run."""
    return f"python train.py --config={facts['config']} --workdir={facts['workdir']}"


def how_trained(facts):
    """Paragraphs: time, machine and command of the training; of a bundle, which has no log, its config alone."""
    if facts["training_seconds"] is None:
        return [f"`{facts['workdir']}` was trained with `--config={facts['config']}`, seed {facts['seed']}."]
    minutes, machine = f"{facts['training_seconds'] / 60:.0f} minutes", facts["hardware"]
    trained = f"Trained in {minutes} on {machine} (evaluations included), seed {facts['seed']}:"
    return [trained, f"    {training(facts)}"]


def rows_of(facts):
    """Rows for ``results.json``: the `METRICS` of every evaluation, and the seconds of training if they are known."""
    fixed = {"config": facts["config"], "seed": facts["seed"], "paper": None, "hardware": facts["hardware"]}
    rows = []
    for own in facts["evaluations"]:
        about = {"overrides": {"decoding": own["decoding"], "checkpoint": own["checkpoint"]}, "split": own["data"]}
        about |= {"seconds": own["seconds"], "command": facts["command"]}
        rows += [fixed | about | {"metric": metric, "value": own[metric]} for metric in METRICS]
    seconds = facts["training_seconds"]
    if seconds is None:
        return rows
    about = {"overrides": {}, "split": "train", "seconds": seconds, "command": training(facts)}
    return [*rows, fixed | about | {"metric": "training seconds", "value": seconds}]


def write(out, facts, *, folder):
    """Writes README.md, results.json and the curves into the folder `out`; returns their names.

    Args:
        out: folder of the page.
        facts: from `measure`.
        folder: with the run's ``metrics.jsonl``; without it there are no curves.
    """
    first = facts["evaluations"][0]
    page = pages.Page(out, f"Translations of `{facts['workdir']}`", command_line=facts["command"])
    page.rows(rows_of(facts))
    body = [
        [own["data"], own["decoding"], f"{own['bleu']:.2f}", f"{own['chrf']:.2f}", f"{own['sentence_bleu']:.4f}",
         f"{own['loss']:.3f}", f"{own['sentences']:,}"]
        for own in facts["evaluations"]
    ]  # fmt: skip
    page.add(
        *how_trained(facts),
        f"The checkpoint is that of step {first['checkpoint']}, the best on the validation set. Scores ignore case.",
        results.markdown(HEADER, body),
        f"sacreBLEU signature: `{first['bleu_signature']}`. Rows for programs: [results.json](results.json).",
    )
    if facts["training_seconds"] is not None:
        page.add("The training loss includes dropout, and label smoothing if there is any.")
    runs = {os.path.basename(os.path.normpath(facts["workdir"])): folder}
    page.curves("loss.png", "loss", runs=runs, title="Loss")
    label = "BLEU on the validation set, greedy"
    page.curves("bleu.png", "BLEU on the validation set", runs=runs, figure="bleu", label=label, title="BLEU")
    page.add(f"## Best and worst translations of {first['data']}", facts["extremes"])
    return page.write()


def main():
    """Evaluates, and writes the page."""
    values = flags.FLAGS
    if not all(width.isdecimal() and int(width) for width in values.beams):
        raise errors.ConfigError(f"--beams={','.join(values.beams)}: expected whole numbers above 0, such as 1,4")
    beams = [int(width) for width in values.beams]
    measured = functools.partial(
        measure, values.workdir, values.config, values.data, beams=beams, made=pages.command_line()
    )
    facts = records.of_page(values.out, measured, run=values.workdir, report_only=values.report_only)
    with tempfile.TemporaryDirectory() as folder:
        records.unpack(os.path.join(values.out, records.NAME), folder)
        names = write(values.out, facts, folder=os.path.join(folder, records.PAGE))
    print(f"wrote {values.out}/{', '.join(names)}")


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "Folder of the trained run.")
    flags.DEFINE_string("config", None, "The config that it was trained with, as given to train.py.")
    flags.DEFINE_list("data", None, "Test sets, KIND:NAME@SPLIT, separated by commas.")
    help = "Numbers of beams, separated by commas; 1 is greedy decoding."
    command_line.define_integers("beams", ["1", "4"], help=help, low=1, high=1000)
    flags.DEFINE_string("out", None, "Folder of the page.")
    pages.define_report_only()
    command_line.run(main, required=["workdir", "config", "data", "out"])
