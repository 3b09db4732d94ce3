"""Fine-tuning of the text encoders of the EmbBERT-Q paper on TinyNLP and GLUE (sections 4.2 to 4.4).

    python train.py --config=configs/embbert_finetune.py:base=runs/embbert,task=snips --workdir=runs/snips
    python train.py --config=configs/embbert_finetune.py:model=embedder,task=imdb_reviews --workdir=runs/imdb
    python train.py --config=configs/embbert_finetune.py:data=folder:my_intents --workdir=runs/intents
    python train.py --config=configs/embbert_finetune.py:base=runs/snips,task=snips,method=qlora --workdir=runs/snips-q
    python -m studies.embbert --workdir=runs/embbert        # pre-training, all models, all tasks, the report

task    TinyNLP: imdb_reviews, ag_news_subset, cyberbullying, limit, emotion, nlu, snips
        GLUE: cola, sst2, mrpc, qqp, mnli, qnli, rte, wnli, stsb
data    another set of texts (or pairs of texts) with labels: folder:NAME, or tfds:NAME
base    workdir of a pre-trained run of the same model; empty: from scratch, as the paper trains Embedder and
        Embedder + Conv, for twice the epochs
recipe  paper: 10 epochs at a fixed 3e-4
        tuned: 8 epochs (large sets, see LARGE, or `added` without a teacher: 4) at 2e-3, warmed up and decayed, a fifth
               of the tokens masked. From scratch: the initial weights of `configs/embbert_pretrain.py`'s tuned recipe.
               The head reads the root mean square of all positions (the paper's models with attention: position 0) and
               compares the two texts of GLUE's pairs (pool=pair: four times the head's weights). imdb_reviews: a review
               of more than 256 tokens loses its middle, not its end
tables  small: from scratch, all initial tables have a standard deviation of 0.02, as in BERT. The paper's code has 1,
        with which training takes far longer to start
splits  own: the splits that come with the data
        code: those of the authors' code, where it differs: Snips is tested on 1,400 texts, its validation and test
              sets; Emotion trains on its validation set; then a tenth of the training data is withheld for validation.
              qlora and qat keep those of their base
teacher a run of the same task to learn from besides the labels, or several, A+B, to learn from the mean of their
        outputs; "{task}" stands for the task
reads   masked: teachers run in every step, and read the tokens with the masks that the model reads
        whole: they read whole texts, once, and may have other tokenizers; the only way with word_dropout=0
share   of the loss that is learned from the teachers; the rest is learned from the labels
added   a folder that `lwt.compress.label_set` wrote: its records, those of the task among them, are the training data
ngram_weights  of a table of hashed tokens and pairs of tokens, whose logits are added to the classifier's; 0: no table
method  full, or one that continues from a fine-tuned run of the same task, base=RUN, head included:
        qlora: freezes its weights in int8 and trains LoRA of rank 8 on every linear layer and the head (EmbBERT: 7.5 %
               of the weights, and the head); qat: trains all weights, in int8 in every forward pass

The paper trains with AdamW and keeps the checkpoint with the best validation MCC (stsb: Spearman's correlation). It
omits the batch size; ours is 32. After quantization it trains 8 % of the weights for two epochs with 8-bit AdamW at
1e-4 (section 3.1.3). Our figures: docs/papers/embbert_q.md.
"""

import json
import pathlib

from configs import common, embbert_pretrain

TINYNLP, GLUE = embbert_pretrain.TINYNLP, embbert_pretrain.GLUE
PAIRS = ("mrpc", "qqp", "mnli", "qnli", "rte", "wnli", "stsb")
LINEAR = r"(?!head/)(?!.*conv/).*kernel"  # every linear layer of an encoder
# Reparametrization and trained weights per method. The last part of qlora rounds the sum of integers and adapter (and
# the head), as in the exported file, so that training, selection and export use the same model.
METHODS = {
    "qlora": (
        dict(
            name="compose",
            parts=(
                dict(name="quantize", targets=r"(?!head/).*(kernel|embed/\w+)"),
                dict(name="lora", rank=8, targets=LINEAR),
                dict(name="quantize", aware=True),
            ),
        ),
        ("adapter/.*", "base/head/.*"),
    ),
    "qat": (dict(name="quantize", aware=True), (".*",)),
}
RECIPES = {
    # EmbBERT on Emotion, 3 epochs of "tuned", validation accuracy: 87.3 %; with pool="first" after 6 epochs 64.6 %.
    # On stsb, 8 epochs, validation Spearman: 0.399; with pool="pair" 0.633
    "paper": dict(rate=3e-4, schedule=dict(name="constant", warmup=0), epochs=10.0, pool="", word_dropout=0.0),
    "tuned": dict(rate=2e-3, schedule=dict(name="cosine", warmup=100), epochs=8.0, pool="rms", word_dropout=0.2),
}
# On Emotion from scratch, 2 epochs, best of four rates, validation MCC: EmbBERT 86.8 %, BERT(2MB) 85.1 %; with the
# recipe's tables 26.9 % and 20.9 % (`python -m studies.embbert.initial`).
SMALL_TABLES = dict(embedding_std=0.02, position_std=0.02)
# Sets with more than 30,000 texts in full, or with long ones, train for half of the tuned recipe's epochs.
LARGE = ("imdb_reviews", "ag_news_subset", "cyberbullying", "sst2", "qqp", "mnli", "qnli")
# Splits of the authors' code: its Snips has two, with 1,400 test texts; it joins two of Emotion's three.
CODE_SPLITS = {
    "snips": dict(train="folder:snips@train", test="folder:snips@validation+folder:snips@test"),
    "emotion": dict(train="folder:emotion@train+folder:emotion@validation", test="folder:emotion@test"),
}
TESTS = {"mnli": ("test_matched", "test_mismatched")}  # the test sets of a task that has several
ALONE_AT_FIRST = ("mamba_2mb", "embedder", "embedder_conv")  # without attention, position 0 sees no other
FROM_SCRATCH = ("embedder", "embedder_conv")  # not pre-trained in the paper, which gives them twice the epochs


def get_config(arg=""):
    """Arguments: model, task or data, base, recipe, method, epochs and rate (0: those of recipe and method), pool (the
    head's input, "first", "rms" or "pair"; empty: the recipe's or the model's), tables ("small"; empty: the recipe's or
    the model's), word_dropout (share of tokens masked in training; -1: the recipe's), ngram_weights, splits, leak_free
    (drop training records that validation or test contain), teacher, reads ("masked" or "whole"; empty: masked if
    there are masks), share (0: 0.5), added, seed, vocabulary (0: the model's own), precision, smoke."""
    args = common.parse(
        arg,
        dict(
            model="embbert", task="snips", data="", base="", recipe="paper", method="full", epochs=0.0, rate=0.0,
            pool="", tables="", word_dropout=-1.0, ngram_weights=0, splits="own", leak_free=False, teacher="", reads="",
            share=0.0, added="", seed=0, vocabulary=0, precision="float32", smoke=False,
        ),
    )  # fmt: skip
    task = args["task"]
    if not args["data"] and task not in TINYNLP + GLUE:
        raise ValueError(f"task={task!r}: choose from {', '.join(TINYNLP + GLUE)}")
    if args["method"] not in ("full", *METHODS):
        raise ValueError(f"method={args['method']!r}: choose from full, {', '.join(METHODS)}")
    if args["recipe"] not in RECIPES:
        raise ValueError(f"recipe={args['recipe']!r}: choose from {', '.join(RECIPES)}")
    if args["splits"] not in ("own", "code"):
        raise ValueError(f"splits={args['splits']!r}: choose from own, code")
    if args["splits"] == "code" and args["data"]:
        raise ValueError("splits=code is of a task; data=KIND:NAME has splits of its own")
    if args["added"] and (args["splits"] == "code" or "@" in args["data"]):
        raise ValueError(f"added={args['added']} goes with splits=own, and with data=KIND:NAME without a split")
    embbert_pretrain.require_tables(args)
    recipe = RECIPES[args["recipe"]]
    config = embbert_pretrain.encoder(args["model"], vocabulary=args["vocabulary"], head="classify")
    by_task = args["recipe"] == "tuned" and not args["data"]  # the tuned recipe knows its tasks
    compared = "pair" if by_task and task in PAIRS else ""
    of_base = kept_of(args["base"]) if args["method"] != "full" else {}
    pool = args["pool"] or of_base.get("model", {}).get("pool") or compared or recipe["pool"]
    if args["recipe"] == "tuned" and not args["base"]:
        config.model.update(embbert_pretrain.TUNED.get(args["model"], {}).get("model", {}))
    if args["tables"]:
        config.model.update(SMALL_TABLES)
    if args["pool"] and config.model.get("pooler"):
        raise ValueError(f"pool={args['pool']}: model={args['model']} has a pooler, which reads the first position")
    if pool == "first" and args["model"] in ALONE_AT_FIRST:
        raise ValueError(f"pool=first: in model={args['model']}, position 0 sees nothing of the text")
    if pool and not config.model.get("pooler"):
        config.model.pool = pool
    word_dropout = recipe["word_dropout"] if args["word_dropout"] == -1 else args["word_dropout"]
    if word_dropout:
        config.model.word_dropout = word_dropout
    if ngram_weights := args["ngram_weights"] or of_base.get("model", {}).get("ngram_weights", 0):
        config.model.ngram_weights = ngram_weights
    config.seed = args["seed"]
    config.precision = args["precision"]
    if args["base"]:
        config.init_from, config.init_checkpoint, config.init_skip = args["base"], "last", ("head/.*",)
    config.data.kind = "labelled"
    config.data.train = args["data"] or embbert_pretrain.data_of(task)
    code_splits = {} if args["data"] else CODE_SPLITS.get(task, {})
    if args["splits"] == "code" or (code_splits and of_base.get("data", {}).get("test") == code_splits["test"]):
        config.data.update(code_splits)
    if args["added"]:
        train_on(config, args["added"], tests=TESTS.get("" if args["data"] else task, ("test",)))
    config.data.fields, config.data.leak_free = (), args["leak_free"]
    config.data.rows, config.data.eval_batch = 32, 64
    regression = not args["data"] and task == "stsb"
    config.task = dict(name="regress" if regression else "classify")
    if args["teacher"]:
        config.task = taught(config.task, args, masked=bool(word_dropout))
    config.optimizer.learning_rate, config.optimizer.schedule = recipe["rate"], recipe["schedule"]
    config.optimizer.arguments = dict(b1=0.9, b2=0.999, eps=1e-8)
    config.optimizer.weight_decay = 0.01
    config.epochs = recipe["epochs"] * (2 if args["model"] in FROM_SCRATCH else 1)
    if by_task:
        config.epochs /= 2 if task in LARGE or (args["added"] and not args["teacher"]) else 1
        config.data.cut = "middle" if task == "imdb_reviews" else "end"
    if args["method"] != "full":
        config.data.cut = of_base.get("data", {}).get("cut", config.data.cut)
        after_quantization(config, args["method"], args["base"])
    config.optimizer.learning_rate = args["rate"] or config.optimizer.learning_rate
    config.epochs = args["epochs"] or config.epochs
    config.log_every, config.eval_every, config.save_every = 100, 0, 0
    config.select, config.select_mode = ("spearman" if regression else "mcc"), "max"
    if args["smoke"]:
        embbert_pretrain.smoke(config)
    return common.finished(config, args)


def taught(task, args, *, masked):
    """The section of a `task` that also learns from teachers; `masked`: whether the model reads masked tokens."""
    known = ("masked", "whole") if masked else ("whole",)
    reads = args["reads"] or known[0]
    if reads not in known:
        raise ValueError(f"reads={reads!r}: choose from {', '.join(known)}{'' if masked else ' (there are no masks)'}")
    teachers = args["teacher"].replace("{task}", args["task"])
    return common.distilled(task, teachers, weight=args["share"] or 0.5, cache=reads == "whole")


def train_on(config, folder, *, tests):
    """Takes the training records from a folder; validation and test sets remain those of the config's own data."""
    own = config.data.train
    config.data.train, config.data.validation = f"folder:{folder}@train", f"{own}@validation"
    with config.ignore_type():  # one name, or several
        config.data.test = tuple(f"{own}@{name}" for name in tests)


def kept_of(workdir):
    """The config of a run, whose head and input its quantized form must share; {} if the run does not exist yet."""
    path = pathlib.Path(workdir, "config.json")
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def after_quantization(config, method, base):
    """Continues a fine-tuned run, head included, for two epochs with the weights of the device."""
    if not base:
        raise ValueError(f"method={method} continues from a fine-tuned run: base=RUN")
    config.init_checkpoint, config.init_skip = "best", ()
    config.reparam, config.optimizer.trainable = METHODS[method]
    config.optimizer.name = "adamw_8bit"
    config.optimizer.learning_rate, config.optimizer.schedule = 1e-4, RECIPES["paper"]["schedule"]
    config.epochs = 2.0


def sweep(seeds=3, *, models=tuple(embbert_pretrain.MODELS), tasks=TINYNLP + GLUE, starts=("pretrained",)):
    """Model, start (from `studies.embbert.starts.STARTS`), task and seed of every run of the study, seed by seed."""
    alone = [start for start in starts if start == "small"]  # for models that are not pre-trained, besides "scratch"
    pairs = [(model, start) for model in models for start in (["scratch", *alone] if model in FROM_SCRATCH else starts)]
    return [
        dict(task=task, model=model, start=start, seed=seed)
        for seed in range(seeds)
        for model, start in pairs
        for task in tasks
    ]
