"""Quality against cost: the same small models trained with every attention, for the same steps.

    python -m studies.attention --workdir=runs/attention --out=docs/results/attention_quality
    python -m studies.attention --workdir=runs/attention --only='^translation-(softmax|kv_projection)'
    python -m studies.attention --workdir=runs/attention --only=classification-linear_elu    # its search, and its runs
    python -m studies.attention --workdir=runs/attention --index=$SLURM_ARRAY_TASK_ID
    python -m studies.attention --workdir=runs/attention --report_only

A run is the config of its task (`TASKS` of `configs/kv_projection.py`) with one attention
(`studies/attention/variants.py`) and a seed. Its folder has a name like ``translation-local-seed0``. An attention
without a causal form, or one that cannot attend to another sequence, is replaced by softmax attention there. Rows hold
one text each, because some attentions mix all texts of a row. The best checkpoint is evaluated on the test set. For
classification, every attention gets the same search of three learning rates (`lwt/report/searched.py`).

``softmax_block256`` is left out: it is softmax attention, and the same program on rows no longer than its block.

How runs are chosen, resumed and reported: `lwt/report/study.py`. The page holds all runs of the workdir that have a
record, whatever the flags.
"""

import dataclasses
import os

import jax
import jax.numpy as jnp

from configs import kv_projection
from lwt import trees
from lwt.inspect import cost
from lwt.report import searched, study
from lwt.runs import config_file, experiment
from studies.attention import report as attention_report
from studies.attention import variants as attention_variants

RECORD = os.path.join("eval", "attention_study.json")
REACH = 8  # keys, landmarks, ... of the variants that save on them; most texts have 10 to 40 tokens
ROW = 32  # positions of the rows that operations are counted for
LEFT_OUT = ("softmax_block256",)


@dataclasses.dataclass(frozen=True)
class Task:
    """A task that is trained with every attention.

    Attributes:
        config: file of its config; arguments: of that file.
        model: keys that are set on the model.
        settings: other keys that are set, by their dotted names.
        length: of the longest row.
        rates: that every attention tries; (): all attentions have the rate of the config.
    """

    config: str
    arguments: dict
    model: dict
    settings: dict
    length: int
    rates: tuple = ()


OWN = {"translation": dict(length=64), "classification": dict(length=128, rates=(1.25e-4, 5e-4, 2e-3))}
TASKS = {name: Task(**task, **OWN[name]) for name, task in kv_projection.TASKS.items()}


def entries(*, seeds=3, smoke=False):
    """The searches, and the runs seed by seed.

    Args:
        seeds: runs of every setting.
        smoke: whether to train tiny models for two steps each.
    """
    variants = [name for name in attention_variants.names() if name not in LEFT_OUT]
    settings = [dict(task=task, attention=name) for task in TASKS for name in variants]
    found = searched.entries(settings, of=spec_of, seeds=seeds, smoke=smoke)
    return [entry for entry in found if TASKS[entry.arguments["task"]].rates or not searched.is_search(entry.arguments)]


def spec_of(arguments, seed):
    """``FILE.py:key=value,...`` of a run, the same for all attentions and seeds of a task."""
    del seed  # `config_of` sets it
    task = TASKS[arguments["task"]]
    return study.spec_of(task.config, task.arguments)


def config_of(entry):
    """The config of a run: that of its task, with the settings of the study; or of a trial of a search."""
    task, config = TASKS[entry.arguments["task"]], config_file.load(entry.spec)
    settings = task.settings if "smoke" not in entry.spec else {}  # they say how long it trains, and on how much
    with config.unlocked():
        config.seed = entry.arguments.get("seed", 0)
        config.data.packed = False
        config.update_from_flattened_dict(settings)
        config.model = config.model.to_dict() | task.model | places(section_of(entry, config), config.model.name)
    return searched.shortened(config, entry)


def section_of(entry, config):
    """The config section of a run's attention."""
    length, head_width = TASKS[entry.arguments["task"]].length, config.model.width // config.model.heads
    return attention_variants.sections(head_width, length=length, reach=REACH)[entry.arguments["attention"]]


def places(section, model):
    """``{key of the model: section}``: the attention of a section where it can stand, softmax elsewhere.

    Args:
        section: from `attention_variants.sections`.
        model: name of the model.
    """
    if model != "seq2seq":
        return {"attention": section}
    able, softmax = attention_variants.abilities(section), {"name": "softmax"}
    return {
        "attention": section,
        "decoder_attention": section if able.has_causal else softmax,
        "cross_attention": section if able.crosses else softmax,
    }


def run(entry, workdir, *, known):
    """Trains or resumes a run, or searches a rate, unless that is done; returns the record; see `searched.run`."""
    rates = TASKS[entry.arguments["task"]].rates
    if not rates:
        return study.run(entry, workdir, measure=measure, record=RECORD, config=config_of(entry))
    given = dict(rates=rates, record=RECORD, config_of=config_of, measure=measure, metric="mcc")
    return searched.run(entry, workdir, known=known, **given)


def measure(entry, folder):
    """The record of a run: figures on the test set, costs, and the settings of its attention."""
    trained = experiment.load(folder)
    config, section = trained.config, section_of(entry, trained.config)
    counted = cost.measure(config, rows=config.data.rows, row_length=ROW)
    cache = cache_bytes(trained.model, TASKS[entry.arguments["task"]].length)
    return searched.facts(trained, folder) | {
        "costs": {
            "flops": counted["flops_per_example"]["forward_backward"],
            "parameters": trees.count(trained.weights),
        }
        | ({"cache_bytes": cache} if cache else {}),
        "setting": attention_variants.describe(section),
        "softmax_in": [key for key, value in places(section, config.model.name).items() if value != section],
    }


def cache_bytes(model, length):
    """Bytes of the decode cache for a text of `length` tokens and as many steps; 0 if the model does not decode."""
    if not hasattr(model, "start"):
        return 0

    def start():
        variables = model.init(jax.random.key(0), model.example())
        memory, segments = jnp.zeros((1, length, model.width)), jnp.ones((1, length), jnp.int32)
        return model.apply(variables, memory, segments, length=length, method="start")

    cache = jax.eval_shape(start)
    kept = [part[name] for part in cache.values() for name in part if name.startswith("layer_")]
    return trees.nbytes(kept)


def main():
    """The program."""
    searched.main(entries, run, write=attention_report.write, record=RECORD, config=config_of)
