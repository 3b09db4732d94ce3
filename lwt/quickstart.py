"""``make quickstart``: trains a small base, adapts it to tasks that it never saw, evaluates both, draws.

Nothing is downloaded: the data are made up from a seed. What it runs is what `train.py` and `eval.py` run.
"""

import os
import shutil
import time

from lwt import errors
from lwt.machine import command_line, memory
from lwt.report import plots
from lwt.runs import config_file, experiment
from lwt.training import train

FOLDER = "runs/quickstart"
CONFIG = "configs/quickstart.py"


def main():
    """Runs both stages in ``runs/quickstart/`` and prints a table of accuracies and the paths of the plots."""
    begin = time.perf_counter()
    command_line.show_log()
    base, adapted = f"{FOLDER}/base", f"{FOLDER}/adapted"
    shutil.rmtree(FOLDER, ignore_errors=True)
    print(f"1/4  a base learns three tasks: train.py --config={CONFIG}:stage=base --workdir={base}", flush=True)
    train.run(config_file.load(f"{CONFIG}:stage=base"), base)
    print(f"\n2/4  LoRA teaches it two more: --config={CONFIG}:stage=adapt,base={base} --workdir={adapted}", flush=True)
    config = config_file.load(f"{CONFIG}:stage=adapt,base={base}")
    train.run(config, adapted)

    print("\n3/4  both are evaluated on test sequences that neither saw", flush=True)
    new = config.data.test
    before, after = experiment.load(base).report(data=new), experiment.load(adapted).report(data=new)
    tasks = sorted(name.removeprefix("exact_match/") for name in after if name.startswith("exact_match/"))
    print(f"\n{'exact match on new tasks':<28}{'base':>9}{'adapted':>9}")
    for task in ("", *tasks):
        name = f"exact_match/{task}" if task else "exact_match"
        print(f"{task or 'all':<28}{before[name]:>9.1%}{after[name]:>9.1%}")

    print("\n4/4  plots", flush=True)
    shares = {task: [100 * found[f"exact_match/{task}"] for found in (before, after)] for task in tasks}
    plots.learning_curves({"base": base, "adapted": adapted}, f"{FOLDER}/loss.png", title="Loss", log_y=True)
    plots.bars(
        {name: {task: shares[task][i] for task in tasks} for i, name in enumerate(("base", "adapted"))},
        f"{FOLDER}/accuracy.png",
        label="exact match (%)",
        title="Tasks that the base never saw",
    )
    print(f"\nmade in {time.perf_counter() - begin:.0f} s; look at")
    for path in ("loss.png", "accuracy.png", "adapted/eval", "adapted/metrics.jsonl", "adapted/adapter"):
        print(f"  {FOLDER}/{path}")
    print(f"  .venv/bin/python eval.py --workdir={adapted} --predict=-      # then type: sort descending: 8 13 2 5")
    print("next: README.md, for a translator on real data")


if __name__ == "__main__":
    memory.tune_allocator()
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the configs lie beside the package
    try:
        main()
    except errors.LwtError as error:
        command_line.fail(str(error))
