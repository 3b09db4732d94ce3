"""Trains a small base, adapts it to new tasks, evaluates both and plots the results.

    make quickstart
    python -m lwt.quickstart
    python -m lwt.quickstart --smoke

It downloads nothing: the data are generated from a seed. It runs the same code as `train.py` and `eval.py`. The results
are in ``runs/quickstart/`` of the current folder. ``--smoke`` only shows that everything works: it trains two steps.
"""

import os
import re
import shutil
import sys
import time

from absl import flags

import lwt
from lwt.machine import command_line
from lwt.report import plots
from lwt.runs import config_file
from lwt.training import train

FOLDER = "runs/quickstart"
CONFIG = "configs/quickstart.py"


def main():
    """The program."""
    run(smoke=flags.FLAGS.smoke)


def run(*, smoke=False):
    """Runs both stages in ``runs/quickstart/``; prints a table of accuracies and the paths of the plots.

    Args:
        smoke: whether to train two steps only.
    """
    begin = time.perf_counter()
    base, adapted = f"{FOLDER}/base", f"{FOLDER}/adapted"
    shutil.rmtree(FOLDER, ignore_errors=True)
    command = command_line.as_called(f"python train.py --config={CONFIG}:stage=base --workdir={base}")
    print(f"1/4  train a base on three tasks: {command}", flush=True)
    short = ",smoke=true" if smoke else ""
    train.run(config_file.load(f"{CONFIG}:stage=base{short}"), base)
    print(
        f"\n2/4  adapt it to two more with LoRA: --config={CONFIG}:stage=adapt,base={base} --workdir={adapted}",
        flush=True,
    )
    config = config_file.load(f"{CONFIG}:stage=adapt,base={base}{short}")
    train.run(config, adapted)

    print("\n3/4  evaluate both on unseen test sequences", flush=True)
    new = config.data.test
    before, after = (lwt.load(workdir).report(data=new) for workdir in (base, adapted))
    tasks = sorted(name.removeprefix("exact_match/") for name in after if name.startswith("exact_match/"))
    print(f"\n{'exact match on new tasks':<28}{'base':>9}{'adapted':>9}")
    for task in ("", *tasks):
        name = f"exact_match/{task}" if task else "exact_match"
        print(f"{task or 'all':<28}{before[name]:>9.1%}{after[name]:>9.1%}")

    print("\n4/4  plot", flush=True)
    shares = {task: [100 * found[f"exact_match/{task}"] for found in (before, after)] for task in tasks}
    plots.learning_curves({"base": base, "adapted": adapted}, f"{FOLDER}/loss.png", title="Loss", log_y=True)
    plots.bars(
        {name: {task: shares[task][i] for task in tasks} for i, name in enumerate(("base", "adapted"))},
        f"{FOLDER}/accuracy.png",
        label="exact match (%)",
        title="Tasks that the base never saw",
    )
    print(f"\ndone in {time.perf_counter() - begin:.0f} s; results:")
    for path in ("loss.png", "accuracy.png", "adapted/eval", "adapted/metrics.jsonl", "adapted/adapter"):
        print(f"  {FOLDER}/{path}")
    command = command_line.as_called(f"python eval.py --workdir={adapted} --predict=-")
    if sys.prefix != sys.base_prefix:  # `python` may not be that of the environment in use
        command = re.sub("^python(?= )", os.path.relpath(sys.executable), command)
    print(f"  {command}      # then type: sort descending: 48 13 92 75")
    print("next: a translator on real data, see README.md")


if __name__ == "__main__":
    flags.DEFINE_boolean("smoke", False, "Train two steps only.")
    command_line.run(main, required=[])
