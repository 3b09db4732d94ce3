"""Training: from a config to a finished run.

Reading order, as a run goes:

1. ``train.py`` parses the flags and calls `train.run`.
2. `train` locks the workdir, opens the base and the teachers, and hands a built run to the loop.
3. `build` makes the run: data, model, task and weights (`lwt.runs.assembly`), loss, optimizer, step, evaluation.
4. `loop` is the only training loop: step, log, evaluate, save, resume.
5. `step` is one optimizer step: gradients, accumulation, the check that everything is finite, the update.
6. `optim` makes the optimizer: schedule, labels of the leaves, one group of settings for each label.
7. `checks` refuses bad configs; `teaching` prepares a teacher; `log` writes figures; `new_run` writes derived runs.
"""
