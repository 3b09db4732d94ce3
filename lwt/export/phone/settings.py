"""What a program that runs an exported file has to know: the labels, and how a text becomes the model's input.

The files for ONNX Runtime and LiteRT carry these settings as JSON in their metadata, under `NAME`.
"""

import dataclasses
import json

import lwt
from lwt.runs import calibration
from lwt.tasks import similarity

NAME = "lwt"


def as_metadata(settings):
    """The settings as what a runtime's ``describe`` takes, ``{NAME: JSON}``."""
    return {NAME: json.dumps(settings, ensure_ascii=False)}


def of(source, *, length=None):
    """The settings of a run, a dict for JSON.

    - ``lwt``: the version. ``model``, ``task``: their names. ``checkpoint``: steps of the optimizer.
    - ``answers``: "labels", "numbers", or "vectors" of a text encoder. ``labels``: the names of the classes.
    - ``temperature``: divides the logits before the softmax.
    - ``separator``: between the labels of a text that may have several; "" if it has one. ``thresholds``: then, for
      each class, the probability from which it is an answer.
    - ``rows``, ``length``: the sizes of the inputs, None for any; `length` is an argument.

    Of texts, also:

    - ``clean``: the arguments of `lwt.data.text.Cleaner`; None: the tokenizer normalises texts itself.
    - ``tokenizer``: its file and the SHA-256.

    Of a text encoder:

    - ``texts``: the number of texts of a record.
    - ``row``: the ids around the texts, the segments of the two texts, the id of padding, the most ids of a row, and
      where longer texts lose ids.
    """
    config, fitted = source.config, source.calibration or calibration.NONE
    separator = source.data.labels.separator if source.labels else ""
    found = {
        "lwt": lwt.__version__,
        "model": config.model.name,
        "task": config.task.name,
        "checkpoint": source.step,
        "answers": "vectors"
        if isinstance(source.task, similarity.Vectors)
        else "labels"
        if source.labels
        else "numbers",
        "labels": [*source.labels],
        "temperature": fitted.temperature,
        "separator": separator,
        "thresholds": [*(fitted.thresholds or [0.5] * len(source.labels))] if separator else [],
        "rows": None if length is None else 1,
        "length": length,
    }
    if source.tokenizer is None:
        return found
    found["clean"] = None if source.tokenizer.cleans else config.data.clean.to_dict()
    found["tokenizer"] = {"file": source.tokenizer.path.name, "sha256": source.tokenizer.fingerprint}
    if source.tokenizer.frame is None:
        return found
    frame = dataclasses.asdict(source.tokenizer.frame)
    row = {name: frame[name] for name in ("begin", "between", "end", "segments", "pad")}
    row |= {"longest": min(length or config.data.row_length, config.data.row_length), "cut": config.data.cut}
    texts = 1 if found["answers"] == "vectors" else len(source.data.fields)
    return found | {"texts": texts, "row": row}
