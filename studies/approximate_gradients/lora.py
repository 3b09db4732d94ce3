"""Compares LoRA with approximate gradients and with exact ones, where the approximation is good and where it is not.

    python -m studies.approximate_gradients.lora --workdir=runs/approximate_lora --out=docs/results/approximate_lora
    python -m studies.approximate_gradients.lora --workdir=runs/approximate_lora --only='^base|^bound2-' --seeds=1
    python -m studies.approximate_gradients.lora --workdir=runs/approximate_lora --report_only

The base is BERT of 2 MB with ten heads of width 8, trained on Emotion. Its query and key weights are then scaled, layer
by layer, until the largest logit of a batch has a given value (`BOUNDS`). Each of these bases is adapted to Snips by
LoRA on query, key and value, once with softmax attention and once with every approximation (`METHODS`). Training would
make the logits large (from 1 to 55), where no approximation is good, so all attentions clip queries and keys to the
bound (``norm=clip``). With an exact forward pass they all train the same function from the same start; only the
gradient differs.

How runs are chosen, resumed and reported: `lwt/report/study.py`. With ``--index`` the run ``base`` must be finished.
"""

import functools
import os

import jax.numpy as jnp
from absl import flags

from lwt import errors
from lwt.attention.parts import approximation_check
from lwt.export import bundle
from lwt.layers import linear
from lwt.machine import hardware
from lwt.report import study
from lwt.runs import bundle as bundled
from lwt.runs import config_file, experiment
from studies.approximate_gradients import lora_report

CONFIG = "configs/embbert_finetune.py"
RECORD = os.path.join("eval", "approximate_lora.json")
BOUNDS = (0.5, 2, 8)  # on the absolute logits of the base, of a batch of its validation set
METHODS = {
    "exact": {"name": "softmax"},
    "degree1": {"name": "approximate", "degree": 1},
    "degree2": {"name": "approximate", "degree": 2},
    "degree3": {"name": "approximate", "degree": 3},
    "degree2_both_ways": {"name": "approximate", "degree": 2, "exact_forward": False},
}
HEADS = 10  # of width 8: features of degree 2 are 45
ADAPTER = {"name": "lora", "rank": 8, "targets": r".*attention/(query|key|value)/kernel"}
SAMPLE = 64  # records of the batch that logits are taken from


def entries(workdir, *, seeds=3, smoke=False):
    """The base, then the runs that adapt it, seed by seed.

    Args:
        workdir: of the study.
        seeds: runs of every setting.
        smoke: whether to train tiny models for two steps each.
    """
    more = "smoke=true" if smoke else ""
    base = dict(model="bert_2mb", task="emotion", recipe="tuned", word_dropout=0.0)
    found = [study.Entry(lora_report.BASE, {"seed": 0}, study.spec_of(CONFIG, base, more=more))]
    for seed in range(seeds):
        for bound in BOUNDS:
            adapted = dict(model="bert_2mb", base=base_of(workdir, bound), task="snips", recipe="tuned", seed=seed)
            adapted |= dict(word_dropout=0.0, epochs=2.0, rate=5e-3)
            found += [
                study.Entry(
                    f"bound{bound}-{method}-seed{seed}",
                    dict(bound=bound, method=method, seed=seed),
                    study.spec_of(CONFIG, adapted, more=more),
                )
                for method in METHODS
            ]
    return found


def base_of(workdir, bound):
    """Folder of the base whose largest logit is `bound`, a bundle."""
    return os.path.join(workdir, f"base-bound{bound}")


def config_of(entry):
    """The config of a run: that of its spec, with narrow heads, the attention and the adapter."""
    config = config_file.load(entry.spec)
    with config.unlocked():
        if "smoke" not in entry.spec:
            config.model.heads = HEADS
        if "method" in entry.arguments:
            # The approximations cannot drop weights.
            attention = METHODS[entry.arguments["method"]] | {"norm": "clip", "bound": float(entry.arguments["bound"])}
            changed = {"attention": attention, "attention_dropout": 0.0}
            config.model = config.model.to_dict() | changed
            config.reparam, config.optimizer.trainable = ADAPTER, ("adapter/.*", "base/head/.*")
    return config.lock()


def run(entry, workdir):
    """Trains or resumes the run of `entry` unless it is finished; measures it once; returns its record.

    Raises:
        lwt.errors.ConfigError: the base is missing.
    """
    if "method" not in entry.arguments:
        record = study.run(entry, workdir, measure=measure_base, record=RECORD, config=config_of(entry))
        for bound in BOUNDS:
            if not bundled.is_bundle(base_of(workdir, bound)):
                bundle.write(
                    with_largest(experiment.load(os.path.join(workdir, entry.name)), bound), base_of(workdir, bound)
                )
        return record
    if not bundled.is_bundle(base_of(workdir, entry.arguments["bound"])):
        raise errors.ConfigError(f"{base_of(workdir, entry.arguments['bound'])} is missing: --only='^base$' makes it")
    return study.run(entry, workdir, measure=measure, record=RECORD, config=config_of(entry))


def with_largest(base, bound):
    """The experiment `base` with query and key weights scaled, layer by layer, until its largest logit is `bound`."""
    weights, sample = linear.merge(base.weights), first_batch(base)
    check = functools.partial(approximation_check.check_model, base.model, batch=sample, warn=False)
    for layer in [one.layer for one in check(weights)]:
        found = {one.layer: one.largest for one in check(weights)}
        weights = _scale_logits(weights, layer, factor=bound / found[layer])
    return base.with_weights(weights, name=f"largest logit {bound}", step=base.step)


def _scale_logits(weights, layer, *, factor):
    """The flat dict `weights` with the query and key weights of a layer scaled so that its logits grow by `factor`."""
    sides = [side for side in ("query", "key") if f"{layer}/{side}/kernel" in weights]
    leaves = {f"{layer}/{side}/{leaf}" for side in sides for leaf in ("kernel", "bias")}
    root = factor ** (1 / len(sides))
    return {name: leaf * root if name in leaves else leaf for name, leaf in weights.items()}


def first_batch(trained):
    """A batch of the run's validation set, as the model takes it."""
    batch, *_ = trained.batches(limit=SAMPLE)
    return {name: jnp.asarray(batch[name]) for name in ("ids", "segments")}


def measure_base(entry, folder):
    """The record of the base."""
    del entry
    trained = experiment.load(folder)
    return {
        "epochs": trained.config.epochs,
        "figures": trained.report(),
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def measure(entry, folder):
    """The record of an adapted run: its figures on the test set, its largest logit, and the error of its attention
    weights at the degree of its gradient."""
    trained = experiment.load(folder)
    degree = METHODS[entry.arguments["method"]].get("degree", 2)
    weights = linear.merge(trained.weights)
    layers = approximation_check.check_model(
        trained.model, weights, batch=first_batch(trained), degree=degree, warn=False
    )
    return {
        "epochs": trained.config.epochs,
        "checkpoint": trained.step,
        "figures": trained.report(),
        "logits": {"largest": max(one.largest for one in layers), "error": max(one.error for one in layers)},
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def with_base(chosen, found):
    """The entries `chosen`, preceded by the model that all of them adapt, the first of all entries `found`."""
    return chosen if found[0] in chosen else [found[0], *chosen]


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(values.workdir, seeds=values.seeds, smoke=values.smoke)
    study.main(found, run, write=lora_report.write, record=RECORD, needs=with_base, config=config_of)


if __name__ == "__main__":
    study.define_flags()
    study.start(main)
