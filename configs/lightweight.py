"""Lighter models from trained ones: a run that continues from another run, or learns from it.

    python train.py --config=configs/lightweight.py:teacher=runs/mt,method=distill,layers=2 --workdir=runs/student
    python train.py --config=configs/lightweight.py:base=runs/fewer_heads,epochs=2 --workdir=runs/fewer_heads-tuned
    python train.py --config=configs/lightweight.py:base=runs/student,method=qat --workdir=runs/student-int8
    python train.py --config=configs/lightweight.py:base=runs/mt,method=prune,sparsity=0.8 --workdir=runs/sparse

base     the run whose weights this one starts from, with its data, task and optimizer
teacher  the run to learn from (distill, qat, qlora); for text classification also several, A+B: the student learns the
         mean of their outputs, and takes everything else from the first. Without a base, the student starts from
         scratch, with the data, tokenizer, recipe and sizes of the teacher, except for given sizes; so does
         method=finetune with a teacher, the baseline for distillation
method   finetune; distill; svd (factors of `rank` instead of the kernels); qat, qlora (as in
         configs/embbert_finetune.py; qat with `format`, such as int4, and `block`, the weights that share a scale, -1:
         64); lora_plus (an adapter of `rank` on query, key and value, or on every linear layer
         of a text encoder, and a new head for the classes of other `data`);
         prune (single weights: `sparsity`, rising over the first `ramp` steps, 0: at once; or pattern=N:M; without
         either, the zeros of the base stay zeros)
ranks    a run of lwt.compress.allocate_ranks, which gives the adapter's rank for every weight; LoRA+ still divides its
         rate by `rank`: set it to their mean, or give a `rate`
sizes    layers, decoder_layers, width, heads, hidden of a student; or student=NAME of configs/embbert_pretrain.py
data     another training set, such as one written by lwt.compress.translate_set

Without base and teacher it trains a small translator from scratch on the data of configs/translation.py:data=multi30k.
The commands of lwt/compress/ make pruned, folded and factorised runs to continue from. `recipe` chains both, for
`python -m studies.lighter.recipe`.
"""

import re

from configs import common, embbert_finetune, embbert_pretrain, lora_ranks, translation

TAUGHT = ("distill", "qat", "qlora", "finetune")  # methods that go with a teacher
SIZES = ("layers", "decoder_layers", "width", "heads", "hidden")


def get_config(arg=""):
    """Arguments: see above; epochs and rate (0: the method's own), rank, seed, smoke; for distillation temperature,
    weight, match_hidden and match_attention (weights of the layers' comparison)."""
    args = common.parse(
        arg,
        dict(
            base="", teacher="", method="finetune", student="", **dict.fromkeys(SIZES, 0), data="", epochs=0.0,
            rate=0.0, rank=8, ranks="", temperature=2.0, weight=0.5, match_hidden=0.0, match_attention=0.0,
            sparsity=0.0, scope="layer", ramp=0, pattern="", format="", block=-1, seed=0, smoke=False,
        ),
    )  # fmt: skip
    if args["method"] not in METHODS:
        raise ValueError(f"method={args['method']!r}: choose from {', '.join(METHODS)}")
    if args["teacher"] and args["method"] not in TAUGHT:
        raise ValueError(f"teacher={args['teacher']}: method={args['method']} learns from none; {', '.join(TAUGHT)} do")
    resized = [key for key in ("student", *SIZES) if args[key]]
    if args["base"] and resized:
        raise ValueError(f"{resized[0]}={args[resized[0]]}: a model of other sizes starts from scratch; omit base")
    config = continued(args) if args["base"] else from_scratch(args)
    config.seed = args["seed"]
    if args["data"]:
        config.data.train = args["data"]
    if args["method"] != "qat" and _integers(args):
        raise ValueError(f"{next(iter(_integers(args)))} is an argument of method=qat")
    METHODS[args["method"]](config, args)
    config.optimizer.learning_rate = args["rate"] or config.optimizer.learning_rate
    config.epochs = args["epochs"] or config.epochs
    if args["smoke"]:
        common.smoke(config)
    return common.finished(config, args)


def continued(args):
    """Continues from the base's weights for some epochs. A base that is only pre-trained learns the teacher's task.

    Translators select by loss: from epoch to epoch, BLEU on the 1,014 validation pairs of Multi30k varies by half a
    point while the loss falls. This choice is not free of test data: in two such runs with two test sets each, the last
    checkpoint has 0.0, 0.1, 0.6 and 0.6 BLEU more than the one with the best validation BLEU.
    """
    config = common.of_run(args["base"])
    if args["teacher"]:
        learner, config = config, common.of_run(first_of(args["teacher"]))
        config.model, config.reparam, config.init_from = learner.model, learner.reparam, learner.init_from
        config.data.tokenizer = learner.data.tokenizer
        if learner.data.kind != config.data.kind:
            config.model.head, config.init_skip = "classify", ("head/.*",)
    config.optimizer.schedule = dict(name="cosine", warmup=50)
    config.optimizer.learning_rate = 5e-4
    config.epochs = 3.0
    config.log_every, config.eval_every, config.save_every = 50, 0, 0
    if config.data.kind == "pairs":
        config.select, config.select_mode = "loss", "min"
    return config


def from_scratch(args):
    """A new model on the teacher's data, with its tokenizer and with the given sizes."""
    if args["teacher"]:
        config = common.of_run(first_of(args["teacher"]))
        config.init_from, config.reparam = "", dict(name="none")
        if config.data.kind != "images":
            config.data.tokenizer.path = common.tokenizer_of(first_of(args["teacher"]))
    else:
        config = translation.get_config("data=multi30k").unlock()
    if args["student"]:
        if args["student"] not in embbert_pretrain.MODELS:
            raise ValueError(f"student={args['student']!r}: choose from {', '.join(embbert_pretrain.MODELS)}")
        if "max_length" not in config.model:
            raise ValueError(f"student={args['student']}: it learns from a text encoder; name a teacher that is one")
        body, max_length = embbert_pretrain.MODELS[args["student"]][1], config.model.max_length
        config.model = dict(body, max_length=max_length, head="classify")
    sizes = {key: args[key] for key in SIZES if args[key]}
    if config.model.name == "seq2seq" and "layers" in sizes:
        layers = sizes.pop("layers")
        sizes = {"encoder_layers": layers, "decoder_layers": layers, **sizes}
    if sizes and "sizes" in config.model:
        del config.model.sizes  # the teacher's pruning
    config.model.update(sizes)
    return config


def finetune(config, args):
    """Continues to train all weights."""
    del config, args


def distill(config, args):
    """Adds a teacher to the task."""
    if not args["teacher"]:
        raise ValueError("method=distill needs a teacher: teacher=RUN")
    matched = dict(hidden=args["match_hidden"], attention=args["match_attention"])
    options = {key: args[key] for key in ("temperature", "weight")}
    config.task = common.distilled(config.task, args["teacher"], **options, **matched)


def first_of(teachers):
    """The first of the runs ``A+B``."""
    return teachers.split("+")[0]


def svd(config, args):
    """Turns kernels into factors and trains those."""
    config.reparam = dict(name="svd", rank=args["rank"])


def prune(config, args):
    """Prunes while training, or keeps the zeros of a pruned base. Evaluations begin at the final sparsity."""
    config.reparam = dict(name="prune", mask="zeros")
    if args["pattern"]:
        if not re.fullmatch(r"\d+:\d+", args["pattern"]):
            raise ValueError(f"pattern={args['pattern']!r} should be N:M, such as 2:4")
        pattern = tuple(map(int, args["pattern"].split(":")))
        config.reparam = dict(name="prune", pattern=pattern, gradient="straight_through")
    elif args["sparsity"]:
        ramp = args["ramp"]
        shape = dict(sparsity=args["sparsity"], scope=args["scope"], end=ramp, every=max(1, ramp // 20))
        config.reparam = dict(name="prune", gradient="masked", **shape)
        config.eval_every = ramp or config.eval_every


def quantized(config, args):
    """Trains on quantized weights; only classifiers have a head to train besides the adapter."""
    embbert_finetune.after_quantization(config, args["method"], args["base"])
    if args["method"] == "qat":
        config.reparam = config.reparam.to_dict() | _integers(args)
    if args["teacher"]:
        distill(config, args)
    if config.data.kind == "pairs" and args["method"] == "qlora":
        config.optimizer.trainable = ("adapter/.*",)


def _integers(args):
    """The given ones of `format` and `block`."""
    return {key: args[key] for key in ("format", "block") if args[key] not in ("", -1)}


def lora_plus(config, args):
    """Trains an adapter, and for the classes of other data a new head."""
    config.reparam = lora_ranks.reparam("lora_plus", args["rank"], "one")
    if config.data.kind == "labelled":
        config.reparam["targets"] = embbert_finetune.LINEAR
    if args["ranks"]:
        config.reparam = common.kept_by(args["ranks"], "ranks")["reparam"]
    config.optimizer.lora_plus = 16.0
    config.optimizer.learning_rate = lora_ranks.RATES_OVER_RANK["lora_plus"] / args["rank"]
    config.optimizer.trainable = ("adapter/.*",) if config.data.kind == "pairs" else ("adapter/.*", "base/head/.*")
    if args["data"] and config.data.kind != "pairs":
        config.init_skip = ("head/.*",)
        config.data.validation = config.data.test = ""


METHODS = {
    "finetune": finetune,
    "distill": distill,
    "svd": svd,
    "prune": prune,
    "qat": quantized,
    "qlora": quantized,
    "lora_plus": lora_plus,
}


# Cuts, each followed by distillation. The translator has four decoder layers; with only the first and the last it
# decodes nearly twice as fast. Its kernels do not have low rank, so none is factorised.
RECIPES = {
    "translation": [
        ("shallow", "structured", dict(layers=["decoder/layer_1", "decoder/layer_2"])),
        ("shallow-tuned", "train", dict(method="distill", epochs=10.0, rate=2e-3)),
        ("pruned", "structured", dict(heads=0.2, units=0.25)),
        ("pruned-tuned", "train", dict(method="distill", epochs=6.0, rate=1e-3)),
    ],
    "classification": [
        ("student", "train", dict(method="distill", student="embedder_conv", epochs=12.0, rate=2e-3)),
    ],
}


def recipe(kind, adapt=""):
    """The stages of a recipe, ``[(name, action, arguments)]``: "train" takes arguments of `get_config`, "quantize"
    those of `reparam.quantize.Quantize`, and the others those of the functions of lwt.compress.

    Args:
        kind: "translation" or "classification".
        adapt: another training set, for an adapter on top; "" for none.
    """
    if kind not in RECIPES:
        raise ValueError(f"recipe={kind!r}: choose from {', '.join(RECIPES)}")
    chain = [*RECIPES[kind], ("int8", "quantize", dict(block=0))]  # blocks of 64 are slower
    return chain + ([("adapter", "adapt", dict(method="lora_plus", rank=8, data=adapt, epochs=6.0))] if adapt else [])
