"""The study of LoRA's rank on a trained translator ("Implementing Transformers", section 4.2 and Table 1).

    python train.py --config=configs/lora_ranks.py:base=pretrained/multi30k,method=lora,rank=16 --workdir=runs/rank16
    python -m studies.lora_ranks --base=pretrained/multi30k --workdir=runs/ranks --out=docs/results/lora_ranks

The frozen base learns four tasks on sequences of four numbers from 1 to 100: sort ascending, sort descending, add 1,
add 2, named by a prompt. LoRA on query, key and value of all 12 attentions trains 9,216·r weights.

base     a translator of the sizes below; configs/translation.py:base=RUN,method=... adapts any other
together trains an adapter for each of the four tasks in one run, in batches with rows of all tasks, instead of one
         adapter for all tasks
method   an adapter: lora, lora_plus, lora_fa, lora_dropout, rslora, pissa, olora, eva, corda, lora_ga,
         periodic_lora, adalora, singlora, dora, hira, houlsby, miss, shira, oft, lokr, vera, c3a, ia3, unilora
         (docs/adapters.md compares their sizes); bitfit and layer_norm train biases, or the layer norms; full trains
         all weights
ratio    of LoRA+: the rate of b over that of a
scaling  "one": α/r = 1 for every rank; "alpha/r" with α=1, so 1/r: the two readings of the paper's "scaling factor 1"

The paper's accuracies over all tasks: rank 4 0.2 %, rank 8 42 %, rank 16 88 %, rank 32 95 %. It gives neither learning
rate nor length; the study (studies/lora_ranks) searches the rate of every method in the same way.
"""

from configs import common

# Adam moves every entry of a factor by about the rate, so r columns move their product r times as far: rates are
# divided by the rank. 0.08 comes from short runs of LoRA on another base. docs/results/lora_ranks has rates that were
# searched, for the base pretrained/multi30k: there LoRA of rank 1 takes 0.032, of rank 8 and 32 0.008.
RATES = {"full": 5e-4, "bitfit": 5e-3, "layer_norm": 5e-3}
RATES_OVER_RANK = {"lora_plus": 0.008}
DATA = "generated:arithmetic"
TASKS = ("sort_ascending", "sort_descending", "add_1", "add_2")
TRAINABLE = {"full": (".*",), "bitfit": (".*/bias",), "layer_norm": (r"(.*[/_])?norm/.*",)}  # methods without leaves


def get_config(arg=""):
    """Arguments: base (a workdir), method, rank, scaling, ratio, together, seed, steps, rate, smoke."""
    own = dict(base="", method="lora", rank=16, scaling="one", ratio=16.0, together=False)
    args = common.parse(arg, own | dict(seed=0, steps=0, rate=0.0, smoke=False))
    method, rank = args["method"], args["rank"]
    config = common.base()
    config.seed = args["seed"]
    config.init_from = args["base"]
    if args["together"]:
        config.tasks = {task: sets(f"{DATA},tasks={task}") for task in TASKS}
    else:
        config.data.update(sets(DATA))
    config.data.fields = ("source", "target")
    if not args["base"]:
        config.data.tokenizer.vocabulary = 50_000  # the paper's base, to count its weights
    config.data.rows, config.data.row_length = 8, 64
    config.model = dict(
        name="seq2seq", width=128, heads=4, hidden=512, encoder_layers=4, decoder_layers=4,
        dropout=0.0, attention_dropout=0.0, attention="softmax",
    )  # fmt: skip
    config.task = dict(name="translate", metrics=("exact_match",), chunk=64)
    config.precision = "bfloat16"
    config.reparam = reparam(method, rank, args["scaling"])
    config.optimizer.trainable = TRAINABLE.get(method, ("adapter/.*",))
    if method == "lora_plus":
        config.optimizer.lora_plus = args["ratio"]
    rate = RATES.get(method) or RATES_OVER_RANK.get(method, 0.08) / rank
    config.optimizer.learning_rate = args["rate"] or rate
    config.optimizer.schedule = dict(name="cosine", warmup=100)
    config.optimizer.arguments = dict(b1=0.9, b2=0.98, eps=1e-9)
    config.optimizer.clip_norm = 1.0
    config.steps = args["steps"] or 2_000
    config.log_every, config.eval_every, config.save_every = 100, 500, 500
    config.select, config.select_mode = "exact_match", "max"
    if args["smoke"]:
        common.smoke(config)
    return common.finished(config, args)


def sets(name):
    """The keys of ``data`` for the splits of a set."""
    return dict(train=name, validation=f"{name}@validation", test=f"{name}@test")


def reparam(method, rank, scaling):
    """The section ``reparam`` of a method."""
    if method in TRAINABLE:
        return dict(name="none")
    found = adapters(rank, scaling)
    if method not in found:
        raise ValueError(f"method={method!r}: choose from {', '.join([*found, *TRAINABLE])}")
    return found[method]


def adapters(rank, scaling="one"):
    """``{method: its section reparam}``; if the rank decides how many weights are trained, as many as LoRA or half."""
    if rank < 1:
        raise ValueError(f"rank={rank}: it must be at least 1")
    if scaling not in ("one", "alpha/r"):
        raise ValueError(f"scaling={scaling!r}: choose from one, alpha/r")
    larger = rank + (rank + 1) // 2  # AdaLoRA's rank at its start
    lora = dict(name="lora", rank=rank, alpha=1.0 if scaling == "alpha/r" else 16.0, scaling=scaling, start="lora")
    return dict(
        lora=lora,
        lora_plus=lora,
        lora_fa=dict(lora, frozen_a=True),
        lora_dropout=dict(lora, factor_dropout=0.1),
        rslora=dict(lora, alpha=16.0, scaling="rslora"),
        pissa=dict(lora, start="pissa"),
        olora=dict(lora, start="olora"),
        eva=dict(lora, start="eva"),
        corda=dict(lora, start="corda"),
        lora_ga=dict(lora, start="lora_ga"),
        periodic_lora=dict(lora, name="periodic_lora"),
        adalora=dict(name="adalora", rank=larger, budget=rank, alpha=float(larger)),
        singlora=dict(name="singlora", rank=rank, alpha=float(rank), ramp=200),
        dora=dict(name="dora", rank=rank, alpha=float(rank)),
        hira=dict(name="hira", rank=rank),
        houlsby=dict(name="houlsby", rank=rank),
        miss=dict(name="miss", rank=rank),
        shira=dict(name="shira", rank=rank),
        oft=dict(name="oft", block_size=4 * rank),
        lokr=dict(name="lokr", rank=rank, alpha=float(rank)),
        vera=dict(name="vera", rank=16 * rank),
        c3a=dict(name="c3a"),
        ia3=dict(name="ia3"),
        unilora=dict(name="unilora", rank=rank, length=32 * rank),
    )
