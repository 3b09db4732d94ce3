"""Writes the page of a trained translator: scores on several test sets, curves, best and worst translations.

    python -m studies.translation.report --workdir=runs/multi30k --config=configs/translation.py:data=multi30k \\
        --data=folder:multi30k_de_en@test2016_flickr,folder:multi30k_de_en@test2017_flickr \\
        --out=docs/results/translation_multi30k

Writes README.md, results.json, loss.png and bleu.png.
"""

import json
import os
import pathlib
import time

from absl import flags

from lwt.machine import command_line, hardware
from lwt.report import pages, plots, results
from lwt.runs import eval_files, experiment

METRICS = ("bleu", "chrf", "sentence_bleu", "loss")


def evaluate(workdir, config, names, *, beams):
    """Evaluates every set with every number of beams: ``(rows of results.json, {(set, decoding): figures})``."""
    rows, evaluated = [], {}
    trained = last_row(workdir)
    for width in beams:
        translator = experiment.load(workdir, decoding={"beams": width})
        decoding = translator.task.decoding()
        for name in names:
            begin = time.perf_counter()
            figures = translator.report(data=name)
            evaluated[name, decoding] = figures
            rows += [
                {
                    "config": config,
                    "overrides": {"decoding": decoding, "checkpoint": translator.step},
                    "seed": translator.config.seed,
                    "split": name,
                    "metric": metric,
                    "value": figures[metric],
                    "paper": None,
                    "hardware": hardware.of_run(workdir),
                    "seconds": round(time.perf_counter() - begin, 1),
                    "command": pages.command_line(),
                }
                for metric in METRICS
            ]
    rows.append(
        rows[0]
        | {"overrides": {}, "split": "train", "metric": "training seconds", "value": trained["time"]}
        | {"seconds": trained["time"], "command": f"python train.py --config={config} --workdir={workdir}"}
    )
    return rows, evaluated


def last_row(workdir):
    """The last row of ``metrics.jsonl``."""
    with open(os.path.join(workdir, "metrics.jsonl")) as file:
        return json.loads(file.readlines()[-1])


def page(workdir, config, rows, evaluated, *, beams):
    """The Markdown page."""
    scores = [row for row in rows if row["metric"] in METRICS]
    table = results.markdown(
        ["test set", "decoding", "BLEU", "chrF", "mean sentence BLEU (0-1)", "loss (nats a token)", "sentences"],
        [
            [name, decoding, f"{f['bleu']:.2f}", f"{f['chrf']:.2f}", f"{f['sentence_bleu']:.4f}", f"{f['loss']:.3f}",
             f"{f['sentences']:,}"]
            for (name, decoding), f in evaluated.items()
        ],
    )  # fmt: skip
    first_name, first = next((name, figures) for (name, _), figures in evaluated.items())
    minutes = rows[-1]["value"] / 60
    lines = [
        f"# Translation: `{config}`",
        "",
        f"Trained in {minutes:.0f} minutes on {rows[-1]['hardware']} (evaluations included), seed {rows[0]['seed']}:",
        "",
        f"    {rows[-1]['command']}",
        "",
        f"Evaluated at step {first['checkpoint']} (the best on the validation set), scores without regard to case:",
        "",
        f"    {scores[0]['command']}",
        "",
        table,
        f"sacreBLEU signature: `{first['bleu_signature']}`. Rows for programs: [results.json](results.json).",
        "",
        "The training loss is that of training: with dropout, and label smoothing if there is any.",
        "",
        "![loss](loss.png)",
        "![BLEU on the validation set](bleu.png)",
        "",
        f"## Best and worst translations of {first_name}",
        "",
        (pathlib.Path(workdir) / "eval" / extremes_name(first_name, beams[0])).read_text(),
    ]
    return "\n".join(lines)


def extremes_name(name, width):
    """The name of the file of best and worst outputs that an evaluation of a set wrote."""
    return eval_files.stem(name, {"beams": width}) + ".md"


def main():
    """Evaluates, and writes the page."""
    values = flags.FLAGS
    beams = [int(width) for width in values.beams]
    rows, evaluated = evaluate(values.workdir, values.config, values.data, beams=beams)
    out = pathlib.Path(values.out)
    results.write(out / "results.json", rows)
    name = os.path.basename(os.path.normpath(values.workdir))
    plots.learning_curves({name: values.workdir}, out / "loss.png", title="Loss")
    label = "BLEU on the validation set, greedy"
    plots.learning_curves({name: values.workdir}, out / "bleu.png", figure="bleu", label=label, title="BLEU")
    (out / "README.md").write_text(page(values.workdir, values.config, rows, evaluated, beams=beams))
    print(f"wrote {out}/README.md, results.json, loss.png, bleu.png")


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "Folder of the trained run.")
    flags.DEFINE_string("config", None, "The config that it was trained with, as given to train.py.")
    flags.DEFINE_list("data", None, "Test sets, KIND:NAME@SPLIT, separated by commas.")
    flags.DEFINE_list("beams", ["1", "4"], "Numbers of beams, separated by commas; 1 is greedy decoding.")
    flags.DEFINE_string("out", None, "Folder of the page.")
    command_line.run(main, required=["workdir", "config", "data", "out"])
