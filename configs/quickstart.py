"""A first look, in minutes on two CPU cores and without downloads: `make quickstart` runs both stages.

    python train.py --config=configs/quickstart.py:stage=base --workdir=runs/base
    python train.py --config=configs/quickstart.py:stage=adapt,base=runs/base --workdir=runs/adapted

stage=base   a small encoder-decoder learns to copy four numbers, to sort them in ascending order and to add 3 to each.
stage=adapt  LoRA (rank 16, α/r = 1, on query, key and value) teaches the frozen base two new tasks: to sort in
             descending order, and to reverse.
"""

from configs import common

TASKS = {"base": "copy|sort_ascending|add_3", "adapt": "sort_descending|reverse"}


def get_config(arg=""):
    """Arguments: stage=base|adapt, base (the workdir of the first stage), smoke."""
    args = common.parse(arg, dict(stage="base", base="", smoke=False))
    if args["stage"] not in TASKS:
        raise ValueError(f"stage={args['stage']!r}: choose from {', '.join(TASKS)}")
    config = common.base()
    source = f"generated:arithmetic,tasks={TASKS[args['stage']]}"
    config.data.train = f"{source},size=60000"
    config.data.validation = f"{source},size=300@validation"
    config.data.test = f"{source},size=600@test"
    config.data.fields = ("source", "target")
    config.data.tokenizer.vocabulary = 128
    config.data.tokenizer.split_digits = True
    config.data.rows, config.data.row_length = 24, 64
    config.model = dict(
        name="seq2seq", width=64, heads=4, hidden=256, encoder_layers=2, decoder_layers=2,
        dropout=0.0, attention_dropout=0.0, attention="softmax",
    )  # fmt: skip
    config.task = dict(name="translate", metrics=("exact_match",))
    config.optimizer.schedule = dict(name="cosine", warmup=100)
    config.optimizer.clip_norm = 1.0
    config.select, config.select_mode = "exact_match", "max"
    if args["stage"] == "base":
        config.steps, config.optimizer.learning_rate = 1300, 3e-3
    else:
        config.init_from = args["base"]
        config.reparam = dict(name="lora", rank=16, scaling="one")
        config.optimizer.trainable = ("adapter/.*",)
        config.steps, config.optimizer.learning_rate = 1000, 5e-3
    config.log_every, config.eval_every, config.save_every = 100, 300, 300
    if args["smoke"]:
        common.smoke(config)
        config.data.validation, config.data.test = f"{source},size=8@validation", f"{source},size=8@test"
        config.model.update(encoder_layers=1, decoder_layers=1)
    return common.finished(config, args)
