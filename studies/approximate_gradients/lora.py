"""LoRA with approximate gradients beside LoRA with exact ones, where the approximation holds and where it does not.

    python -m studies.approximate_gradients.lora --workdir=runs/approximate_lora --out=docs/results/approximate_lora
    python -m studies.approximate_gradients.lora --workdir=runs/approximate_lora --only='^base|^bound2-' --seeds=1
    python -m studies.approximate_gradients.lora --workdir=runs/approximate_lora --report_only

The base is BERT of 2 MB with ten heads of width 8, trained on Emotion. Its query and key weights are then scaled, layer
by layer, until the largest logit of a batch is the one wanted (`BOUNDS`): each of these bases is adapted to Snips by
LoRA on query, key and value, once with softmax attention and once with every approximation (`METHODS`). Training would
make the logits large (to 55, from 1), where no approximation holds, so that all attentions clip queries and keys to
that bound (``norm=clip``). With an exact forward pass all of them train the same function from the same start; only the
gradient differs.

How runs are chosen, gone on with and reported: `lwt/report/study.py`. ``--index`` needs the run ``base`` to be there.
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
        smoke: two steps of a tiny model each.
    """
    more = "smoke=true" if smoke else ""
    base = dict(model="bert_2mb", task="emotion", recipe="tuned", word_dropout=0.0)
    found = [study.Entry(lora_report.BASE, {"seed": 0}, study.spec_of(CONFIG, base, more))]
    for seed in range(seeds):
        for bound in BOUNDS:
            adapted = dict(model="bert_2mb", base=base_of(workdir, bound), task="snips", recipe="tuned", seed=seed)
            adapted |= dict(word_dropout=0.0, epochs=2.0, rate=5e-3)
            found += [
                study.Entry(
                    f"bound{bound}-{method}-seed{seed}",
                    dict(bound=bound, method=method, seed=seed),
                    study.spec_of(CONFIG, adapted, more),
                )
                for method in METHODS
            ]
    return found


def base_of(workdir, bound):
    """The bundle of the base whose largest logit is `bound`."""
    return os.path.join(workdir, f"base-bound{bound}")


def config_of(entry):
    """The config of a run: that of its spec, with narrow heads, and what is adapted and how."""
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
    """Trains, goes on with, or leaves alone the run of `entry`; measures it once; returns its record.

    Raises:
        lwt.errors.ConfigError: the base is not there.
    """
    if "method" not in entry.arguments:
        record = study.run(entry, workdir, measure_base, record=RECORD, config=config_of(entry))
        for bound in BOUNDS:
            if not bundled.is_bundle(base_of(workdir, bound)):
                bundle.write(
                    with_largest(experiment.load(os.path.join(workdir, entry.name)), bound), base_of(workdir, bound)
                )
        return record
    if not bundled.is_bundle(base_of(workdir, entry.arguments["bound"])):
        raise errors.ConfigError(f"{base_of(workdir, entry.arguments['bound'])} is not there: --only='^base$' makes it")
    return study.run(entry, workdir, measure, record=RECORD, config=config_of(entry))


def with_largest(opened, bound):
    """The opened run with query and key weights scaled, from the first layer on, until its largest logit is `bound`."""
    weights, sample = linear.merge(opened.weights), first_batch(opened)
    check = functools.partial(approximation_check.check_model, opened.model, batch=sample, warn=False)
    for layer in [one.layer for one in check(weights)]:
        found = {one.layer: one.largest for one in check(weights)}
        weights = _scale_logits(weights, layer, factor=bound / found[layer])
    return opened.with_weights(weights, name=f"largest logit {bound}", step=opened.step)


def _scale_logits(weights, layer, *, factor):
    """The flat dict `weights` with the query and key weights of a layer scaled so that its logits grow by `factor`."""
    sides = [side for side in ("query", "key") if f"{layer}/{side}/kernel" in weights]
    leaves = {f"{layer}/{side}/{leaf}" for side in sides for leaf in ("kernel", "bias")}
    root = factor ** (1 / len(sides))
    return {name: leaf * root if name in leaves else leaf for name, leaf in weights.items()}


def first_batch(opened):
    """Records of the run's validation set, as the model takes them."""
    batch, *_ = opened.batches(limit=SAMPLE)
    return {name: jnp.asarray(batch[name]) for name in ("ids", "segments")}


def measure_base(entry, folder):
    """What is kept of the base."""
    del entry
    opened = experiment.load(folder)
    return {
        "epochs": opened.config.epochs,
        "figures": opened.report(),
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def measure(entry, folder):
    """What is kept of an adapted run: figures on the test set; the largest logit at its end, and the error of the
    attention weights there, at the degree of its own gradient."""
    opened = experiment.load(folder)
    degree = METHODS[entry.arguments["method"]].get("degree", 2)
    weights = linear.merge(opened.weights)
    layers = approximation_check.check_model(
        opened.model, weights, batch=first_batch(opened), degree=degree, warn=False
    )
    return {
        "epochs": opened.config.epochs,
        "checkpoint": opened.step,
        "figures": opened.report(),
        "logits": {"largest": max(one.largest for one in layers), "error": max(one.error for one in layers)},
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(values.workdir, seeds=values.seeds, smoke=values.smoke)
    chosen = study.choose(found, only=values.only, index=values.index)
    if values.index < 0 and found[0] not in chosen:
        chosen = [found[0], *chosen]
    study.main(chosen, functools.partial(run, workdir=values.workdir), lora_report.write, record=RECORD)


if __name__ == "__main__":
    study.define_flags()
    flags.DEFINE_boolean("smoke", False, "Tiny models, two steps each: to see that all runs.")
    study.start(main)
