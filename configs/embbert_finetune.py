"""Fine-tuning of the text encoders of the EmbBERT-Q paper on TinyNLP and GLUE (sections 4.2 to 4.4).

    python train.py --config=configs/embbert_finetune.py:base=runs/embbert,task=snips --workdir=runs/snips
    python train.py --config=configs/embbert_finetune.py:model=embedder,task=imdb_reviews --workdir=runs/imdb
    python train.py --config=configs/embbert_finetune.py:data=folder:my_intents --workdir=runs/intents

task    TinyNLP: imdb_reviews, ag_news_subset, cyberbullying, limit, emotion, nlu, snips
        GLUE: cola, sst2, mrpc, qqp, mnli, qnli, rte, wnli, stsb
data    another set of texts (or pairs of texts) with labels: folder:NAME, or tfds:NAME
base    workdir of a pre-trained run of the same model; empty: from scratch, as the paper trains Embedder and
        Embedder + Conv, for 20 epochs

The paper trains 10 epochs with AdamW at a fixed 3e-4 and keeps the checkpoint of the best MCC on the validation set
(Spearman's correlation for stsb). It does not give the batch size; ours is 32. Our figures: docs/papers/embbert_q.md.
"""

from configs import common, embbert_pretrain

TINYNLP = ("imdb_reviews", "ag_news_subset", "cyberbullying", "limit", "emotion", "nlu", "snips")
GLUE = ("cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli", "stsb")


def get_config(arg=""):
    """Arguments: model, task or data, base, epochs, rate, seed, vocabulary (0: the model's own), precision, smoke."""
    args = common.parse(
        arg,
        dict(
            model="embbert", task="snips", data="", base="", epochs=0.0, rate=3e-4, seed=0, vocabulary=0,
            precision="float32", smoke=False,
        ),
    )  # fmt: skip
    task = args["task"]
    if not args["data"] and task not in TINYNLP + GLUE:
        raise ValueError(f"task={task!r}: there is {', '.join(TINYNLP + GLUE)}")
    config = embbert_pretrain.encoder(args["model"], vocabulary=args["vocabulary"], head="classify")
    config.seed = args["seed"]
    config.precision = args["precision"]
    if args["base"]:
        config.init_from, config.init_checkpoint, config.init_skip = args["base"], "last", ("head/.*",)
    config.data.kind = "labelled"
    config.data.train = args["data"] or f"folder:{'glue_' if task in GLUE else ''}{task}"
    config.data.fields = ()
    config.data.rows, config.data.eval_batch = 32, 64
    regression = not args["data"] and task == "stsb"
    config.task = dict(name="regress" if regression else "classify")
    config.optimizer.learning_rate = args["rate"]
    config.optimizer.schedule = dict(name="constant", warmup=0)
    config.optimizer.arguments = dict(b1=0.9, b2=0.999, eps=1e-8)
    config.optimizer.weight_decay = 0.01
    config.epochs = args["epochs"] or (20.0 if args["model"].startswith("embedder") else 10.0)
    config.log_every, config.eval_every, config.save_every = 100, 0, 0
    config.select, config.select_mode = ("spearman" if regression else "mcc"), "max"
    if args["smoke"]:
        embbert_pretrain.smoke(config)
    return config.lock()
