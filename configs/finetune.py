"""Fine-tuning of a pre-trained text encoder on a table of texts and labels.

    python train.py --config=configs/finetune.py:data=folder:snips --workdir=runs/snips
    python train.py --config=configs/finetune.py:base=runs/embbert,data=folder:snips,method=lora --workdir=runs/lora
    python train.py --config="configs/finetune.py:tasks=a=folder:snips|b=folder:emotion,method=lora" --workdir=runs/both
    python train.py --config=configs/finetune.py:base=hf:models/minilm,data=folder:snips,method=lora --workdir=runs/m
    python train.py --config=configs/finetune.py:data=folder:glue_mrpc,text=sentence1,pair=sentence2 --workdir=runs/mrpc

base    a run, a bundle, or a Hugging Face model (docs/pretrained_models.md): hf:FOLDER, or hf:NAME of the Hub. It
        gives model, tokenizer and cleaning of text; the head is initialized for the labels of the data
data    KIND:NAME, such as folder:PATH for a folder of csv, tsv, jsonl or parquet files
tasks   several data sets, TASK=KIND:NAME|TASK=KIND:NAME, instead of `data`: one run trains an adapter and a head for
        each, in batches with `rows` rows of every task (docs/many_tasks.md)
text    the field of the text, `pair` that of a second text; empty: the usual names are looked for
label   the field of the label
task    classify; multilabel for several labels per text, with a separator between; ordinal for classes with an order;
        regress for labels that are numbers. docs/answers.md describes them. similarity for numbers, from `low` to
        `high`, that say how alike `text` and `pair` are: the model learns vectors whose cosine is the answer
method  full; an adapter on every linear layer of the encoder: lora, lora_plus, lora_fa, lora_dropout, rslora, pissa,
        olora, eva, corda, lora_ga, periodic_lora, adalora, singlora, dora, hira, houlsby, miss, shira, oft, lokr,
        vera, c3a, ia3, unilora (docs/adapters.md compares them); bitfit (biases); layer_norm; head (nothing but the
        head). All train the head
teacher a run of the same labels to learn from as well, or several, A+B

The defaults of rate, epochs and word_dropout for lwt's own small models are those of the "tuned" recipe of
`configs/embbert_finetune.py`. Models like BERT, which have a norm behind their embeddings, get others: see `BERT_RATE`.
"""

from configs import common, embbert_finetune, lora_ranks

HEAD = ("base/head/.*",)
TRAINABLE = {name: (*weights, *HEAD) for name, weights in lora_ranks.TRAINABLE.items()}  # others: the adapter
TRAINABLE |= {"full": (".*",), "head": HEAD}
METHODS = tuple(dict.fromkeys(("full", *lora_ranks.adapters(1), *TRAINABLE)))
TUNED = embbert_finetune.RECIPES["tuned"]
RATES = {"full": TUNED["rate"], "lora_plus": 1e-3, "head": 1e-2}
SELECTED = {  # task -> the figure that selects the best checkpoint
    **{"classify": "mcc", "multilabel": "f1_macro", "ordinal": "kappa", "regress": "spearman", "similarity": "spearman"}
}
ADAPTER_RATE = 5e-3  # of the methods that RATES does not name
# Models like BERT: 0.04 over their width for all weights (5e-5 for BERT-Base), ten times that for an adapter.
BERT_RATE = 0.04
BERT_RATES = {"full": 1.0, "lora_plus": 2.5, "head": 100.0}
BERT_EPOCHS = {"full": 3.0}  # others: 5
BERT_WARMUP = 20  # steps; a table of some hundred rows has no more than a hundred in all


def get_config(arg=""):
    """Arguments: see above; rank of the adapter, rate and epochs (0: the method's own), rows of a batch, length (the
    most tokens of a text; 0: as the base), pool (the head's input; empty: the base's, or "rms"), word_dropout (share of
    tokens masked in training; -1: 0.2, for models like BERT 0), separator of several labels, weights of the classes
    ("" or "balanced"), smoothing of the labels, patience, ema, leak_free (drop training records that validation or test
    contain), seed, precision, smoke."""
    args = common.parse(
        arg,
        dict(
            base="pretrained/embbert-tinynlp", data="folder:snips", tasks="", text="", pair="", label="label",
            task="classify", method="full", rank=8, rate=0.0, epochs=0.0, rows=32, length=0, pool="", word_dropout=-1.0,
            teacher="", separator="", weights="", smoothing=0.0, patience=0, ema=0.0, low=0.0, high=1.0,
            leak_free=False, seed=0, precision="float32", smoke=False,
        ),
    )  # fmt: skip
    method = args["method"]
    if method not in METHODS:
        raise ValueError(f"method={method!r}: choose from {', '.join(METHODS)}")
    if args["pair"] and not args["text"]:
        raise ValueError(f"pair={args['pair']}: give text, the field of the first text, as well")
    config = common.base()
    config.seed, config.precision = args["seed"], args["precision"]
    like_bert = start_from(config, args)
    config.data.kind = "compared" if args["task"] == "similarity" else "labelled"
    config.tasks = tasks(args["tasks"])
    config.data.train, config.data.label = "" if config.tasks else args["data"], args["label"]
    config.data.fields = tuple(filter(None, (args["text"], args["pair"])))
    config.data.rows, config.data.eval_batch = args["rows"], 64
    config.data.leak_free = args["leak_free"]
    config.task, config.data.label_separator = task(args), args["separator"]
    usual = 0.0 if like_bert else TUNED["word_dropout"]
    word_dropout = usual if args["word_dropout"] == -1 else args["word_dropout"]
    config.model.word_dropout = word_dropout
    if args["teacher"]:
        config.task = common.distilled(config.task, args["teacher"], cache=not word_dropout)
    config.optimizer.trainable = TRAINABLE.get(method, ("adapter/.*", *HEAD))
    if config.model.head == "none":
        config.optimizer.trainable = tuple(x for x in config.optimizer.trainable if x not in HEAD)
    if method not in TRAINABLE:
        config.reparam = lora_ranks.reparam(method, args["rank"], "one")
        config.reparam["targets"] = embbert_finetune.LINEAR
    if len(config.init_skip) == 2 and config.model.pooler and method != "full":  # a new layer is trained whole
        config.optimizer.trainable += ("base/pooler/.*",)
        if method not in TRAINABLE:
            config.reparam["targets"] = r"(?!pooler/)" + embbert_finetune.LINEAR
    if method == "lora_plus":
        config.optimizer.lora_plus = 16.0
    rate = RATES.get(method, ADAPTER_RATE)
    epochs = TUNED["epochs"]
    if like_bert:
        rate = BERT_RATE / config.model.width * BERT_RATES.get(method, 10.0)
        epochs, config.optimizer.clip_norm = BERT_EPOCHS.get(method, 5.0), 1.0
    config.optimizer.learning_rate = args["rate"] or rate
    config.optimizer.schedule = dict(TUNED["schedule"], warmup=BERT_WARMUP) if like_bert else TUNED["schedule"]
    config.optimizer.arguments = dict(b1=0.9, b2=0.999, eps=1e-8)
    config.optimizer.weight_decay = 0.01
    config.epochs = args["epochs"] or epochs
    config.log_every, config.eval_every, config.save_every = 100, 0, 0
    config.optimizer.ema, config.patience = args["ema"], args["patience"]
    config.select, config.select_mode = SELECTED[args["task"]], "max"
    if args["smoke"]:
        common.smoke(config)
        config.data.row_length = min(config.data.row_length, 32)
    return common.finished(config, args)


def tasks(text):
    """The section ``tasks`` of ``TASK=KIND:NAME|TASK=KIND:NAME``."""
    pairs = [item.partition("=") for item in filter(None, text.split("|"))]
    if wrong := [name for name, equals, data in pairs if not (name and data)]:
        raise ValueError(f"tasks={text!r}: {wrong[0]!r} should be TASK=KIND:NAME, such as topic=folder:snips")
    return {name: dict(train=data) for name, _, data in pairs}


def task(args):
    """The section of the task."""
    name, weights, smoothing = (args[key] for key in ("task", "weights", "smoothing"))
    if name not in SELECTED:
        raise ValueError(f"task={name!r}: choose from {', '.join(SELECTED)}")
    if weights not in ("", "balanced"):
        raise ValueError(f"weights={weights!r} should be 'balanced', or set task.class_weights in a config of your own")
    if (name == "multilabel") != bool(args["separator"]):
        raise ValueError("task=multilabel and a separator, such as '|', go together: give both or none")
    section = {"class_weights": weights} if weights else {}
    section |= {"label_smoothing": smoothing} if smoothing else {}
    if name in ("regress", "similarity") and section:
        raise ValueError(f"weights and smoothing are of classes: they have no effect with task={name}")
    if name == "similarity":
        if args["method"] == "head":
            raise ValueError("method=head: task=similarity has no head; choose another method")
        section = dict(low=args["low"], high=args["high"])
    return dict(name=name, **section)


def start_from(config, args):
    """Takes model, tokenizer and cleaning from the base, with a new head; returns whether the base is like BERT."""
    kept = common.kept_by(args["base"])
    if kept["data"]["kind"] not in ("labelled", "compared", "masked"):
        raise ValueError(f"base={args['base']} is no text encoder: its data.kind is {kept['data']['kind']!r}")
    config.init_from, config.init_skip = args["base"], ("head/.*",)
    config.model = dict(kept["model"], head="classify")
    pooler = kept["model"].get("pooler", False)
    config.model.pool = args["pool"] or kept["model"].get("pool", "first" if pooler else TUNED["pool"])
    if config.model.pool == "first" and config.model.name in ("mamba", "embedder"):
        raise ValueError(f"pool=first: in model.name={config.model.name!r}, position 0 sees nothing of the text")
    if args["task"] == "similarity":
        config.model.head, config.init_skip = "none", ("head/.*",) if kept["model"].get("head") != "none" else ()
    elif "pooler" in config.model and pooler != (config.model.pool == "first"):  # it reads position 0
        config.model.pooler = not pooler
        config.init_skip = ("head/.*", "pooler/.*")
    for key in ("clean", "tokenizer"):
        config.data[key].update(kept["data"][key])
    config.data.tokenizer.path = ""
    config.data.row_length = args["length"] or kept["data"]["row_length"]
    return kept["model"].get("embedding_norm", False)
