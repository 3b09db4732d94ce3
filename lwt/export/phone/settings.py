"""What a program that runs an exported file has to know: the labels, and how a text becomes the model's input.

The files for ONNX Runtime and LiteRT carry these settings as JSON in their metadata, under `NAME`.
"""

import json

import lwt
from lwt.data import tokenizer
from lwt.runs import calibration

NAME = "lwt"


def as_metadata(settings):
    """The settings as what a runtime's ``describe`` takes, ``{NAME: JSON}``."""
    return {NAME: json.dumps(settings, ensure_ascii=False)}


def of(source, *, length=None):
    """The settings of a run, a dict for JSON.

    - ``lwt``: the version. ``model``, ``task``: their names. ``checkpoint``: steps of the optimizer.
    - ``labels``: the names of the classes, none for a number. ``temperature``: divides the logits before the softmax.
    - ``separator``: between the labels of a text that may have several; "" if it has one. ``thresholds``: then the
      probability of each class, from which on it is an answer.
    - ``rows``, ``length``: the sizes of the inputs, None for any; `length` is an argument.

    Of texts, also ``clean``, the arguments of `lwt.data.text.Cleaner`, and ``tokenizer``, its file and the SHA-256. Of
    texts with a label:

    - ``texts``: the number of texts of a record.
    - ``row``: the ids around the texts, the id of padding, the most ids of a row, and where longer texts lose ids.
    """
    config, fitted = source.config, source.calibration or calibration.NONE
    separator = source.data.labels.separator if source.labels else ""
    found = {
        "lwt": lwt.__version__,
        "model": config.model.name,
        "task": config.task.name,
        "checkpoint": source.step,
        "labels": [*source.labels],
        "temperature": fitted.temperature,
        "separator": separator,
        "thresholds": [*(fitted.thresholds or [0.5] * len(source.labels))] if separator else [],
        "rows": None if length is None else 1,
        "length": length,
    }
    if source.tokenizer is None:
        return found
    found["clean"] = config.data.clean.to_dict()
    found["tokenizer"] = {"file": tokenizer.FILE, "sha256": source.tokenizer.fingerprint}
    if not hasattr(source.data, "fields"):
        return found
    special = {"begin": [tokenizer.CLS], "between": [tokenizer.SEP], "end": [tokenizer.SEP], "pad": tokenizer.PAD}
    longest = min(length or config.data.row_length, config.data.row_length)
    row = {**special, "longest": longest, "cut": config.data.cut}
    return found | {"texts": len(source.data.fields), "row": row}
