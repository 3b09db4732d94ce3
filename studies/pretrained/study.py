"""LoRA of a pretrained text encoder, in lwt and in PEFT with transformers: accuracy and training speed.

    python -m studies.pretrained --base=hf:all-MiniLM-L6-v2 --workdir=runs/pretrained --out=docs/results/pretrained
    python -m studies.pretrained --base=hf:all-MiniLM-L6-v2 --workdir=runs/pretrained --only='^snips'
    python -m studies.pretrained --base=hf:all-MiniLM-L6-v2 --workdir=runs/pretrained --report_only

Both sides read the same batches in the same order: splits, tokens, rows and padding are lwt's. They have the same
matrices to adapt, rank, head, optimizer, schedule, rates and dropout, and choose the checkpoint alike: the epoch with
the best Matthews correlation on 500 records of the validation set. Initial factors, heads and dropout masks are random
and differ. The runs of the two sides alternate, so that both see the same machine.

A run's folder has a name like ``snips-peft-rate0.001-seed0``. How runs are chosen, resumed and reported:
`lwt/report/study.py`.
"""

import functools
import os

from absl import flags

from lwt import trees
from lwt.machine import hardware
from lwt.report import plots, study
from lwt.runs import config_file, experiment, run_config
from studies.pretrained import peft_side
from studies.pretrained import report as pretrained_report

RECORD = os.path.join("eval", "pretrained_study.json")
TASKS = {"snips": "folder:snips", "emotion": "folder:emotion"}
SIDES = ("lwt", "peft")
RATES = (1e-3,)


def entries(base, *, seeds=3, smoke=False):
    """The runs of the study, seed by seed; the two sides of a setting follow each other.

    Args:
        base: the encoder, ``hf:FOLDER``.
        seeds: runs of every setting.
        smoke: whether to train for two steps only.
    """
    found = []
    for seed in range(seeds):
        for task in TASKS:
            for rate in RATES:
                arguments = dict(base=base, data=TASKS[task], method="lora", rank=pretrained_report.RANK, rate=rate)
                arguments |= dict(epochs=pretrained_report.EPOCHS, pool="mean")
                spec = study.spec_of(
                    "configs/finetune.py", {**arguments, "seed": seed}, more="smoke=true" if smoke else ""
                )
                for side in SIDES:
                    about = dict(task=task, side=side, rate=rate, seed=seed)
                    found.append(study.Entry(f"{task}-{side}-rate{rate:g}-seed{seed}", about, spec))
    return found


def config_of(entry):
    """The config of a run, of either side."""
    config = config_file.load(entry.spec)
    with config.unlocked():
        config.log_every = min(config.log_every, 25)  # speed is measured over these spans
        if "smoke" not in entry.spec:
            config.data.max_train_records = pretrained_report.RECORDS
            config.data.max_eval_records = pretrained_report.CHOSEN_ON
    return config


def run(entry, workdir):
    """Trains the run of `entry` unless it is finished; measures it once; returns its record."""
    if entry.arguments["side"] == "lwt":
        return study.run(entry, workdir, measure=measure, record=RECORD, config=config_of(entry))
    folder, config = os.path.join(workdir, entry.name), config_of(entry)
    kept = study.read_record(folder, RECORD)
    if kept:
        return kept
    run_config.keep(config, folder)
    hardware.record(folder)
    found = {"arguments": entry.arguments, "config": entry.spec} | peft_side.train(config, folder, speed_of=speed_of)
    found["hardware"] = hardware.of_run(folder)
    study.write_record(folder, found, record=RECORD)
    return found


def measure(entry, folder):
    """The record of a run of lwt: figures of the best checkpoint on the test set, size and speed."""
    del entry
    trained = experiment.load(folder)
    own, _ = trained.stored()
    steps, speeds = plots.read(folder, "train/steps_per_second")
    spans = [(step, step - before, (step - before) / speed) for before, step, speed in zip([0, *steps], steps, speeds)]
    return {
        "checkpoint": trained.step,
        "validation": trained.report(split="validation"),
        "figures": trained.report(),
        "trainable": trees.count(own),
        "texts_per_second": speed_of(spans) * trained.config.data.rows,
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def speed_of(spans):
    """Steps a second after the first `WARM` steps, from ``[(last step, number of steps, seconds)]``."""
    late = [span for span in spans if span[0] > pretrained_report.WARM] or spans
    return sum(count for _, count, _ in late) / sum(seconds for _, _, seconds in late)


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(values.base, seeds=values.seeds, smoke=values.smoke)
    write = functools.partial(pretrained_report.write, base=values.base)
    study.main(found, run, write=write, record=RECORD, config=config_of)
