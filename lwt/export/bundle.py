"""Writes a finished run as one folder to share: weights, tokenizer, config, figures and a model card.

    python -m lwt.export.bundle --workdir=runs/mt --out=mt-bundle --license=apache-2.0
    python -m lwt.export.bundle --workdir=runs/mt --out=mt-small --precision=int8
    python -m lwt.export.bundle --workdir=runs/mt --out=mt-smaller --weights=runs/mt/export/int4.safetensors
    python -m lwt.export.bundle --workdir=pretrained/embbert --out=encoder --precision=float16 --headless
    python eval.py --workdir=mt-bundle --predict=-

`lwt/runs/bundle.py` lists the files. A bundle opens like a workdir, in `lwt.load`, ``eval.py --workdir``,
``init_from`` and all other programs. Adapters are merged, and factors are multiplied out. With ``--precision=int8`` the
weights are those of `lwt.export.quantize`, in the run's own quantization if it has one; ``--block=0``, one scale per
output, answers faster if kernels have many inputs. With ``--weights``, they are those of a file that
`lwt.export.quantize` wrote, in any of its formats. With ``--headless``, a text encoder leaves its head out: a bundle to
start other trainings from, and three quarters smaller if the head was that of pre-training.

The figures are those that ``eval.py`` left in the run for the same checkpoint, so evaluate first. For a bundle of
integers, first run ``lwt.export.quantize`` and ``eval.py --weights``.
"""

import copy
import dataclasses
import os
import pathlib

from absl import flags

import lwt
from lwt import errors, files, trees
from lwt.data.kinds import common
from lwt.export import folders, quantize
from lwt.layers import linear
from lwt.machine import command_line
from lwt.runs import bundle, calibration, eval_files, experiment, integer_file, run_config

CARD = """\
---
library_name: lwt
license: {license}
tags: [lwt, {model}]
---

# {name}

Model `{model}`, task `{task}`, of lwt {version}: {count:,} weights, {size:,} bytes ({precision}).

## Use

{use}

## Data

{data}

## Figures

{figures}

## Limits

{limits}
"""

ANSWERS = """\
Here `{name}` is the path of this folder.

```python
import lwt

experiment = lwt.load("{name}")
experiment.predict([...])
```

    python eval.py --workdir={name} --predict=FILE    # one answer a line"""
START = """\
Training starts from it, by `init_from` of a config, or by its argument `base`. Here `{name}` is the path of this
folder:

    python train.py --config=configs/finetune.py:base={name},data=folder:tickets --workdir=runs/tickets"""


def write(source, folder, *, precision="float32", block=None, weights="", license="unknown", data_license=""):
    """Writes the bundle of a run; returns the bytes of its weights.

    Args:
        source: an `experiment.Experiment`.
        folder: a path where nothing is yet.
        precision: one of `bundle.FLOATS`, or "int8".
        block: for integers, weights that share a scale; 0: row-wise; None: the run's own, else 64.
        weights: a file of `lwt.export.quantize` with the run's weights; it has a precision of its own.
        license: SPDX identifier of the weights' licence, for the card.
        data_license: a sentence on the licences of the data, for the card.

    Raises:
        lwt.errors.ConfigError: the folder holds something or cannot be written; or floats are given a block.
        lwt.errors.CheckpointError: the file `weights` is missing or damaged, or belongs to another run.
        lwt.errors.NotFinite: a weight is not a number, or too large for the precision.
    """
    if block is not None and precision != "int8":
        raise errors.ConfigError(f"--block={block} is for --precision=int8, not {precision}")
    if weights:
        source = source.with_file(weights)
        precision = integer_file.read_info(weights)["quantization"]["format"]
    with folders.new(folder) as new:
        path = new / bundle.WEIGHTS
        if weights:
            files.write_bytes(path, files.read(weights))
        elif precision == "int8":
            quantization = quantize.quantization_of(source)
            if block is not None:
                quantization = dataclasses.replace(quantization, block=block)
            quantize.export(source, path, quantization=quantization)
            precision = quantization.format  # that of a run with quantized weights
        else:
            bundle.write_weights(path, linear.merge(source.weights), precision=precision)
        figures = _figures(source, path if precision in bundle.INTEGERS else None)
        size = path.stat().st_size
        files.write_json(new / run_config.NAME, _config(source))
        files.write_json(new / bundle.METRICS, {"figures": figures})
        for name in (*common.FILES, calibration.FILE):
            if os.path.exists(os.path.join(source.workdir, name)):
                files.write_bytes(new / name, files.read(os.path.join(source.workdir, name)))
        about = {"precision": precision, "license": license, "size": size, "figures": figures, "terms": data_license}
        (new / bundle.CARD).write_text(_card(source, pathlib.Path(folder).name, **about), encoding="utf-8")
        bundle.describe(new, precision=precision, step=source.step, lwt=lwt.__version__)
    return size


def headless(source):
    """A text encoder without its head, as an `experiment.Experiment` that answers nothing.

    Raises:
        lwt.errors.ConfigError: the model has no head to leave out.
    """
    if source.config.model.get("head", "none") == "none":
        raise errors.ConfigError(f"--headless: the model {source.config.model.name!r} of {source.workdir} has no head")
    other = copy.copy(source)
    other.weights = {name: weight for name, weight in source.weights.items() if not name.startswith("head/")}
    other.config = source.config.copy_and_resolve_references()
    with other.config.unlocked():
        other.config.model.head = "none"
    return other


def _config(source):
    """The config of a run that has these weights, without the reparametrization and the start that made them."""
    config = source.config.copy_and_resolve_references()
    with config.unlocked():
        config.init_from, config.init_skip, config.reparam = "", (), {"name": "none"}
        config.optimizer.trainable = (".*",)
    return config.to_dict()


def _figures(source, integers=None):
    """The figures of ``eval.py`` for the checkpoint, or for a file with the same `integers`; a list of dicts."""
    same = {None}
    if integers:
        paths = pathlib.Path(source.workdir, "export").glob("*.safetensors")
        same = {path.name for path in paths if _arrays(path) == _arrays(integers)}
    rows = []
    if source.config.model.get("head") == "none":  # they are those of the head
        return rows
    for _, figures in eval_files.read(source.workdir):
        if figures.get("checkpoint") == source.step and figures.pop("weights", None) in same:
            rows.append(figures)
    return rows


def _arrays(path):
    """The bytes of a safetensors file after its header, whose order varies."""
    content = path.read_bytes()
    return content[8 + int.from_bytes(content[:8], "little") :]


def _card(source, name, *, precision, license, size, figures, terms):
    config = source.config
    no_head = config.model.get("head") == "none"
    answers = not no_head and any(hasattr(source.task, way) for way in ("predict", "generate"))  # else it is a start
    parts = ("train", "validation", "test") if answers else ("train", "validation")
    none = "None: it has no head." if no_head else f"None yet: `python eval.py --workdir={name}`."
    parts = {part: config.data[part] or "a part of the training data" for part in parts}
    return CARD.format(
        name=name,
        use=(ANSWERS if answers else START).format(name=name),
        license=license,
        model=config.model.name,
        task=config.task.name,
        version=lwt.__version__,
        count=trees.count(linear.merge(source.weights)),
        size=size,
        precision=precision,
        data=_items(
            [*(f"{part}: `{data}`" for part, data in parts.items()), *([f"licences: {terms}"] if terms else [])]
        ),
        figures=_items(_figure(name, row) for row in figures) or none,
        limits=_items(_limits(source)),
    )


def _items(lines):
    return "\n".join(f"- {line}" for line in lines)


def _figure(name, row):
    """A line of the card: figures, and the command that measures them."""
    shown = {key: x for key, x in row.items() if isinstance(x, float) and "/" not in key and key != "seconds"}
    figures = [f"{key} {value:.4g}" for key, value in shown.items()]
    decoding = f" ({row['decoding']})" if "decoding" in row else ""
    which = f"--{'data' if ':' in row['data'] else 'split'}={row['data']}"
    return f"{', '.join(figures)} on {row['records']} records{decoding}: `python eval.py --workdir={name} {which}`"


def _limits(source):
    """The limits of the model that follow from its config."""
    data = source.config.data
    if data.kind == "images":
        size = data.image_size
        yield f"Images become {size} pixels wide and high." if size else "Images of one size only."
    else:
        longest = data.max_tokens if data.kind == "pairs" else data.row_length
        yield f"It reads texts of up to {longest} tokens; longer ones are cut."
        yield "Texts are lowercased." if _lowercases(source) else "Case matters."
    if source.labels and source.config.model.get("head") != "none":
        which = "some or none" if data.get("label_separator") else "one"
        yield f"Whatever it is asked, it answers with {which} of: {', '.join(source.labels)}."
    yield "It has the biases of its training data. Nothing but the figures above was measured."


def _lowercases(source):
    """Whether the case of letters is lost: the cleaner removes it, or a tokenizer that cleans texts itself."""
    tokenizer = source.data.tokenizer
    if not tokenizer.cleans:
        return source.config.data.clean.lowercase
    upper, lower = tokenizer.encode(["A Case", "a case"])
    return [*upper] == [*lower]


def main():
    """The program: writes the bundle, and prints its size."""
    values = flags.FLAGS
    source = experiment.load(values.workdir, checkpoint=values.checkpoint, base=values.base)
    source = headless(source) if values.headless else source
    options = {"block": values.block, "weights": values.weights}
    options |= {"license": values.license, "data_license": values.data_license}
    if values.weights:
        command_line.refuse(["precision", "block", "headless"], where="with --weights")
    size = write(source, values.out, precision=values.precision, **options)
    command_line.report({"folder": values.out, "checkpoint": source.step, "bytes": size})


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    command_line.define_run(out="Folder to write.")
    flags.DEFINE_enum("precision", "float32", [*bundle.FLOATS, "int8"], "Number format of the weights.")
    flags.DEFINE_integer(
        "block", None, "With int8: weights that share a scale; 0: row-wise. Default: the run's, else 64.", lower_bound=0
    )
    flags.DEFINE_string("weights", "", "File of lwt.export.quantize with the weights; default: round those of the run.")
    flags.DEFINE_string(
        "license", "unknown", "SPDX identifier of the weights' licence, for the card, such as apache-2.0."
    )
    flags.DEFINE_string("data_license", "", "Sentence on the licences of the training data, for the card.")
    flags.DEFINE_boolean("headless", False, "Leave the head of a text encoder out.")
    command_line.run(main, required=["workdir", "out"])
