"""What a program that runs an exported file has to know: the labels, and how a text becomes the model's input.

The files for ONNX Runtime and LiteRT carry these settings as JSON in their metadata, under `NAME`.
"""

import lwt
from lwt.data import tokenizer

NAME = "lwt"


def of(source, *, length=None):
    """The settings of a run, a dict for JSON.

    - ``lwt``: the version. ``model``, ``task``: their names. ``checkpoint``: steps of the optimizer.
    - ``labels``: the names of the classes, none for a number. ``temperature``: divides the logits before the softmax.
    - ``rows``, ``length``: the sizes of the inputs, None for any; `length` is an argument.

    Of texts, also:

    - ``texts``: the number of texts of a record. ``clean``: the arguments of `lwt.data.text.Cleaner`.
    - ``tokenizer``: its file and the SHA-256.
    - ``row``: the ids around the texts, the id of padding, the most ids of a row, and where longer texts lose ids.
    """
    config = source.config
    found = {
        "lwt": lwt.__version__,
        "model": config.model.name,
        "task": config.task.name,
        "checkpoint": source.step,
        "labels": [*source.labels],
        "temperature": source.calibration.temperature if source.calibration else 1.0,
        "rows": None if length is None else 1,
        "length": length,
    }
    if not hasattr(source.data, "fields"):  # images
        return found
    special = {"begin": [tokenizer.CLS], "between": [tokenizer.SEP], "end": [tokenizer.SEP], "pad": tokenizer.PAD}
    longest = min(length or config.data.row_length, config.data.row_length)
    return found | {
        "texts": len(source.data.fields),
        "clean": config.data.clean.to_dict(),
        "tokenizer": {"file": tokenizer.FILE, "sha256": source.tokenizer.fingerprint},
        "row": {**special, "longest": longest, "cut": config.data.cut},
    }
