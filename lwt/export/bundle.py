"""A finished run as one folder to hand on: weights, tokenizer, config, figures, and a card that says what it is.

    python -m lwt.export.bundle --workdir=runs/mt --out=mt-bundle --license=apache-2.0
    python -m lwt.export.bundle --workdir=runs/mt --out=mt-small --precision=int8
    python eval.py --workdir=mt-bundle --predict=-

`lwt/runs/bundle.py` has the files. `lwt.load` and ``eval.py --workdir`` read a bundle as they read a workdir, and
one of floats is a start for ``init_from`` and whatever else takes a run. Adapters are merged, factors multiplied out.
With ``--precision=int8`` the weights are those of `lwt.export.quantize`, in the run's own quantization if it has one;
``--block=0``, one scale for every output, answers faster where kernels have many inputs.

The figures are those that ``eval.py`` left beside the run, of the same checkpoint: evaluate first. Those of integers
are of a file like theirs: ``lwt.export.quantize``, and ``eval.py --weights``, first.
"""

import dataclasses
import os
import pathlib
import shutil

from absl import flags

import lwt
from lwt import errors, files, trees
from lwt.data.kinds import pairs, supervised
from lwt.export import folders, quantize
from lwt.layers import linear
from lwt.machine import command_line
from lwt.runs import bundle, experiment, run_config

FILES = (pairs.TOKENIZER, supervised.LABELS, supervised.SPLITS)
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
```python
import lwt

experiment = lwt.load("{name}")
experiment.predict([...])
```

    python eval.py --workdir={name} --predict=FILE    # one answer a line"""
START = """\
A start for training: `init_from` of a config, or its argument `base` (beside the `model` that this one is):

    python train.py --config=configs/embbert_finetune.py:base={name},task=snips --workdir=runs/snips"""


def write(opened, folder, *, precision="float32", block=None, license="unknown"):
    """Writes the bundle of a run; returns the bytes of its weights.

    Args:
        opened: an `experiment.Experiment`.
        folder: that is not there yet.
        precision: one of `bundle.FLOATS`, or "int8".
        block: of integers, weights that share a scale, 0: row-wise; None: the run's own, or else 64.
        license: of the weights, for the card: an SPDX identifier.

    Raises:
        lwt.errors.ConfigError: the folder holds something, or cannot be written; a block for floats.
        lwt.errors.NotFinite: a weight is not a number, or too large for the precision.
    """
    if block is not None and precision != bundle.INTEGERS:
        raise errors.ConfigError(f"--block={block} is for --precision={bundle.INTEGERS}, not {precision}")
    with folders.new(folder) as new:
        weights = new / bundle.WEIGHTS
        if precision == bundle.INTEGERS:
            quantization = quantize.quantization_of(opened)
            if block is not None:
                quantization = dataclasses.replace(quantization, block=block)
            quantize.export(opened, weights, quantization=quantization)
            figures = _figures(opened, weights)
        else:
            bundle.write_weights(weights, linear.merge(opened.weights), precision)
            figures = _figures(opened)
        size = weights.stat().st_size
        files.write_json(new / run_config.NAME, _config(opened))
        files.write_json(new / bundle.METRICS, {"figures": figures})
        for name in FILES:
            if os.path.exists(os.path.join(opened.workdir, name)):
                shutil.copyfile(os.path.join(opened.workdir, name), new / name)
        about = {"precision": precision, "license": license, "size": size, "figures": figures}
        (new / bundle.CARD).write_text(_card(opened, pathlib.Path(folder).name, **about), encoding="utf-8")
        bundle.describe(new, precision=precision, step=opened.step, lwt=lwt.__version__)
    return size


def _config(opened):
    """The config of a run that has these weights and nothing that made them."""
    config = opened.config.copy_and_resolve_references()
    with config.unlocked():
        config.init_from, config.init_skip, config.reparam = "", (), {"name": "none"}
        config.optimizer.trainable = (".*",)
    return config.to_dict()


def _figures(opened, integers=None):
    """What ``eval.py`` found, a list of dicts: of the run's checkpoint itself, or of a file like that of `integers`."""
    same = {None}
    if integers:
        files = pathlib.Path(opened.workdir, "export").glob("*.safetensors")
        same = {file.name for file in files if _arrays(file) == _arrays(integers)}
    found = []
    for path in sorted(pathlib.Path(opened.workdir, "eval").glob("*.json")):
        figures = folders.read_json(path)
        if figures.get("checkpoint") == opened.step and figures.pop("weights", None) in same:
            found.append(figures)
    return found


def _arrays(path):
    """The bytes of a safetensors file behind its header, whose order is any."""
    content = path.read_bytes()
    return content[8 + int.from_bytes(content[:8], "little") :]


def _card(opened, name, *, precision, license, size, figures):
    config = opened.config
    trained = hasattr(opened.task, "predict") or hasattr(opened.task, "generate")  # to answer, not to go on from
    parts = ("train", "validation", "test") if trained else ("train", "validation")
    parts = {part: config.data[part] or "a part of the training data" for part in parts}
    return CARD.format(
        name=name,
        use=(ANSWERS if trained else START).format(name=name),
        license=license,
        model=config.model.name,
        task=config.task.name,
        version=lwt.__version__,
        count=trees.count(linear.merge(opened.weights)),
        size=size,
        precision=precision,
        data=_items(f"{part}: `{found}`" for part, found in parts.items()),
        figures=_items(_figure(name, row) for row in figures) or f"None yet: `python eval.py --workdir={name}`.",
        limits=_items(_limits(opened)),
    )


def _items(lines):
    return "\n".join(f"- {line}" for line in lines)


def _figure(name, row):
    """A line of the card: figures, and the command that measures them."""
    shown = {
        key: value for key, value in row.items() if isinstance(value, float) and "/" not in key and key != "seconds"
    }
    found = [f"{key} {value:.4g}" for key, value in shown.items()]
    decoding = f" ({row['decoding']})" if "decoding" in row else ""
    which = f"--{'data' if ':' in row['data'] else 'split'}={row['data']}"
    return f"{', '.join(found)} on {row['records']} records{decoding}: `python eval.py --workdir={name} {which}`"


def _limits(opened):
    """What the config says of the inputs that the model knows."""
    data = opened.config.data
    if data.kind == "images":
        yield (
            f"Images become {data.image_size} pixels wide and high." if data.image_size else "Images of one size only."
        )
    else:
        yield f"Known are texts of up to {data.max_tokens if data.kind == 'pairs' else data.row_length} tokens."
        yield "Texts are lowercased." if data.clean.lowercase else "Case matters."
    if opened.labels:
        yield f"Whatever it is asked, it answers with one of: {', '.join(opened.labels)}."
    yield "What the training data are biased towards, it is, too; nothing but the figures above was measured."


def main():
    """The program: writes the bundle, and prints what came of it."""
    values = flags.FLAGS
    opened = experiment.load(values.workdir, checkpoint=values.checkpoint)
    size = write(opened, values.out, precision=values.precision, block=values.block, license=values.license)
    command_line.report({"folder": values.out, "checkpoint": opened.step, "bytes": size})


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    flags.DEFINE_string("workdir", None, "Folder of a run.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
    flags.DEFINE_string("out", None, "Folder to write.")
    flags.DEFINE_enum("precision", "float32", [*bundle.FLOATS, bundle.INTEGERS], "Of the weights.")
    flags.DEFINE_integer("block", None, "Of int8: weights that share a scale; 0: row-wise. Default: the run's, or 64.")
    flags.DEFINE_string("license", "unknown", "Of the weights, for the card: an SPDX identifier such as apache-2.0.")
    command_line.run(main, required=["workdir", "out"])
