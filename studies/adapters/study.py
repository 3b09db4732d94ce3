"""Every adapter here on two small models: accuracy against trained weights, bytes, memory and time.

    python -m studies.adapters --workdir=runs/adapters --out=docs/results/adapters
    python -m studies.adapters --workdir=runs/adapters --only='snips-(ia3|lora)'
    python -m studies.adapters --workdir=runs/adapters --report_only

A text encoder learns Snips, Emotion and LiMiT from some thousand records each (`ENCODER`), with an adapter on every
linear layer and a head; a translator learns arithmetic ("Implementing Transformers", section 4.2), with one on query,
key and value.
`SIZES` lists the methods and the sizes of each. Every method, size and task has the same search of its rate
(`lwt/report/search.py`: five whole runs with seed 0, judged on the validation set), and three seeds with that rate. The
run with seed 0 is the search's own. No choice sees the test set.

Runs have names like ``snips-lora-4-seed0``, searches like ``search-snips-lora-4``. ``cost-snips-lora-4`` measures the
memory and the times of a setting, and has to be alone on the machine: ``--only=^cost``. How runs are chosen, resumed
and reported: `lwt/report/study.py`.
"""

import dataclasses
import functools
import os
import shutil

import jax.numpy as jnp
import numpy as np
from absl import flags

from lwt import trees
from lwt.machine import hardware
from lwt.reparam import adapters, compose
from lwt.report import search, study
from lwt.runs import adapter_folder, assembly, checkpoint, config_file, experiment, run_config
from studies.adapters import costs
from studies.adapters import report as adapters_report

RECORD = os.path.join("eval", "adapters_study.json")
ROWS = 32  # of a batch
ENCODER = {  # task -> records of the training set, epochs; with fewer, Emotion stays at its most frequent class
    "snips": (2_000, 3.0),
    "emotion": (4_000, 4.0),
    "limit": (2_000, 3.0),
}
LENGTH = 48  # tokens of a text
STEPS = 500  # of the translator
TASKS = (*ENCODER, "arithmetic")
COSTS_OF = ("snips", "arithmetic")  # the other tasks of a base cost the same
CHOSEN_BY = {"arithmetic": dict(metric="loss", lower=True)}  # exact match is 0 for small adapters
BY_ACCURACY = dict(metric="accuracy")
SIZES = {  # method -> its sizes: the argument `rank` of the config; for C3A the size of a block, 0 for the largest
    **dict.fromkeys(("lora", "lora_plus", "lora_dropout", "periodic_lora", "adalora", "dora"), (1, 4, 16)),
    **dict.fromkeys(("pissa", "eva", "corda"), (1, 4, 16)),
    "lora_ga": (1, 4, 8),  # its rank is at most 8 here: half of the shortest side of any kernel
    **dict.fromkeys(("hira", "shira", "oft", "lokr", "vera", "unilora", "houlsby"), (1, 4, 16)),
    **dict.fromkeys(("lora_fa", "singlora"), (2, 8, 32)),  # half of LoRA's weights at one rank
    "miss": (2, 8, 16),  # its rank is at most 16 here: the shortest side of any kernel
    "c3a": (0, 16, 4),
    **dict.fromkeys(("ia3", "bitfit", "layer_norm", "head", "full"), (0,)),  # they have one size
}

SCHEDULED = {  # keys of methods whose defaults are for longer runs -> the share of the run's steps
    "adalora": {"begin": 0.1, "end": 0.7},
    "periodic_lora": {"period": 0.25},
    "singlora": {"ramp": 0.1},
}


def entries(*, encoder, translator, seeds=3, smoke=False):
    """Setting by setting its search and its runs, which share what they compile, then the costs of all settings.

    Args:
        encoder, translator: the bases.
        smoke: whether to train for two steps only.
    """
    settings = [
        dict(task=task, method=method, size=size)
        for method, sizes in SIZES.items()
        for size in sizes
        for task in TASKS
        if not (task == "arithmetic" and method == "head")
    ]
    bases = dict.fromkeys(TASKS, encoder) | {"arithmetic": translator}
    runs = [[dict(row, stage="search"), *(dict(row, seed=seed) for seed in range(seeds))] for row in settings]
    rows = [*sum(runs, []), *(dict(row, stage="cost") for row in settings if row["task"] in COSTS_OF)]
    return [study.Entry(name_of(row), row, spec_of(row, bases[row["task"]], smoke=smoke)) for row in rows]


def name_of(arguments):
    """``{"task": "snips", "method": "lora", "size": 4, "seed": 0}`` -> ``"snips-lora-4-seed0"``."""
    size = [str(arguments["size"])] if arguments["size"] else []
    parts = [arguments["task"], arguments["method"], *size]
    return "-".join([arguments["stage"], *parts] if "stage" in arguments else [*parts, f"seed{arguments['seed']}"])


def spec_of(arguments, base, *, smoke):
    """The config of a run, without its rate; see `config_of`."""
    about = dict(base=base, method=arguments["method"])
    if arguments["size"] and arguments["method"] != "c3a":
        about["rank"] = arguments["size"]
    if arguments["task"] == "arithmetic":
        path, more = "configs/lora_ranks.py", dict(steps=STEPS)
    else:
        epochs = ENCODER[arguments["task"]][1]
        path = "configs/finetune.py"
        more = dict(data=f"folder:{arguments['task']}", epochs=epochs, rows=ROWS, length=LENGTH)
    seed = {"seed": arguments["seed"]} if "seed" in arguments else {}
    return study.spec_of(path, about | more | seed, more="smoke=true" if smoke else "")


def config_of(entry, spec=""):
    """The config of a run or trial, by default of the entry's own spec."""
    spec = spec or entry.spec
    config = config_file.load(spec)
    with config.unlocked():
        config.log_every = min(config.log_every, 25)  # speed is measured over these spans
        if entry.arguments["method"] == "c3a":
            config.reparam.block_size = entry.arguments["size"]
        records, epochs = ENCODER.get(entry.arguments["task"], (0, 0))
        steps = round(epochs * records / ROWS) or STEPS
        for key, share in SCHEDULED.get(entry.arguments["method"], {}).items():
            config.reparam[key] = round(share * steps)
        if records and "smoke" not in spec:
            config.data.max_train_records = records
    return config


def run(entry, workdir, *, searches):
    """Searches, trains or resumes `entry` unless it is finished; returns its record.

    Args:
        searches: ``{name: entry}`` of all searches; a run makes its own first.
    """
    chosen_by = CHOSEN_BY.get(entry.arguments["task"], BY_ACCURACY)
    configs = functools.partial(config_of, entry)
    if entry.name in searches:
        return search.run(entry, workdir, record=RECORD, config_of=configs, measure=figures_of, **chosen_by)
    if entry.arguments.get("stage") == "cost":
        return costs.run(entry, workdir, record=RECORD, config=configs())
    name = name_of({**entry.arguments, "stage": "search"})
    rate = run(searches[name], workdir, searches=searches)["rate"]
    own = dataclasses.replace(entry, spec=f"{entry.spec},rate={rate:g}")
    trial, folder = os.path.join(workdir, name, f"rate{rate:g}"), os.path.join(workdir, entry.name)
    if entry.arguments["seed"] == 0 and os.path.isdir(trial) and not os.path.exists(folder):
        shutil.copytree(trial, folder)
    return study.run(own, workdir, measure=measure, record=RECORD, config=configs(own.spec))


def figures_of(folder):
    """The figures of a trial: those of its best checkpoint on the validation set."""
    saved = checkpoint.of_run(folder, run_config.read(folder))
    found = saved.metrics(saved.best_step() or saved.last_step())
    return {name: value for name, value in found.items() if isinstance(value, float)}


def measure(entry, folder):
    """The record of a run: figures on the test set, and the size of what was trained."""
    del entry
    trained = experiment.load(folder)
    own = assembly.learned(compose.build(trained.config.reparam), trained.stored()[0])
    found = {
        "learning_rate": trained.config.optimizer.learning_rate,
        "checkpoint": trained.step,
        "figures": trained.report(),
        "trainable": trees.count({name: leaf for name, leaf in own.items() if not name.startswith("base/head/")}),
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }
    if os.path.isdir(os.path.join(folder, adapter_folder.FOLDER)):
        found |= stored_in(folder, trained)
    return found


def stored_in(folder, trained):
    """Bytes of an adapter in three formats, and its figures after rounding to int8."""
    adapter = adapters.load(os.path.join(folder, adapter_folder.FOLDER))
    rounded, leaf_bytes = rounded_to_int8(adapter.leaves)
    whole, whole_bytes = rounded_to_int8({n: w for n, w in adapter.whole.items() if not n.startswith("head/")})
    other = dataclasses.replace(adapter, leaves=rounded, whole={**adapter.whole, **whole})
    changed = trained.with_weights(other.expand(trained.base()), name="int8", step=trained.step)
    count = trees.count(adapter.leaves) + trees.count(whole)
    return {
        "bytes": {"float32": 4 * count, "float16": 2 * count, "int8": leaf_bytes + whole_bytes},
        "int8": changed.evaluate()[0],
    }


def rounded_to_int8(leaves):
    """``(leaves rounded to eight bits, bytes)``: one float32 scale for each column of a matrix, or for a vector."""
    found, size = {}, 0
    for name, leaf in leaves.items():
        leaf = np.asarray(leaf, np.float32)
        scale = np.abs(leaf).max(axis=0 if leaf.ndim > 1 else None, keepdims=True) / 127
        found[name] = jnp.asarray(np.round(leaf / np.where(scale, scale, 1)) * scale, jnp.float32)
        size += leaf.size + 4 * scale.size
    return found, size


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(encoder=values.encoder, translator=values.translator, seeds=values.seeds, smoke=values.smoke)
    searches = {entry.name: entry for entry in found if entry.arguments.get("stage") == "search"}
    train = functools.partial(run, searches=searches)
    study.main(found, train, write=adapters_report.write, record=RECORD, config=config_of)
