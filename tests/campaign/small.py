"""Runs that train in seconds, for the campaign.

kind      pairs (made-up arithmetic), labelled (texts) or images
data      folder:PATH of texts or images
base      workdir of a run to adapt with LoRA
teacher   workdir of a run to learn from
"""

from configs import common

PAIRS = "generated:arithmetic,size"
MODELS = {
    "pairs": dict(name="seq2seq", width=32, heads=2, hidden=32, encoder_layers=1, decoder_layers=1),
    "labelled": dict(name="bert", head="classify", width=16, heads=2, hidden=16, layers=1),
    "images": dict(name="vit", width=16, heads=2, hidden=16, layers=1, image_size=8, patch=4),
}
TASKS = {
    "pairs": dict(name="translate", metrics=("exact_match",)),
    "labelled": dict(name="classify"),
    "images": dict(name="classify_images", mean=(0.5,), std=(0.5,)),
}


def get_config(arg=""):
    args = common.parse(arg, {"kind": "pairs", "data": "", "base": "", "teacher": ""})
    kind, config = args["kind"], common.base()
    config.steps = 6
    config.model, config.task = MODELS[kind], TASKS[kind]
    config.data.kind, config.data.train, config.data.fields = kind, args["data"], ()
    config.data.tokenizer.vocabulary, config.data.row_length = 128, 32
    config.data.rows = config.data.eval_batch = 8
    if kind == "pairs":
        config.data.fields = ("source", "target")
        config.data.train, config.data.validation = f"{PAIRS}=200", f"{PAIRS}=8@validation"
        config.data.test = f"{PAIRS}=8@test"
    if kind == "images":
        config.data.image_size, config.data.channels = 8, 3
    if args["base"]:
        config.init_from, config.reparam = args["base"], dict(name="lora", rank=2)
        config.optimizer.trainable = ("adapter/.*",)
    if args["teacher"]:
        config.task = common.distilled(config.task, args["teacher"])
    config.optimizer.learning_rate, config.optimizer.schedule = 1e-3, dict(name="constant")
    config.log_every, config.eval_every, config.save_every = 1, 4, 2
    config.eval_decode = False
    return config.lock()
