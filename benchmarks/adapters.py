"""Compares many adapters in one batch with switching from one to the next.

Every text has an adapter of its own: LoRA on all linear layers of an encoder, and a head. "one batch" answers all texts
in one pass (`lwt.runs.serving.adapter_stack`), and "one adapter" does so with one adapter for all of them, which no
stack can beat. "one function" is the fastest way to switch: one compiled function takes the leaves of an adapter as its
argument, and answers one text at a time. "opened adapters" has every adapter open on the base, and asks each for one
text. All begin at texts, end at logits, and take turns. The figures are medians of the processor's time, which other
work on the machine disturbs less than the wall clock.
"""

import functools
import os
import tempfile
import time

import jax
import numpy as np

import lwt
from benchmarks import parsing
from lwt import errors, files, trees
from lwt.data import labels
from lwt.machine import command_line, hardware, latency
from lwt.reparam import adapters, compose
from lwt.report import results
from lwt.runs import assembly, config_file, run_config

EXAMPLES = (
    "taskset -c 1 python -m benchmarks.adapters",
    "taskset -c 1 python -m benchmarks.adapters --base=pretrained/bert-2mb-tinynlp --count=16 --rank=4",
)
CLASSES = tuple("abcdefg")


def make(base, folder, *, config, count, rank):
    """Writes `count` adapters with random leaves and heads; returns ``{name: folder}``."""
    shared = {"base_fingerprint": adapters.fingerprint(base.weights), "step": 0, "labels": CLASSES}
    shared |= {"reparam_config": config.reparam.to_dict() | {"rank": rank}, "data": base.data.identity}
    part = compose.build(shared["reparam_config"])
    dropped = [name for name in base.weights if name.startswith("head/")]
    found = {}
    for i in range(count):
        place, rng = os.path.join(folder, f"task{i}"), np.random.default_rng(i)
        leaves = part.init(jax.random.key(i), base.weights)
        leaves = {n: np.asarray(w) + rng.normal(0, 0.02, w.shape).astype(np.float32) for n, w in leaves.items()}
        shapes = {"kernel": (base.model.width, len(CLASSES)), "bias": (len(CLASSES),)}
        head = {f"head/classifier/{n}": rng.normal(0, 1, s).astype(np.float32) for n, s in shapes.items()}
        adapters.save(place, leaves, whole=head, dropped=dropped, **shared)
        run_config.keep(config, place)
        files.write_json(os.path.join(place, labels.FILE), {"names": CLASSES, "fields": ["text"]}, checked=True)
        found[f"task{i}"] = place
    return found


def calls(base, texts, folders):
    """``{name: function without arguments}`` of the ways to answer, which return logits `[n c]`."""
    names, first = list(folders), next(iter(folders.values()))
    config = run_config.read(first)
    config.data.eval_batch = 1
    data, task = assembly.make_data(config, first, make=False, base=base.workdir), assembly.make_task(config)
    model = assembly.make_model(config, data.vocabulary, outputs=len(CLASSES), frame=data.frame)
    found = [adapters.load(folders[name]) for name in names]
    form = found[0].reparam
    body = {name: w for name, w in base.weights.items() if name not in found[0].dropped}
    own = jax.device_put([(one.leaves, one.whole) for one in found])
    opened = [lwt.load(folder, base=base) for folder in folders.values()]

    @jax.jit
    def program(own, body, batch):
        weights = form.expand({**body, **own[1]}, own[0], 0)
        return task.predict(functools.partial(model.apply, {"params": trees.unflatten(weights)}), batch)

    def one_function():
        rows = [(leaves, next(iter(data.batches(data.from_texts([text]))))) for leaves, text in zip(own, texts)]
        return np.concatenate([program(leaves, body, row) for leaves, row in rows])

    return {
        "one batch": lambda: base.adapters.outputs(texts, adapters=names),
        "one function": one_function,
        "opened adapters": lambda: np.concatenate(
            [adapter.outputs([text])[0] for adapter, text in zip(opened, texts, strict=True)]
        ),
        "one adapter": lambda: opened[0].outputs(texts)[0],
    }


def main():
    parser = parsing.Parser(__doc__, examples=EXAMPLES)
    parser.add_argument("--base", default="pretrained/embbert-tinynlp", help="a pre-trained encoder")
    parser.add_argument("--data", default="folder:snips@test", help="KIND:NAME@SPLIT of the texts")
    parser.add_argument("--count", type=parsing.whole(1), default=64, help="number of adapters and texts")
    parser.add_argument("--rank", type=parsing.whole(1), default=8, help="of every adapter")
    parser.add_argument("--rounds", type=parsing.whole(1), default=21, help="number of turns")
    flags = parser.parse_args()
    train = flags.data.partition("@")[0]
    config = config_file.load(f"configs/finetune.py:base={flags.base},data={train},method=lora")
    config.data.eval_batch = flags.count
    base = lwt.load(flags.base)
    with tempfile.TemporaryDirectory() as folder:
        folders = make(base, folder, config=config, count=flags.count, rank=flags.rank)
        base = lwt.load(flags.base, adapters=folders)
        data = assembly.make_data(config, os.path.join(folder, "task0"), base=base.workdir)
        texts = list(data.evaluation(flags.data, limit=flags.count).sources)
        if len(texts) < flags.count:
            raise errors.DataError(f"{flags.data} has {len(texts)} texts, fewer than --count={flags.count}")
        ways = calls(base, texts, folders)
        found, wanted = ways["one batch"](), ways["one function"]()
        seconds = latency.interleaved(ways, rounds=flags.rounds, clock=time.process_time)
    lines = [
        [name, f"{1e3 * s:.1f}", f"{flags.count / s:,.0f}", f"{s / seconds['one batch']:.1f}"]
        for name, s in seconds.items()
    ]
    print(f"{flags.count} adapters of rank {flags.rank} on {flags.base}, {hardware.describe()}.\n")
    print(results.markdown(["way to answer", "ms of processor time", "texts/s", "times one batch"], lines))
    difference, largest = np.abs(found - wanted).max(), np.abs(wanted).max()
    print(
        f"\nLogits of one batch and of one function differ by {difference:.1e} at most; the largest is {largest:.0f}."
    )


if __name__ == "__main__":
    with command_line.guarded():
        main()
