"""Pre-training of the text encoders of the EmbBERT-Q paper (section 4.2): masked words and next sentences.

    python train.py --config=configs/embbert_pretrain.py:model=embbert --workdir=runs/embbert
    python train.py --config=configs/embbert_pretrain.py:model=bert_2mb --workdir=runs/bert_2mb
    python train.py --config=configs/embbert_pretrain.py:data=tfds:lm1b --workdir=runs/lm1b     # other running text
    python train.py --config=configs/embbert_pretrain.py:data=tinynlp,recipe=tuned --workdir=runs/domain/base-embbert
    python train.py --config=configs/embbert_pretrain.py:data=folder:snips,recipe=tuned,base=runs/tuned --workdir=…

model   embbert, bert_2mb, mamba_2mb, embedder, embedder_conv, bert_ne, bert_ea, bert_ne_ea, bert_tiny; see MODELS
data    running text, by default folder:english_novels_lm (60 MB) instead of the paper's BookCorpus (4.6 GB); or the
        training split of any records with a text; '+' joins several. tinynlp: the novels and the texts of the seven
        TinyNLP training sets (46 MB), whose words the tokenizer then covers too. glue: the texts of the nine GLUE
        training sets
base    a pre-trained run of the same model to continue from, with its tokenizer; on the texts of one task that is
        "task-adaptive pre-training" (Gururangan et al. 2020, arXiv 2004.10964, section 4). See FURTHER
recipe  paper: rate 5e-4, 1/6 of the tokens, of which 70 % masked, 15 % replaced, 15 % kept
        code:  rate 2e-4, 15 % of the tokens, 80/10/10, as in the authors' code
        tuned: the paper's tokens; a higher rate, warmed up and decayed; EmbBERT from other initial weights
tables  small: initial tables are 50 times smaller. The tokens' then have a standard deviation of 0.02, as in BERT; the
        paper's code has 1

Sentences are joined to segments of about 60 tokens, of which two make a pair (data.join); the paper pairs single ones.
The paper trains one epoch in batches of 32 pairs with AdamW at a fixed rate. Our figures: docs/papers/embbert_q.md.
"""

from configs import common

NOVELS = "folder:english_novels_lm"
TINYNLP = ("imdb_reviews", "ag_news_subset", "cyberbullying", "emotion", "limit", "nlu", "snips")
GLUE = ("cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli", "stsb")


def data_of(task):
    """The source of a task's records, with their own splits."""
    return f"folder:{'glue_' if task in GLUE else ''}{task}"


TEXTS = {
    "tinynlp": "+".join([NOVELS, *map(data_of, TINYNLP)]),
    "glue": "+".join(map(data_of, GLUE)),
}
# Weight counts without heads match the paper's table 2 and section 6; see docs/results/parameters.
EFFICIENT = dict(attention="efficient", heads=1, activation="silu", norm="rms", norm_place="inline", dropout=0.0)
MODELS = {
    "embbert": (
        8192,
        dict(name="embbert", width=128, reduced=16, layers=4, expansion=1, kernel_size=32, attention="efficient"),
    ),
    "bert_2mb": (2048, dict(name="bert", width=80, heads=2, hidden=160, layers=2, attention="softmax")),
    "mamba_2mb": (2048, dict(name="mamba", width=64, layers=5, expansion=1, state=6, kernel_size=4)),
    "embedder": (8192, dict(name="embedder", width=320, reduced=32)),
    "embedder_conv": (8192, dict(name="embedder", width=320, reduced=32, kernel_size=16)),
    "bert_ne": (
        8192,
        dict(name="bert", width=90, heads=2, hidden=180, layers=2, embedding="nano", reduced=16, attention="softmax"),
    ),
    "bert_ea": (2048, dict(name="bert", width=84, hidden=168, layers=3, **EFFICIENT)),
    "bert_ne_ea": (
        8192, dict(name="bert", width=128, hidden=89, layers=4, embedding="nano", reduced=16, **EFFICIENT)
    ),
    "bert_tiny": (
        30_522,
        dict(
            name="bert", width=128, heads=2, hidden=512, layers=2, activation="gelu", segments=2, embedding_norm=True,
            pooler=True, attention="softmax",
        ),
    ),
}  # fmt: skip
RECIPES = {
    "paper": dict(rate=5e-4, schedule=dict(name="constant", warmup=0), masking="paper"),
    "code": dict(rate=2e-4, schedule=dict(name="constant", warmup=0), masking="code"),
    "tuned": dict(rate=2e-3, schedule=dict(name="cosine", warmup=200), masking="paper"),
}
# Changes of the recipe "tuned" per model. EmbBERT has no residual connections: from the usual initial weights every
# layer blurs a token with the 31 before it, and positions as large as tokens drown it, so the masked-word loss stays at
# that of word frequencies for 3,000 steps. Validation loss after 1,466 steps (0.15 epochs): with small positions alone
# 6.40, with both 5.41 (rate 2e-3), 5.37 (4e-3).
TUNED = {"embbert": dict(rate=4e-3, model=dict(conv_start="present", position_std=0.05))}
SMALL = 0.02  # keeps the ratio; EmbBERT's loss of masked words after 500 steps: 6.50, with equal tables of 0.02 6.91
# With a base. Perplexity of masked words in Snips' validation texts: 48 after 5,254 steps, 60 after 8,760 at 2e-3.
FURTHER = dict(rate=1e-3, schedule=dict(name="cosine", warmup=200), steps=5_000, steps_of={"glue": 15_000})


def get_config(arg=""):
    """Arguments: model, data, recipe, base, tables ("small"; empty: the recipe's or the model's), steps (0: an epoch,
    or with a base those of FURTHER), vocabulary (0: the model's own), precision, smoke."""
    args = common.parse(
        arg,
        dict(
            model="embbert", data=NOVELS, recipe="paper", base="", tables="", steps=0, vocabulary=0,
            precision="bfloat16", smoke=False,
        ),
    )  # fmt: skip
    require_tables(args)
    if args["recipe"] not in RECIPES:
        raise ValueError(f"recipe={args['recipe']!r}: choose from {', '.join(RECIPES)}")
    recipe = RECIPES[args["recipe"]] | (TUNED.get(args["model"], {}) if args["recipe"] == "tuned" else {})
    config = encoder(args["model"], vocabulary=args["vocabulary"], head="pretrain")
    config.model.update(recipe.get("model", {}))
    if args["tables"]:
        config.model.update({key: SMALL * config.model.get(key, 1.0) for key in ("embedding_std", "position_std")})
    config.precision = args["precision"]
    config.data.kind = "masked"
    data = TEXTS.get(args["data"], args["data"])
    config.data.train, config.data.validation = data, data.replace("+", "@validation+") + "@validation"
    config.data.fields = ("text",)
    config.data.masking = recipe["masking"]
    config.data.join = 60
    config.data.rows, config.data.eval_batch = 32, 64
    config.task = dict(name="masked_lm")
    config.optimizer.learning_rate = recipe["rate"]
    config.optimizer.schedule = recipe["schedule"]
    config.optimizer.arguments = dict(b1=0.9, b2=0.999, eps=1e-8)
    config.optimizer.weight_decay = 0.01
    config.epochs = 1.0
    config.log_every, config.eval_every, config.save_every = 100, 2_000, 1_000
    if args["base"]:
        config.init_from = args["base"]
        config.optimizer.learning_rate, config.optimizer.schedule = FURTHER["rate"], FURTHER["schedule"]
        config.epochs, config.steps = 0.0, FURTHER["steps_of"].get(args["data"], FURTHER["steps"])
        config.eval_every = 500
    if args["steps"]:
        config.epochs, config.steps = 0.0, args["steps"]
    if args["smoke"]:
        smoke(config)
    return common.finished(config, args)


def encoder(model, *, vocabulary=0, head):
    """The config that pre-training and fine-tuning share: the model, its vocabulary, cleaning and cutting of text."""
    if model not in MODELS:
        raise ValueError(f"model={model!r}: choose from {', '.join(MODELS)}")
    pieces, section = MODELS[model]
    config = common.base()
    config.model = dict(section, max_length=512 if model == "bert_tiny" else 256, head=head)
    config.data.tokenizer.vocabulary = vocabulary or pieces
    config.data.clean.strip_accents = True
    config.data.row_length = 256
    config.eval_decode = True
    return config


def require_tables(args):
    """Refuses `args` whose ``tables`` are unknown, or have no effect because the weights come from a base."""
    if args["tables"] not in ("", "small") or (args["tables"] and args["base"]):
        raise ValueError(f"tables={args['tables']!r}: must be small without a base, or empty")


def smoke(config):
    """`common.smoke` for texts: a small vocabulary, short rows."""
    common.smoke(config)
    config.data.row_length = 32
    return config
