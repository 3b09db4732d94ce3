"""Every key of a config, with its default. A paper's config overrides values; nothing else adds keys.

Configs hold values only: nothing here imports lwt. Durations are optimizer steps. ``build`` (lwt/training/build.py) is
the only reader. In the sections ``model``, ``reparam`` and ``task``, ``name`` is a file of lwt and the other keys are
its arguments.
"""

import difflib
import json
import math
import pathlib

import ml_collections

FOLDERS = {}  # name of a run -> its folder, where they differ: of models such as hf:NAME
LASTING = ("svd",)  # reparametrizations that later runs keep: they store less than the weights they form


def base():
    """A config with every key; the caller's ``get_config`` locks it."""
    config = ml_collections.ConfigDict()
    config.seed = 0
    config.steps = 1000  # optimizer steps of the whole run ...
    config.epochs = 0.0  # ... or, if this is not 0, its length in passes over the training data
    config.init_from = ""  # workdir of the run whose weights (and tokenizer) this one starts from
    config.init_checkpoint = "best"
    config.init_skip = ()  # regexes of weights to initialize anew: ("head/.*",) for another task

    config.model = ml_collections.ConfigDict({"name": "seq2seq"})  # lwt/models/NAME.py
    config.reparam = ml_collections.ConfigDict({"name": "none"})  # lwt/reparam/NAME.py
    config.task = ml_collections.ConfigDict({"name": "translate"})  # lwt/tasks/NAME.py

    # An adapter for each of several tasks, in one run: {task: the keys of data in which it differs, such as train}.
    config.tasks = ml_collections.ConfigDict()

    config.data = ml_collections.ConfigDict()
    config.data.kind = "pairs"  # "pairs", "labelled" or "compared" texts, "masked" running text, "images" with labels
    config.data.train = ""  # KIND:NAME[@SPLIT], joined by '+' : "folder:multi30k_de_en", "tfds:wmt17_translate/de-en"
    config.data.validation = ""
    config.data.test = ""
    config.data.fields = ("de", "en")  # fields of source and target; labelled: of one or two texts, or () to find them
    config.data.label = "label"  # labelled, images: the field to predict
    config.data.label_separator = ""  # labelled: between the labels of a record, which may have several; "": it has one
    config.data.leak_free = False  # labelled, images: omit training records that are in validation or test
    config.data.masking = "paper"  # masked: "paper", "code", or the shares {rate, mask, random, keep}
    config.data.join = 0  # masked: join lines to segments of this many tokens; 0: a segment is a line
    config.data.image_size = 0  # images: resize both sides to this many pixels; 0: all images have one size
    config.data.channels = 0  # images: convert to 3 or 1 (grey) channels; 0: all images have the same
    config.data.randaugment = ()  # images: (operations, magnitude), done ahead of time by torchvision; () for none
    config.data.max_train_records = 0  # 0: all
    config.data.max_eval_records = 0  # validation records per evaluation in training; 0: all
    config.data.max_malformed = 0.01  # share of malformed records above which the run fails
    config.data.max_megabytes = 256.0  # a longer line or cell, or a larger image, is a malformed record
    config.data.clean = ml_collections.ConfigDict()
    config.data.clean.lowercase = True
    config.data.clean.strip_accents = False
    config.data.clean.remove_urls = True
    config.data.clean.remove_html = True
    config.data.clean.unicode = "NFKC"  # "" keeps the text unchanged
    config.data.clean.characters = ""  # a regex of characters to keep; "" keeps all
    config.data.min_tokens = 1  # per side, without the end mark; training pairs outside are dropped and counted
    config.data.max_tokens = 64
    config.data.tokenizer = ml_collections.ConfigDict()
    config.data.tokenizer.vocabulary = 8000  # padded up to a multiple of 64
    config.data.tokenizer.split_digits = False
    config.data.tokenizer.path = ""  # a trained .model to use; "" trains one, or uses that of init_from
    config.data.rows = 64  # rows per training batch ...
    config.data.row_length = 64  # ... and tokens per row
    config.data.target_row_length = 0  # packed pairs: tokens of a row's target side; 0: as many as of its source side
    config.data.cut = "end"  # labelled: where longer texts lose tokens, at the "end" or in the "middle"
    config.data.packed = True  # pairs: several per row; False: one per row, in batches of similar lengths
    config.data.eval_batch = 128  # sentences per evaluation batch

    config.optimizer = ml_collections.ConfigDict()
    config.optimizer.name = "adamw"  # an optax optimizer: adamw, adam, sgd, adafactor, lion, ...
    config.optimizer.learning_rate = 1.0  # factor on the schedule
    config.optimizer.schedule = ml_collections.ConfigDict({"name": "noam", "width": 128, "warmup": 4000})
    config.optimizer.arguments = ml_collections.ConfigDict({"b1": 0.9, "b2": 0.98, "eps": 1e-9})
    config.optimizer.weight_decay = 0.0
    # (regex, factor), first match wins. Kernels and tables decay; positions, class tokens, the vectors of EmbBERT's
    # difference, and MAMBA's a_log (the decay rates of its states), skip and time_bias do not.
    config.optimizer.decay_rules = (
        (r".*/(bias|scale|position\w*|class_token|difference/\w+|a_log|skip|time_bias)", 0.0),
        (r".*", 1.0),
    )
    config.optimizer.rate_rules = ((r".*", 1.0),)  # factor on the learning rate, first match wins
    config.optimizer.lora_plus = 0.0  # LoRA+: learning rate of an adapter's b over that of its a; 0: off
    config.optimizer.trainable = (r".*",)  # regexes; the other weights are frozen
    config.optimizer.clip_norm = 0.0  # 0: off
    config.optimizer.accumulate = 1  # microbatches per step
    config.optimizer.ema = 0.0  # decay of a moving average of the weights, which evaluations and answers use; 0: off

    config.precision = "float32"  # operands of the products: "float32" or "bfloat16"; weights stay float32
    config.sharding = ((r".*", ()),)  # (regex, mesh axis per dimension); () replicates
    config.mesh = ml_collections.ConfigDict({"data": -1})  # axis -> devices; -1: all remaining ones

    config.log_every = 50
    config.eval_every = 500  # 0: every epoch
    config.save_every = 500  # 0: every epoch
    config.eval_decode = True  # whether every evaluation also decodes the validation set
    config.keep_last = 2
    config.select = "loss"  # the evaluation figure that decides "best" ...
    config.select_mode = "min"  # ... and whether "min" or "max" is better
    config.patience = 0  # evaluations in a row without a better figure after which training stops; 0: off
    config.profile_steps = ()  # (first, last) step to profile
    return config


WORDS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class Help(ValueError):
    """The arguments of a config with their defaults, ``{name: default}``: the answer to the argument ``help``."""

    def __init__(self, arguments):
        super().__init__("arguments: " + ", ".join(f"{key}={value}" for key, value in arguments.items()))
        self.arguments = arguments


class Arguments(dict):
    """The arguments of a config by name; they know which of the given ones it has read."""

    def __init__(self, defaults, given):
        super().__init__({**defaults, **given})
        self.unread = {key: value for key, value in given.items() if value != defaults[key]}

    def __getitem__(self, key):
        self.unread.pop(key, None)
        return super().__getitem__(key)


def parse(arg, defaults):
    """Merges ``"data=pool,rank=8"`` into defaults ``{"data": "multi30k", "rank": 16}``; returns the `Arguments`.

    Raises:
        ValueError: a key is unknown or given twice, or a value does not fit the type of the default, is not finite, or
            is negative where the default is not.
        Help: `arg` is "help".
    """
    if arg == "help":
        raise Help(defaults)
    given = {}
    for item in filter(None, (arg or "").split(",")):
        key, separator, text = item.partition("=")
        if key not in defaults or not separator:
            near = difflib.get_close_matches(key, defaults, n=1)
            hint = f"did you mean {near[0]!r}?" if separator and near else f"choose from {', '.join(sorted(defaults))}"
            raise ValueError(f"config argument {item!r} should be KEY=VALUE of a KEY that this config has; {hint}")
        if key in given:
            raise ValueError(f"config argument {item!r}: {key} is given twice")
        kind = type(defaults[key])
        try:
            given[key] = WORDS[text.lower()] if kind is bool else kind(text)
        except (KeyError, ValueError) as error:
            wanted = "true or false" if kind is bool else f"of type {kind.__name__}"
            raise ValueError(f"config argument {item!r}: {key} should be {wanted}") from error
        if kind in (int, float) and not (
            math.isfinite(given[key]) and (given[key] >= 0 or given[key] == defaults[key])
        ):
            raise ValueError(f"config argument {item!r}: {key} should be a finite number, positive or 0")
    return Arguments(defaults, given)


def finished(config, args):
    """Locks a config and returns it.

    Raises:
        ValueError: an argument was given that the config does not read.
    """
    if args.unread:
        key, value = next(iter(args.unread.items()))
        raise ValueError(f"config argument {key}={value}: it has no effect with the other arguments; omit it")
    return config.lock()


def distilled(task, teachers, *, temperature=2.0, weight=0.5, **options):
    """The section of a task that also learns from the runs ``A+B``; see `lwt/tasks/distill.py`."""
    runs = tuple(teachers.split("+"))
    teacher = runs if len(runs) > 1 else runs[0]
    return dict(
        name="distill", task=task.to_dict(), teacher=teacher, temperature=temperature, weight=weight, **options
    )  # fmt: skip


def smoke(config):
    """Shrinks a config so that its two steps run in seconds; CI runs every config this way."""
    config.steps, config.epochs = 2, 0.0
    config.log_every = config.eval_every = config.save_every = 1
    config.data.max_train_records = config.data.max_eval_records = 200
    config.data.tokenizer.vocabulary = 320
    config.data.rows = 8
    config.data.eval_batch = 8
    return config


def kept_by(workdir, argument="base"):
    """The config of a run as a dict.

    Raises:
        ValueError: the run does not exist; the message names the argument.
    """
    path = pathlib.Path(FOLDERS.get(str(workdir), workdir), "config.json")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        wrong = f"there is no file {path}" if isinstance(error, FileNotFoundError) else f"{path}: {error}"
        here = "" if path.is_absolute() else f", a path from the current folder {pathlib.Path.cwd()}"
        raise ValueError(f"{argument}={workdir}: {wrong}; give the folder of a run or bundle{here}") from error


def tokenizer_of(workdir):
    """The path of the tokenizer of a run: its ``tokenizer.json``, or else its ``tokenizer.model``."""
    folder = pathlib.Path(FOLDERS.get(str(workdir), workdir))
    own = folder / "tokenizer.json"
    return str(own if own.exists() else folder / "tokenizer.model")


def of_run(workdir):
    """A config that continues from a run: its model, data, task and optimizer, started from its weights.

    These weights include an adapter; factors (`LASTING`) stay factors.

    Raises:
        ValueError: the run does not exist.
    """
    kept, config = kept_by(workdir), base()
    if kept["reparam"]["name"] in LASTING:
        config.reparam = kept["reparam"]
    with config.ignore_type():  # a run may have several test sets
        config.data.update(kept.pop("data"))
    of_adapter = {key: config.optimizer[key] for key in ("trainable", "rate_rules", "lora_plus")}  # now merged
    config.optimizer = {**config.optimizer, **kept.pop("optimizer"), **of_adapter}
    kept["task"] = kept["task"].get("task", kept["task"])  # a distilled task without its teacher
    for key in kept.keys() - {"init_skip", "init_checkpoint", "reparam"}:
        config[key] = kept[key]
    config.init_from = str(workdir)
    return config
