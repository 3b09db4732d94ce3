"""The study of EmbBERT-Q: models by tasks by seeds, from scratch and pre-trained, in float32 and in eight bits.

    python -m studies.embbert --workdir=runs/embbert
    python -m studies.embbert --workdir=runs/embbert --suite=tinynlp --models=embbert,bert_2mb --seeds=1
    python -m studies.embbert --workdir=runs/embbert --starts=scratch,pretrained --only='^snips|^rte'
    python -m studies.embbert --workdir=runs/embbert --starts=further,taught,small --models=embbert
    python -m studies.embbert --workdir=runs/embbert --starts=pretrained,paper --more=recipe=tuned   # and the paper's
    python -m studies.embbert --workdir=runs/embbert --suite=tinynlp --splits=own,code
    python -m studies.embbert --workdir=runs/embbert --only=^base --index=$SLURM_ARRAY_TASK_ID   # then
    python -m studies.embbert --workdir=runs/embbert --only=-seed --index=$SLURM_ARRAY_TASK_ID   # these
    python -m studies.embbert --workdir=runs/embbert --report_only

A model is pre-trained once, in ``base-MODEL`` (`configs/embbert_pretrain.py`). A pre-training that already exists there
is used, whatever its config; an unfinished one is resumed with its own config. A bundle (`lwt/export/bundle.py`) is
used as it is, if the record of its run lies beside it. Then every task is fine-tuned from the base, in folders like
``snips-embbert-pretrained-seed0`` (`configs/embbert_finetune.py`). Embedder and Embedder + Conv are trained from
scratch, as in the paper.

``--starts`` names other starts (`starts.py`). ``scratch``: without pre-training. ``further``: the base is first trained
further on the task's own training texts, in ``base-MODEL-TASK`` (for GLUE on those of all nine tasks, in
``base-MODEL-glue``). ``taught``: the model also learns from the mean of the first three runs of the task whose start is
``pretrained``. ``ngrams``: as ``pretrained``, but with a table of n-grams in the head, and without the training texts
that the validation or test set holds. ``paper``: pre-trained and fine-tuned by the paper's recipe, whatever recipe
``--more`` names; its base is ``base-MODEL-paper``. ``small``: from scratch, from small initial tables
(`studies/embbert/initial.py` compares them with others); also Embedder and Embedder + Conv.

``small_pretrained``: pre-trained from small initial tables, in ``base-MODEL-small``, and fine-tuned without the
training texts that the validation or test set holds. ``small_ngrams``: the same, with a table of n-grams.
``small_taught`` and ``small_taught_ngrams``: these two, taught by the first three runs with n-grams.
``small_taught_linear``: ``small_taught`` with a linear model of n-grams, fitted apart (`lwt/classify/ngrams.py`).
``small_labelled``: as ``small_pretrained``, on the training texts and on variants of them, in ``TASK-minilm-labelled``,
that the model of ``--encoder``, fine-tuned on the task, has labelled (`studies/embbert/labelled.py`).
``small_distilled``: the same, but it learns mostly from that model's outputs. ``small_distilled_linear``: with a linear
model of n-grams.

``--splits=code`` adds TinyNLP on the splits of the authors' code, without the training texts that the validation or
test set holds, in folders like ``snips-code-embbert-pretrained-seed0``.

The best checkpoint is evaluated on the test set (of MNLI: on both), then written to a file of integers, and evaluated
again from there.

How runs are chosen, resumed and reported: `lwt/report/study.py`. The page holds all runs of the workdir that have a
record, whatever the flags.
"""

import dataclasses
import functools
import os

from absl import flags

from lwt import errors, trees
from lwt.classify import ngrams
from lwt.export import quantize
from lwt.machine import hardware
from lwt.report import study
from lwt.runs import assembly, bundle, checkpoint, config_file, experiment, run_config
from studies.embbert import labelled, memory, paper
from studies.embbert import report as embbert_report
from studies.embbert import starts as embbert_starts

PRETRAIN, FINETUNE = embbert_report.PRETRAIN, "configs/embbert_finetune.py"
RECORD = os.path.join("eval", "study.json")
ARTEFACT = os.path.join("export", "int8.safetensors")
SPLITS = ("own", "code")
CODE = {"splits": "code"} | embbert_starts.LEAK_FREE  # added arguments, on the splits of the code
SET = ("model", "task", "data", "base", "seed", "splits")  # arguments of a fine-tuning that --more may not set
SHARED = ("recipe", "vocabulary", "precision", "smoke")  # arguments of --more that pre-training takes as well


def entries(
    workdir, *, suite="all", models=(), starts=("pretrained",), splits=("own",), seeds=3, more="",
    encoder=labelled.ENCODER,
):  # fmt: skip
    """The runs of the study, pre-trainings first.

    Args:
        workdir: of the study.
        suite: "tinynlp", "glue" or "all".
        models: names of `configs/embbert_pretrain.py`; none: all of them.
        starts: of `starts.STARTS`, for the models that the paper pre-trains.
        splits: of `SPLITS`, for the tasks of TinyNLP.
        seeds: runs of every setting.
        more: further arguments of every fine-tuning, ``"rate=0.001,smoke=true"``; pre-training takes those of `SHARED`.
        encoder: the larger model of `labelled`, ``hf:NAME`` or ``hf:FOLDER``.

    Raises:
        lwt.errors.ConfigError: an unknown suite, model, start or kind of splits; or `more` sets what distinguishes the
            runs.
    """
    config = config_file.module(FINETUNE)
    suites = {"tinynlp": config.TINYNLP, "glue": config.GLUE, "all": config.TINYNLP + config.GLUE}
    known = config_file.module(PRETRAIN).MODELS
    _require("suite", [suite], suites)
    _require("models", models, known)
    _require("starts", starts, embbert_starts.STARTS)
    _require("splits", splits, SPLITS)
    given = [item for item in more.split(",") if item]
    taken = [item for item in given if item.partition("=")[0] in SET]
    if taken:
        raise errors.ConfigError(f"--more={more}: the study sets {taken[0]}; see --models, --suite, --seeds, --splits")
    if given:
        config_file.load(f"{FINETUNE}:{more}")  # an unknown argument is refused before anything is pre-trained
    shared = ",".join(item for item in given if item.partition("=")[0] in SHARED)
    bases, runs = {}, {}
    swept = config.sweep(seeds, models=tuple(models) or tuple(known), tasks=suites[suite], starts=starts)
    for arguments in (on for one in swept for on in on_splits(one, splits)):
        for base_name, own, begun in embbert_starts.bases_of(arguments):
            before = {"base": os.path.join(workdir, begun)} if begun else {}
            bases[base_name] = study.Entry(base_name, own, spec_of(PRETRAIN, own | before, more=shared))
        for needed in (*embbert_starts.before(arguments), arguments):
            spec = tuning_of(needed, workdir, more=more, encoder=encoder)
            runs[name_of(needed)] = study.Entry(name_of(needed), needed, spec)
    return [*bases.values(), *runs.values()]


def on_splits(arguments, splits):
    """The arguments of a fine-tuning for each of the `splits` that its task has: GLUE's have their own only, as have
    labelled sets."""
    both = arguments["task"] in config_file.module(FINETUNE).TINYNLP and not embbert_starts.is_labelled(arguments)
    kinds = splits if both else {"own"} & {*splits}
    return [arguments if kind == "own" else arguments | {"splits": kind} for kind in kinds]


def name_of(arguments):
    """The folder of a fine-tuning."""
    texts = "-".join(arguments[key] for key in ("task", "splits") if key in arguments)
    return "{texts}-{model}-{start}-seed{seed}".format(texts=texts, **arguments)


def spec_of(path, arguments, *, more):
    """`study.spec_of`, in which the `arguments` of a run override those of `more`."""
    given = [item for item in more.split(",") if item.partition("=")[0] not in arguments]
    return study.spec_of(path, arguments, more=",".join(given))


def tuning_of(arguments, workdir, *, more, encoder):
    """``FILE.py:key=value,...`` of a fine-tuning."""
    if arguments["model"] == labelled.MODEL:
        first = [os.path.join(workdir, name_of(one)) for one in embbert_starts.larger_of(arguments)]
        own = labelled.tuning_of(arguments, encoder=encoder, first="".join(first))
        smoke = ",".join(item for item in more.split(",") if item.startswith("smoke="))
        return spec_of(labelled.TUNING, own, more=smoke)
    passed = {key: arguments[key] for key in ("model", "task", "seed")}
    if found := embbert_starts.bases_of(arguments):
        passed = {"base": os.path.join(workdir, found[-1][0])} | passed
    passed |= embbert_starts.STARTS[arguments["start"]].added
    if arguments.get("splits") == "code":
        passed |= CODE
    if embbert_starts.is_labelled(arguments):
        passed["added"] = labelled.folder_of(arguments["task"], workdir)
    if embbert_starts.is_distilled(arguments):
        passed |= {"teacher": larger_teacher(arguments, workdir), **labelled.LEARNING}
    if found := embbert_starts.teachers_of(arguments):
        passed["teacher"] = "+".join(os.path.join(workdir, name_of(teacher)) for teacher in found)
    return spec_of(FINETUNE, passed, more=more)


def larger_teacher(arguments, workdir):
    """The folder of the larger model that labels the training set of a run."""
    return os.path.join(workdir, name_of(embbert_starts.larger_of(arguments)[-1]))


def needs_of(arguments):
    """Names of the runs that must be finished before a run starts."""
    bases = [name for name, *_ in embbert_starts.bases_of(arguments)]
    return [*bases, *map(name_of, embbert_starts.before(arguments))]


def with_needs(chosen, found):
    """The entries `chosen`, preceded by those that they start or learn from, from all entries `found`."""
    names = {entry.name for entry in chosen}
    names |= {name for entry in chosen for name in needs_of(entry.arguments)}
    for entry in found:  # a base that was chosen itself may start from another
        if entry.name in names and "data" in entry.arguments:
            names.add(f"base-{entry.arguments['model']}")
    return [entry for entry in found if entry.name in names]


def run(entry, workdir):
    """Trains or resumes the run of `entry` unless it is finished; measures it once; returns its record.

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
        return study.run(entry, workdir, measure=measured, record=RECORD, config=config)
    for name in needs_of(entry.arguments):
        if not study.read_record(os.path.join(workdir, name), RECORD):
            raise errors.ConfigError(f"{workdir}/{name} is missing or unfinished: --only='^{name}$' trains it")
    if embbert_starts.network_of(entry.arguments):
        return run_linear(entry, workdir)
    if embbert_starts.is_labelled(entry.arguments) and not study.read_record(folder, RECORD):
        labelled.make(entry.arguments["task"], larger_teacher(entry.arguments, workdir), workdir)
        seeds = [entry.arguments | {"seed": seed} for seed in range(entry.arguments["seed"])]
        labelled.share_outputs(folder, [os.path.join(workdir, name_of(one)) for one in seeds])
    return study.run(entry, workdir, measure=measure, record=RECORD)


def run_linear(entry, workdir):
    """Adds a linear model of n-grams to the network of `entry`, and measures the sum, once; returns its record."""
    folder = os.path.join(workdir, entry.name)
    if kept := study.read_record(folder, RECORD):
        return kept
    network = os.path.join(workdir, name_of(embbert_starts.network_of(entry.arguments)))
    added = ngrams.add_once(network, folder, weights=embbert_starts.NGRAMS["ngram_weights"])
    trained = study.read_record(network, RECORD)
    found = {"arguments": entry.arguments, "config": entry.spec, "steps": trained["steps"]}
    found |= measure(entry, folder, seconds=added["seconds"])  # the training's are in the record of the network
    study.write_record(folder, found, record=RECORD)
    return found


def measure_base(entry, folder, *, found):
    """The record of a pre-training: its length, text, last figures and config.

    Args:
        entry: the run.
        folder: of the run.
        found: whether the run existed before the study, perhaps with another config than the entry's.
    """
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


def measure(entry, folder, *, seconds=None):
    """The record of a fine-tuning: figures of both forms on every test set, the file's bytes, the splits' sizes.

    Args:
        entry, folder: of the run.
        seconds: how long it took on this machine; None: the time of its training, on the machines of the run.
    """
    del entry
    trained = experiment.load(folder)
    splits = assembly.make_data(trained.config, folder, make=False).splits
    path = os.path.join(folder, ARTEFACT)
    size = quantize.export(trained, path)
    forms = {paper.FLOAT: trained, paper.EIGHT_BIT: trained.with_file(path)}
    figures = {form: {part: model.report(split=part) for part in splits.tests} for form, model in forms.items()}
    return {
        "epochs": trained.config.epochs,
        "checkpoint": trained.step,
        "figures": figures,
        "quantization": dataclasses.asdict(quantize.quantization_of(trained)),
        "bytes": size,
        "weights": trees.count(trained.weights),
        "weights_without_head": trees.count(memory.body(trained.weights)),
        "rule": splits.rule,
        "records": splits.counts,
        "learning_rate": trained.config.optimizer.learning_rate,
        "seconds": study.seconds(folder) if seconds is None else seconds,
        "hardware": hardware.of_run(folder) if seconds is None else hardware.describe(),
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
        values.workdir, suite=values.suite, models=values.models, starts=values.starts, splits=values.splits,
        seeds=values.seeds, more=values.more, encoder=values.encoder,
    )  # fmt: skip
    write = functools.partial(embbert_report.write, workdir=values.workdir)

    def config_of(entry):
        """The config of a fine-tuning; None for a pre-training, whose config is free, or a run without training."""
        trains = "task" in entry.arguments and not embbert_starts.network_of(entry.arguments)
        return config_file.load(entry.spec) if trains else None

    given = dict(needs=with_needs, config=config_of, curves=embbert_report.curves)
    study.main(found, run, write=write, record=RECORD, **given)
