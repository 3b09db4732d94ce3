"""How the fine-tunings of the EmbBERT-Q study start: from which pre-training, and with which teachers."""

import dataclasses

from configs import embbert_pretrain
from studies.embbert import labelled

TEACHERS = 3
LEAK_FREE = {"leak_free": "true"}
BASES = {  # of a `Start` -> the suffix of the pre-training's folder, its added arguments
    "own": ("", {}),
    "paper": ("-paper", {"recipe": "paper"}),
    "small": ("-small", {"tables": "small"}),
}
NGRAMS = {"ngram_weights": 128_000} | LEAK_FREE  # EmbBERT-Q of 18 classes then has less than 781 kB


@dataclasses.dataclass(frozen=True)
class Start:
    """One way to start a fine-tuning.

    Attributes:
        base: the pre-training that it continues from: one of `BASES`, or "further"; "": from scratch.
        added: further arguments of `configs/embbert_finetune.py`.
        teachers: the start of the runs that it also learns from; "": none.
        network: the start of the runs to which a linear model of n-grams is added; nothing else is trained.
        labelled: whether a larger model has labelled variants of the training texts (`labelled.py`).
        distilled: whether it also learns from that model's outputs for all of these texts.
    """

    base: str = ""
    added: dict = dataclasses.field(default_factory=dict)
    teachers: str = ""
    network: str = ""
    labelled: bool = False
    distilled: bool = False


STARTS = {
    "scratch": Start(),
    "pretrained": Start("own"),
    "further": Start("further"),
    "taught": Start("own", teachers="pretrained"),
    "ngrams": Start("own", NGRAMS),
    "paper": Start("paper", {"recipe": "paper"}),
    "small": Start(added={"tables": "small"}),
    "small_pretrained": Start("small", LEAK_FREE),
    "small_ngrams": Start("small", NGRAMS),
    "small_taught": Start("small", LEAK_FREE, teachers="small_ngrams"),
    "small_taught_ngrams": Start("small", NGRAMS, teachers="small_ngrams"),
    "small_labelled": Start("small", LEAK_FREE, labelled=True),
    "small_distilled": Start("small", LEAK_FREE, labelled=True, distilled=True),
    "small_taught_linear": Start("small", NGRAMS, teachers="small_ngrams", network="small_taught"),
    "small_distilled_linear": Start("small", NGRAMS, network="small_distilled", labelled=True, distilled=True),
}


def bases_of(arguments):
    """The pre-trainings that a run needs, in order: ``[(name, arguments, name of the one that it starts from)]``.

    Args:
        arguments: of the run; those of a pre-training have no "start", and need none. Nor does the larger model, which
            is pre-trained elsewhere.
    """
    base = STARTS[arguments["start"]].base if "start" in arguments and arguments["model"] != labelled.MODEL else ""
    if not base:
        return []
    name, own = f"base-{arguments['model']}", {"model": arguments["model"]}
    if base == "further":
        task = arguments["task"]
        suffix, texts = ("glue", "glue") if task in embbert_pretrain.GLUE else (task, embbert_pretrain.data_of(task))
        return [(name, own, ""), (f"{name}-{suffix}", own | {"data": texts}, name)]
    suffix, added = BASES[base]
    return [(name + suffix, own | added, "")]


def teachers_of(arguments):
    """The arguments of the fine-tunings that a run learns from: the first `TEACHERS` seeds, for all of its seeds."""
    teachers = STARTS[arguments["start"]].teachers if "start" in arguments else ""
    return [arguments | {"start": teachers, "seed": seed} for seed in range(TEACHERS)] if teachers else []


def network_of(arguments):
    """The arguments of the fine-tuning to which a run adds a linear model of n-grams; None for a run that trains."""
    network = STARTS[arguments["start"]].network if "start" in arguments else ""
    return arguments | {"start": network} if network else None


def larger_of(arguments):
    """The arguments of the fine-tunings of the larger model that must be finished before a run, its teacher last."""
    if arguments.get("model") == labelled.MODEL:
        return labelled.teachers_of(arguments["task"])[:-1]
    return labelled.teachers_of(arguments["task"]) if is_labelled(arguments) else []


def is_labelled(arguments):
    """Whether a run trains on a set that the larger model labelled."""
    return "start" in arguments and STARTS[arguments["start"]].labelled


def is_distilled(arguments):
    """Whether a run learns from the outputs of the larger model."""
    return "start" in arguments and STARTS[arguments["start"]].distilled


def before(arguments):
    """The arguments of the fine-tunings that must be finished before a run, in order."""
    network = network_of(arguments)
    return [*larger_of(arguments), *teachers_of(arguments), *([network] if network else [])]
