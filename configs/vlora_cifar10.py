"""A Vision Transformer on CIFAR-10, and its Vertical-LoRA versions ("Vertical LoRA", section 4, Table 1, Figure 2).

    python train.py --config=configs/vlora_cifar10.py --workdir=runs/vit                                   # 9,549,578
    python train.py --config=configs/vlora_cifar10.py:rank=4,mode=recursive --workdir=runs/vlora4          # 2,619,146
    python train.py --config=configs/vlora_cifar10.py:rank=4,size=small,epochs=15 --workdir=runs/small     # two cores
    ls *.png | python eval.py --workdir=runs/vlora4 --predict=-

rank     rank of the increments; 0: the plain ViT. The paper has 8, 4 and 2
mode     recursive (the paper's equations 13 to 15), base (the authors' code) or lors; chunks: 0 for the size's own
size     paper: patch 2, width 256, 12 layers, 4 heads, 3 chunks; small: patch 4, width 128, 6 layers, 4 heads, 2 chunks
augment  none; basic: flips and crops; mix: also mixup and cutmix; full: also RandAugment, which runs on the host, image
         by image, and needs `pip install '.[augment]'`
data     folder:cifar10, tfds:cifar10, or other classes of 32 × 32 images
rows     images per step

The paper published no recipe. Ours: AdamW (0.9, 0.999), decay 0.05, clipped at norm 1, 128 images a step unless `rows`
differs, the rate warmed up over 5 epochs (a tenth of a short run) to 5e-4 (small: 1e-3) and lowered to 0 by half a
cosine over 100 epochs (small: 20); labels smoothed by 0.1 with any augmentation. 5,000 of the 50,000 training images
are withheld for validation; their accuracy selects the "best" checkpoint.
"""

from configs import common

SIZES = {
    "paper": dict(patch=2, width=256, hidden=1024, layers=12, heads=4),
    "small": dict(patch=4, width=128, hidden=512, layers=6, heads=4),
}
CHUNKS = {"paper": 3, "small": 2}
RATES = {"paper": 5e-4, "small": 1e-3}
EPOCHS = {"paper": 100.0, "small": 20.0}
MODES = ("recursive", "base", "lors")
BASIC = dict(flip=True, crop=4, padding="zero", label_smoothing=0.1)
MIX = dict(BASIC, mixup=0.8, cutmix=1.0)
AUGMENT = {"none": dict(), "basic": BASIC, "mix": MIX, "full": MIX}
RANDAUGMENT = (2, 9)  # operations, magnitude
TRAIN = 45_000  # training images without the validation images
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the training images' channels


def get_config(arg=""):
    """Arguments: rank, mode, chunks and epochs and rate (0: the size's own), size, augment, rows, seed, precision,
    data, smoke."""
    args = common.parse(
        arg,
        dict(
            rank=0, mode="recursive", chunks=0, size="paper", epochs=0.0, augment="basic", rows=128, rate=0.0, seed=0,
            precision="float32", data="folder:cifar10", smoke=False,
        ),
    )  # fmt: skip
    size, augment = args["size"], args["augment"]
    for key, there in (("size", SIZES), ("mode", MODES), ("augment", AUGMENT)):
        if args.get(key) not in there:
            raise ValueError(f"{key}={args.get(key)!r}: choose from {', '.join(there)}")
    if not args["rows"]:
        raise ValueError("rows=0: a batch needs at least one image")
    config = common.base()
    config.seed, config.precision = args["seed"], args["precision"]
    config.model = dict(name="vit", image_size=32, channels=3, attention="softmax", **SIZES[size])
    config.reparam = reparam(args["rank"], args["mode"], args["chunks"] or CHUNKS[size])
    config.task = dict(name="classify_images", mean=MEAN, std=STD, **AUGMENT[augment])
    config.data.kind = "images"
    config.data.train = args["data"]
    config.data.channels = 3
    config.data.randaugment = RANDAUGMENT if augment == "full" else ()
    config.data.rows, config.data.eval_batch = args["rows"], 250
    config.optimizer.learning_rate = args["rate"] or RATES[size]
    config.epochs = args["epochs"] or EPOCHS[size]
    warmup = min(5.0, config.epochs / 10) * TRAIN / args["rows"]
    config.optimizer.schedule = dict(name="cosine", warmup=round(warmup))
    config.optimizer.arguments = dict(b1=0.9, b2=0.999, eps=1e-8)
    config.optimizer.weight_decay = 0.05
    config.optimizer.clip_norm = 1.0
    config.log_every, config.eval_every, config.save_every = 100, 0, 0
    config.select, config.select_mode = "accuracy", "max"
    if args["smoke"]:
        common.smoke(config)
    return common.finished(config, args)


def reparam(rank, mode, chunks):
    """The section ``reparam``; with LORS the layers of a chunk start alike, as in its paper."""
    if not rank:
        return dict(name="none")
    return dict(name="vertical", chunks=chunks, rank=rank, mode=mode, start="zero" if mode == "lors" else "kaiming")
