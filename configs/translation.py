"""German-English translation from scratch ("Implementing Transformers", section 4.1), and fine-tuning of a translator.

    python train.py --config=configs/translation.py:data=multi30k --workdir=runs/multi30k
    python train.py --config=configs/translation.py:data=pool --workdir=runs/pool
    python train.py --config=configs/translation.py:data=wmt17 --workdir=runs/wmt17

data=multi30k  29,000 captions, under 75 minutes on two CPU cores: 8,000 pieces, dropout 0.2, label smoothing 0.1.
data=pool      the paper's model (v = 50,048; 8,257,536 parameters) on the 225,517 + 29,000 pairs of two folders: two
               epochs, under an hour on two CPU cores. On a GPU set --config.steps=40000.
data=wmt17     the paper's model and data: 1 M pairs of WMT17 through TFDS, 40 epochs (26 hours on the author's M1 Max).
               Of the texts, letters, digits and core punctuation are kept, as in the paper (section 4.1).

Your own pairs are data=KIND:NAME with the splits train, validation and test. A record has two texts; `source` and
`target` name their fields. From scratch, the set-up is that of multi30k:

    python train.py --config=configs/translation.py:data=folder:pairs,source=de,target=en --workdir=runs/mine

With a base, a run, a bundle or hf:FOLDER with a Marian model, the base is fine-tuned on the pairs of any data:

    python train.py --config=configs/translation.py:base=runs/pool,data=folder:pairs,method=lora --workdir=runs/tuned

method (full, or an adapter of `rank` on every linear layer: lora, lora_plus, rslora, dora, pissa, olora, singlora;
bitfit), rate, epochs, rows, length (most tokens of a side).

With --config.task.rdrop=5 (R-Drop), each pair is read twice with different dropout, and the divergence between the two
predictions is added to the loss. A step takes twice as long.

positions=learned gives the model a table of 64 positions a side in place of sinusoids. The paper says that sinusoids
generalize better to longer texts; to measure it, set data.row_length, which limits the tokens of a text in training,
below data.max_tokens, which limits them in evaluations:

    python train.py --config=configs/translation.py:positions=learned --workdir=runs/learned \
        --config.data.row_length=16 --config.data.max_tokens=127 --config.model.max_length=128

The paper trains at half the Noam schedule (peak 6.988e-4 at step 4,000) with AdamW, β = 0.9, 0.98 and ε = 1e-9; it
names no weight decay, and here it is 0. Texts have at most 63 tokens and an end mark. The paper reports a mean BLEU of
6.9. Our figures and times: docs/papers/implementing_transformers.md.
"""

from configs import common, lora_ranks

SETS = {
    "multi30k": dict(
        train="folder:multi30k_de_en",
        validation="folder:multi30k_de_en@validation",
        test="folder:multi30k_de_en@test2016_flickr",
    ),
    "pool": dict(
        train="folder:mt_de_en_train+folder:multi30k_de_en",
        validation="folder:mt_de_en_train@validation_tatoeba",
        test="folder:wmt_newstest_de_en@newstest2016",
    ),
    "wmt17": dict(
        train="tfds:wmt17_translate/de-en",
        validation="tfds:wmt17_translate/de-en@validation",
        test="tfds:wmt17_translate/de-en@test",
    ),
}
CHARACTERS = r"[\w\s.,;:!?'\"()-]"  # the paper does not list its "core punctuation"
TUNED = dict(method="full", rank=8, rate=0.0, epochs=3.0, rows=32, length=128)
PARTS = {"train": "", "validation": "@validation", "test": "@test"}
RATES = {"full": 5e-5, "bitfit": 1e-3}  # others: an adapter's
LINEAR = r".*/(query|key|value|out|fc1|fc2)/kernel"


def get_config(arg=""):
    """Arguments: data, source and target (of your own data), rate and vocabulary (0: the set-up's own), positions
    (sinusoidal or learned), precision, seed, smoke, base; with a base, see above."""
    own = dict(data="multi30k", source="source", target="target", base="", seed=0, smoke=False)
    args = common.parse(arg, own | dict(vocabulary=0, positions="sinusoidal", precision="bfloat16") | TUNED)
    if args["base"]:
        return finetuned(args)
    config = common.base()
    config.seed = args["seed"]
    config.data.update(pairs(args))
    config.precision = args["precision"]
    config.model = dict(
        name="seq2seq", width=128, heads=4, hidden=512, encoder_layers=4, decoder_layers=4,
        dropout=0.1, attention_dropout=0.1, attention="softmax",
    )  # fmt: skip
    if args["positions"] != "sinusoidal":
        config.model.update(positions=args["positions"], max_length=64)
    config.optimizer.learning_rate = 0.5
    config.optimizer.schedule = dict(name="noam", width=128, warmup=4000)
    config.data.tokenizer.vocabulary = args["vocabulary"] or 50_000
    config.data.rows, config.data.row_length = 32, 64  # about 128 pairs of the paper's lengths per batch
    config.data.min_tokens, config.data.max_tokens = 5, 63
    config.steps = 40 * 7_812
    config.log_every, config.eval_every, config.save_every = 100, 5_000, 1_000
    if args["data"] == "wmt17":
        config.data.max_train_records = 1_000_000
        config.data.clean.characters = CHARACTERS
    if args["data"] == "pool":
        config.data.min_tokens = 1  # three quarters of the pool are short
        config.optimizer.schedule = dict(name="cosine", warmup=500)
        config.optimizer.learning_rate = 2e-3
        config.optimizer.clip_norm = 1.0
        config.steps = 3_500
        config.log_every, config.eval_every, config.save_every = 50, 1_000, 500
    if args["data"] not in ("pool", "wmt17"):
        config.data.min_tokens = 1
        config.data.tokenizer.vocabulary = args["vocabulary"] or 8_000
        config.data.rows = 64
        config.model.update(dropout=0.2, attention_dropout=0.1)
        config.task = dict(name="translate", label_smoothing=0.1)
        config.optimizer.schedule = dict(name="cosine", warmup=800)
        config.optimizer.learning_rate = 3e-3
        config.optimizer.clip_norm = 1.0
        config.steps = 3_500
        config.log_every, config.eval_every, config.save_every = 50, 500, 250
        config.select, config.select_mode = "bleu", "max"
    config.optimizer.learning_rate = args["rate"] or config.optimizer.learning_rate
    if args["smoke"]:
        common.smoke(config)
    return common.finished(config, args)


def pairs(args):
    """The keys of ``data`` that name the sets and the fields of a record."""
    name = args["data"]
    if name in SETS:
        return SETS[name]
    if ":" not in name:
        raise ValueError(f"data={name!r}: choose from {', '.join(SETS)}, or KIND:NAME such as folder:{name}")
    return {key: f"{name}{split}" for key, split in PARTS.items()} | {"fields": (args["source"], args["target"])}


def finetuned(args):
    """The set-up that continues from the translator ``args["base"]``."""
    kept, method = common.kept_by(args["base"]), args["method"]
    if kept["model"]["name"] != "seq2seq":
        raise ValueError(f"base={args['base']} is no translator: its model.name is {kept['model']['name']!r}")
    config = common.base()
    config.seed, config.precision, config.init_from = args["seed"], args["precision"], args["base"]
    config.model = kept["model"]
    for key in ("clean", "tokenizer"):
        config.data[key].update(kept["data"][key])
    config.data.tokenizer.path = ""
    config.data.update(pairs(args))
    config.data.rows, config.data.row_length = args["rows"], args["length"]
    config.data.min_tokens, config.data.max_tokens = 1, args["length"] - 1
    task = kept["task"].get("task", kept["task"])
    config.task = {**task, "label_smoothing": 0.1}
    if method in lora_ranks.TRAINABLE:
        config.optimizer.trainable = lora_ranks.TRAINABLE[method]
    else:
        config.reparam = lora_ranks.reparam(method, args["rank"], "one") | {"targets": LINEAR}
        config.optimizer.trainable = ("adapter/.*",)
    if method == "lora_plus":
        config.optimizer.lora_plus = 16.0
    config.optimizer.learning_rate = args["rate"] or RATES.get(method, 1e-3)
    config.optimizer.schedule = dict(name="cosine", warmup=100)
    config.optimizer.clip_norm = 1.0
    config.epochs = args["epochs"] or TUNED["epochs"]
    config.log_every, config.eval_every, config.save_every = 50, 500, 500
    config.select, config.select_mode = "bleu", "max"
    if args["smoke"]:
        common.smoke(config)
    return common.finished(config, args)
