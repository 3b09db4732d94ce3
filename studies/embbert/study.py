"""The study of EmbBERT-Q: models by tasks by seeds, from scratch and pre-trained, in float32 and in eight bits.

    python -m studies.embbert --workdir=runs/embbert --out=docs/results/embbert
    python -m studies.embbert --workdir=runs/embbert --suite=tinynlp --models=embbert,bert_2mb --seeds=1
    python -m studies.embbert --workdir=runs/embbert --starts=scratch,pretrained --only='^snips|^rte'
    python -m studies.embbert --workdir=runs/embbert --starts=further,taught --models=embbert
    python -m studies.embbert --workdir=runs/embbert --only=^base --index=$SLURM_ARRAY_TASK_ID   # then
    python -m studies.embbert --workdir=runs/embbert --only=-seed --index=$SLURM_ARRAY_TASK_ID   # these
    python -m studies.embbert --workdir=runs/embbert --report_only

A model is pre-trained once, in ``base-MODEL`` (`configs/embbert_pretrain.py`). A run that is there already, of whatever
config of that model, is the one that is used; if it is not finished, it is gone on with by its own config. A bundle
(`lwt/export/bundle.py`) that was put there with the record of its run is used as it is. Then every
task is fine-tuned from it, in folders like ``snips-embbert-pretrained-seed0`` (`configs/embbert_finetune.py`); Embedder
and Embedder + Conv are trained from scratch, as in the paper, the others too with ``--starts``. With the start
``further`` a task is fine-tuned from ``base-MODEL-TASK``, which goes on from ``base-MODEL`` on the task's own training
texts (of GLUE: ``base-MODEL-glue``, on those of all nine tasks). With the start ``taught`` it learns beside the labels
from the mean of the first `TEACHERS` runs of that task whose start is ``pretrained``.

The best checkpoint is evaluated on the test set, or on both of MNLI's, then written to a file of integers, and
evaluated again from there.

How runs are chosen, gone on with and reported: `lwt/report/study.py`. The report holds all runs of the workdir that
have figures, whatever the flags.
"""

import dataclasses
import functools
import os

from absl import flags

from lwt import errors, trees
from lwt.export import quantize
from lwt.machine import hardware
from lwt.report import study
from lwt.runs import assembly, bundle, checkpoint, config_file, experiment, run_config
from studies.embbert import memory, paper
from studies.embbert import report as embbert_report

PRETRAIN, FINETUNE = embbert_report.PRETRAIN, "configs/embbert_finetune.py"
RECORD = os.path.join("eval", "study.json")
ARTEFACT = os.path.join("export", "int8.safetensors")
STARTS = ("scratch", "pretrained", "further", "taught")
TEACHERS = 3
SHARED = ("recipe", "vocabulary", "precision", "smoke")  # arguments of --more that pre-training takes, too


def entries(workdir, *, suite="all", models=(), starts=("pretrained",), seeds=3, more=""):
    """The runs of the study, those of pre-training first.

    Args:
        workdir: of the study.
        suite: "tinynlp", "glue" or "all".
        models: names of `configs/embbert_pretrain.py`; none: all of them.
        starts: of `STARTS`, for the models that the paper pre-trains.
        seeds: runs of every setting.
        more: arguments of every fine-tuning besides, ``"rate=0.001,smoke=true"``; pre-training takes those of `SHARED`.

    Raises:
        lwt.errors.ConfigError: an unknown suite, model or start, or an argument that tells the runs apart.
    """
    config = config_file.module(FINETUNE)
    suites = {"tinynlp": config.TINYNLP, "glue": config.GLUE, "all": config.TINYNLP + config.GLUE}
    known = config_file.module(PRETRAIN).MODELS
    _require("suite", [suite], suites)
    _require("models", models, known)
    _require("starts", starts, STARTS)
    given = [item for item in more.split(",") if item]
    taken = [item for item in given if item.partition("=")[0] in ("model", "task", "data", "base", "seed")]
    if taken:
        raise errors.ConfigError(f"--more={more}: {taken[0]} is for the study to say; see --models, --suite, --seeds")
    shared = ",".join(item for item in given if item.partition("=")[0] in SHARED)
    bases, runs = {}, {}
    for arguments in config.sweep(seeds, models=tuple(models) or tuple(known), tasks=suites[suite], starts=starts):
        for base_name, own, begun in bases_of(arguments):
            before = {"base": os.path.join(workdir, begun)} if begun else {}
            bases[base_name] = study.Entry(base_name, own, study.spec_of(PRETRAIN, own | before, shared))
        for needed in (*teachers_of(arguments), arguments):  # what another learns from comes first
            runs[name_of(needed)] = study.Entry(name_of(needed), needed, tuning_of(needed, workdir, more))
    return [*bases.values(), *runs.values()]


def name_of(arguments):
    """The folder of a fine-tuning."""
    return "{task}-{model}-{start}-seed{seed}".format(**arguments)


def tuning_of(arguments, workdir, more):
    """``FILE.py:key=value,...`` of a fine-tuning."""
    passed = {key: arguments[key] for key in ("model", "task", "seed")}
    if found := bases_of(arguments):
        passed = {"base": os.path.join(workdir, found[-1][0])} | passed
    if found := teachers_of(arguments):
        passed["teacher"] = "+".join(os.path.join(workdir, name_of(teacher)) for teacher in found)
    return study.spec_of(FINETUNE, passed, more)


def bases_of(arguments):
    """The pre-training that a run needs, in order: ``[(name, arguments, name of the one that it goes on from)]``."""
    model, start = arguments["model"], arguments.get("start")
    if start in (None, "scratch"):  # None: a pre-training itself
        return []
    first = f"base-{model}"
    found = [(first, {"model": model}, "")]
    if start == "further":
        config, task = config_file.module(PRETRAIN), arguments["task"]
        name, texts = ("glue", "glue") if task in config.GLUE else (task, config.data_of(task))
        found.append((f"{first}-{name}", {"model": model, "data": texts}, first))
    return found


def teachers_of(arguments):
    """The arguments of the fine-tunings that a run learns from."""
    if arguments.get("start") != "taught":
        return []
    return [arguments | {"start": "pretrained", "seed": seed} for seed in range(TEACHERS)]


def needs_of(arguments):
    """Names of the runs that have to be finished before one starts."""
    return [*(name for name, *_ in bases_of(arguments)), *map(name_of, teachers_of(arguments))]


def with_needs(chosen, found):
    """The entries `chosen`, and before them those that they start or learn from, from all entries `found`."""
    names = {entry.name for entry in chosen}
    names |= {name for entry in chosen for name in needs_of(entry.arguments)}
    for entry in found:  # a base that was chosen itself may go on from another
        if entry.name in names and "data" in entry.arguments:
            names.add(f"base-{entry.arguments['model']}")
    return [entry for entry in found if entry.name in names]


def run(entry, workdir):
    """Trains, goes on with, or leaves alone the run of `entry`; measures it once; returns its record.

    Raises:
        lwt.errors.ConfigError: the run starts from one that is not finished; names the call that finishes it.
        lwt.errors.LwtError: see `study.run`.
    """
    folder = os.path.join(workdir, entry.name)
    if "task" not in entry.arguments:
        if bundle.is_bundle(folder) and (kept := study.read_record(folder, RECORD)):
            return kept
        begun = checkpoint.of_run(folder).last_step()
        config = run_config.read(folder) if begun else None
        measured = functools.partial(measure_base, found=bool(begun))
        return study.run(entry, workdir, measured, record=RECORD, config=config)
    for name in needs_of(entry.arguments):
        if not study.read_record(os.path.join(workdir, name), RECORD):
            raise errors.ConfigError(f"{workdir}/{name} is not there or not finished: --only='^{name}$' trains it")
    return study.run(entry, workdir, measure, record=RECORD)


def measure_base(entry, folder, *, found):
    """What is kept of a pre-training: its length, text and last figures, and the config of one that was `found` here,
    maybe trained in another way."""
    config = run_config.read(folder)
    saved = checkpoint.of_run(folder)
    return {
        "config": os.path.join(folder, run_config.NAME) if found else entry.spec,
        "epochs": config.epochs,
        "data": config.data.train,
        "init_from": config.init_from,
        "figures": saved.metrics(saved.last_step()),
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def measure(entry, folder):
    """What is kept of a fine-tuning: figures of both forms on every test set, the file's bytes, the splits' sizes."""
    del entry
    opened = experiment.load(folder)
    splits = assembly.make_data(opened.config, folder, make=False).splits
    path = os.path.join(folder, ARTEFACT)
    size = quantize.export(opened, path)
    forms = {paper.FLOAT: opened, paper.EIGHT_BIT: opened.with_file(path)}
    figures = {form: {part: found.report(split=part) for part in splits.tests} for form, found in forms.items()}
    return {
        "epochs": opened.config.epochs,
        "checkpoint": opened.step,
        "figures": figures,
        "quantization": dataclasses.asdict(quantize.quantization_of(opened)),
        "bytes": size,
        "weights": trees.count(opened.weights),
        "weights_without_head": trees.count(memory.body(opened.weights)),
        "rule": splits.rule,
        "records": splits.counts,
        "learning_rate": opened.config.optimizer.learning_rate,
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def _require(flag, given, known):
    """Refuses what is not `known`."""
    for name in given:
        if name not in known:
            raise errors.ConfigError(f"--{flag}={name}: {errors.suggest(name, known)}")


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(
        values.workdir, suite=values.suite, models=values.models, starts=values.starts, seeds=values.seeds,
        more=values.more,
    )  # fmt: skip
    chosen = study.choose(found, only=values.only, index=values.index)
    chosen = chosen if values.index >= 0 else with_needs(chosen, found)  # a job of an array does only its own
    write = functools.partial(embbert_report.write, workdir=values.workdir)
    study.main(
        chosen, functools.partial(run, workdir=values.workdir), write, record=RECORD, curves=embbert_report.curves
    )
