"""Vision Transformers by size, from scratch or from a public checkpoint (Dosovitskiy et al. 2021).

    python train.py --config=configs/vit.py:size=cifar,data=folder:cifar10 --workdir=runs/vit
    python train.py --config=configs/vit.py:size=cct2,data=folder:cifar10 --workdir=runs/cct
    python -m lwt.export.torch.timm --config=configs/vit.py:size=b16 --checkpoint=ViT-B_16.npz --workdir=runs/b16
    python train.py --config=configs/vit.py:base=runs/b16,data=folder:cifar10 --workdir=runs/b16-cifar

size        cifar (32 pixels, patches of 2), ti16, s16, b16 (224 pixels, patches of 16); cct2, cct7: compact
            transformers for 32 pixels (Hassani et al. 2021), with a convolutional stem and no class token; see SIZES
data        images with classes, tfds:NAME or folder:NAME, resized to image_size
image_size  0: the size's own
hybrid      a small CNN before the encoder; the pixels of its feature map are the patches
base        a run, a bundle or hf:FOLDER with a ViT or DeiT of transformers to start from, except its head; it says
            size and image_size. Empty: from scratch

From scratch: AdamW at 1e-3 with a decay of 0.05 (of kernels), 500 steps of warm-up, a cosine, images flipped and
cropped. From a base: the paper's fine-tuning (appendix B.1.1), SGD with momentum 0.9, no decay, norms clipped at 1, a
cosine. The paper tries rates from 0.001 to 0.03 with batches of 512; ours is 0.003 with batches of 64.
"""

from configs import common

SIZES = {  # weights: docs/results/parameters
    "cifar": dict(image_size=32, patch=2, width=256, layers=12, heads=4, hidden=1024),
    "ti16": dict(image_size=224, patch=16, width=192, layers=12, heads=3, hidden=768),
    "s16": dict(image_size=224, patch=16, width=384, layers=12, heads=6, hidden=1536),
    "b16": dict(image_size=224, patch=16, width=768, layers=12, heads=12, hidden=3072),
    "cct2": dict(image_size=32, patch=4, width=128, layers=2, heads=2, hidden=128, stem="pooled", pool="sequence"),
    "cct7": dict(image_size=32, patch=2, width=256, layers=7, heads=4, hidden=512, stem="pooled", pool="sequence"),
}


def get_config(arg=""):
    """Arguments: size, data, image_size, hybrid, base, epochs, rate (0: see above), seed, precision, smoke."""
    args = common.parse(
        arg,
        dict(
            size="cifar", data="folder:cifar10", image_size=0, hybrid=False, base="", epochs=30.0, rate=0.0, seed=0,
            precision="bfloat16", smoke=False,
        ),
    )  # fmt: skip
    config = common.base()
    config.seed, config.precision = args["seed"], args["precision"]
    # pixels from -1 to 1, as the public checkpoints expect
    config.task = dict(name="classify_images", mean=(0.5,), std=(0.5,), flip=True)
    if args["base"]:
        start_from(config, args["base"])
    else:
        config.model = from_scratch(args)
    size = config.model.image_size
    if args["image_size"] not in (0, size):
        raise ValueError(
            f"image_size={args['image_size']}: base={args['base']} has image_size={size}; "
            "lwt.export.torch.timm makes a run of another size of a file"
        )
    config.task.crop = size // 8
    config.data.kind = "images"
    config.data.train = args["data"]
    config.data.image_size, config.data.channels = size, config.model.get("channels", 3)
    config.data.rows, config.data.eval_batch = 64, 128
    config.optimizer.schedule = dict(name="cosine", warmup=500)
    if args["base"]:
        config.optimizer.name, config.optimizer.arguments = "sgd", dict(momentum=0.9)
        config.optimizer.learning_rate, config.optimizer.clip_norm = 3e-3, 1.0
    else:
        config.optimizer.learning_rate, config.optimizer.weight_decay = 1e-3, 0.05
        config.optimizer.arguments = dict(b1=0.9, b2=0.999, eps=1e-8)
    config.optimizer.learning_rate = args["rate"] or config.optimizer.learning_rate
    config.epochs = args["epochs"] or 30.0
    config.log_every, config.eval_every, config.save_every = 100, 0, 0
    config.select, config.select_mode = "accuracy", "max"
    if args["smoke"]:
        (common.smoke if args["base"] else smoke)(config)
    return common.finished(config, args)


def from_scratch(args):
    """The section of a new model."""
    if args["size"] not in SIZES:
        raise ValueError(f"size={args['size']!r}: choose from {', '.join(SIZES)}")
    model = dict(name="vit", attention="softmax", stem="conv" if args["hybrid"] else "patches") | SIZES[args["size"]]
    if args["hybrid"] and model["stem"] != "conv":
        raise ValueError(f"hybrid=True: size={args['size']} has a convolutional stem of its own")
    model["image_size"] = args["image_size"] or model["image_size"]
    return model


def start_from(config, base):
    """Takes model and normalisation from the base, with a new head."""
    kept = common.kept_by(base)
    if kept["model"]["name"] != "vit":
        raise ValueError(f"base={base} is no ViT: its model.name is {kept['model']['name']!r}")
    config.init_from, config.init_skip = base, ("head/.*",)
    config.model = kept["model"]
    for key in ("mean", "std"):
        config.task[key] = tuple(kept["task"].get("task", kept["task"])[key])


def smoke(config):
    """`common.smoke` for images: small ones, two narrow layers."""
    common.smoke(config)
    config.model.update(image_size=8, patch=4, width=16, layers=2, heads=2, hidden=32)
    config.data.image_size, config.task.crop = 8, 1
    return config
