"""LH-ViT on micro-Doppler maps of human activity, compared with a ViT of equal size and CNNs (Huan et al. 2023).

    python train.py --config=configs/lh_vit.py --workdir=runs/lh_vit                         # generated maps, hard
    python train.py --config=configs/lh_vit.py:model=vit --workdir=runs/radar-vit
    python train.py --config=configs/lh_vit.py:data=radar_parrad,fold=0 --workdir=runs/parrad/0     # and folds 1 to 4
    python -m studies.radar.linear_classifier --images=generated:radar_har        # a linear baseline

model       lh_vit (231,866 weights of generated maps), vit (231,576), cnn (587,832), cnn_small (233,184), cnn_tiny
            (85,696) or cnn_light (9,784: depthwise separable, for three times the epochs)
data        radar_har: generated, eight activities, 1,600 maps for training, 400 and 800 for validation and test
            radar_parrad: a recording of ONE person, 99 events in six groups; fold K is the test, the rest trains
difficulty  of radar_har: easy or hard
fold        of radar_parrad: 0 to 4
epochs, rate    0: the data's own, 60 and 200 epochs at 2e-3

The paper's radar data and recipe are not public. Ours: AdamW with a decay of 0.05 (of kernels), clipped at norm 1, the
rate warmed up over a tenth of the run, then half a cosine; maps are shifted by up to 6 rows (0.4 m/s) and columns and
mixed (mixup, α = 0.2), and labels smoothed by 0.1. Maps are not mirrored, since that would turn a movement towards the
radar into one away from it. Generated maps select the checkpoint with the best validation accuracy. The recording is
too short for a validation set: there the loss on the training events selects "best", and the fold selects nothing.
"""

from configs import common

DATA = {  # side and channels of a map, mean and standard deviation of its values, rows of a batch, epochs
    "radar_har": dict(size=128, channels=1, mean=0.5, std=0.16, rows=32, epochs=60.0, records=1600),
    "radar_parrad": dict(size=64, channels=2, mean=0.15, std=0.15, rows=16, epochs=200.0, records=79),
}
VIT = {"radar_har": dict(patch=16, hidden=276), "radar_parrad": dict(patch=8, hidden=288)}  # 64 patches
CNN = {
    "cnn": dict(),
    "cnn_small": dict(widths=(8, 24, 40, 80, 80)),
    "cnn_tiny": dict(widths=(8, 16, 24, 48, 48)),
    "cnn_light": dict(widths=(16, 24, 32, 32, 32), separable=True),
}
SLOW = {"cnn_light": 3}  # model -> factor on the number of epochs
MODELS = ("lh_vit", "vit", *CNN)
DIFFICULTIES = ("easy", "hard")
FOLDS = 5


def get_config(arg=""):
    """Arguments: model, data, difficulty, fold, epochs and rate (0: the data's own), seed, precision, smoke."""
    args = common.parse(
        arg,
        dict(
            model="lh_vit", data="radar_har", difficulty="hard", fold=0, epochs=0.0, rate=0.0, seed=0,
            precision="float32", smoke=False,
        ),
    )  # fmt: skip
    for key, there in (("model", MODELS), ("data", DATA), ("difficulty", DIFFICULTIES), ("fold", range(FOLDS))):
        if args.get(key) not in there:
            raise ValueError(f"{key}={args.get(key)!r}: choose from {', '.join(map(str, there))}")
    data = DATA[args["data"]]
    config = common.base()
    config.seed, config.precision = args["seed"], args["precision"]
    name = "cnn" if args["model"] in CNN else args["model"]
    config.model = dict(name=name, image_size=data["size"], channels=data["channels"], **CNN.get(args["model"], {}))
    if args["model"] == "vit":
        config.model.update(width=64, layers=4, heads=4, **VIT[args["data"]])
    config.task = dict(
        name="classify_images", mean=(data["mean"],), std=(data["std"],), crop=6, padding="reflect", mixup=0.2,
        label_smoothing=0.1,
    )  # fmt: skip
    config.data.kind = "images"
    config.data.rows, config.data.eval_batch = data["rows"], 100
    sources(config, args)
    config.epochs = args["epochs"] or data["epochs"] * SLOW.get(args["model"], 1)
    steps = config.epochs * data["records"] / data["rows"]
    config.optimizer.learning_rate = args["rate"] or 2e-3
    config.optimizer.schedule = dict(name="cosine", warmup=round(steps / 10))
    config.optimizer.arguments = dict(b1=0.9, b2=0.999, eps=1e-8)
    config.optimizer.weight_decay = 0.05
    config.optimizer.decay_rules = ((r".*/(bias|scale|position\w*|class_token)", 0.0), (r".*", 1.0))
    config.optimizer.clip_norm = 1.0
    config.log_every = config.eval_every = config.save_every = 50
    if args["smoke"]:
        smoke(config)
    return common.finished(config, args)


def sources(config, args):
    """Sets the names in the section ``data``, and how the best checkpoint is selected."""
    if args["data"] == "radar_har":
        name, parts = f"generated:radar_har,difficulty={args['difficulty']}", ("train", "validation", "test")
        config.select, config.select_mode = "accuracy", "max"
    else:
        rest, fold = f"rest{args['fold']}", f"fold{args['fold']}"
        name, parts = "folder:radar_parrad", (rest, rest, fold)
        config.select, config.select_mode = "loss", "min"
    config.data.train, config.data.validation, config.data.test = (f"{name}@{part}" for part in parts)


def smoke(config):
    """`common.smoke` for maps: a few of them, narrow layers."""
    common.smoke(config)
    for part in ("train", "validation", "test"):
        config.data[part] = config.data[part].replace("generated:radar_har,", "generated:radar_har,size=16,")
    narrow = {
        "lh_vit": dict(stem=8, widths=(8, 8, 8), width=8, heads=1, hidden=8, layers=1, summary=8),
        "vit": dict(width=8, layers=1, heads=1, hidden=8),
        "cnn": dict(widths=(8, 8, 8)),
    }
    config.model.update(narrow[config.model.name])
    return config
