"""An exported folder against the run that it came from, on the run's test set.

    python -m lwt.export.c.check --workdir=runs/snips --folder=firmware
    python -m lwt.export.c.check --workdir=runs/snips --folder=firmware --emulated=200

The last line is JSON: the accuracy in percent of the model with the exported integers as `eval.py` finds it, of the
same in JAX with its states rounded as the program's are, and of the program on this machine; on how many texts the last
two agree; and on how many of the first ones the emulated Cortex-M4F agrees with the program.
"""

import pathlib
import subprocess

import numpy as np
from absl import flags

from lwt import errors
from lwt.export import folders
from lwt.export.c import emulator, export, reference, toolchain, weights
from lwt.machine import command_line
from lwt.runs import experiment


def check(opened, folder, *, data="", emulated=0):
    """Compares the answers of a classifier of single texts.

    Args:
        opened: an `experiment.Experiment`.
        folder: the exported folder.
        data: a data set ``KIND:NAME@SPLIT``; "" is the run's test set.
        emulated: so many texts are given to the emulated device, too.

    Raises:
        lwt.errors.ConfigError: there are no classes; or a compiler or the emulator is missing.
    """
    if not opened.labels:
        raise errors.ConfigError("the run predicts a number; only classes are compared")
    folder, integers = pathlib.Path(folder), weights.of(opened)[0]
    stored = opened.with_weights(integers, name="int8", step=opened.step)
    _, sources, scores, references = stored.evaluate(data)
    texts = [" ".join(source.replace("\0", " ").split()) for source in sources]
    activations = folders.read_json(folder / export.REPORT)["activations"]
    pairs = [(text,) for text in texts]
    wanted = reference.logits(opened, integers, pairs, activations=activations).argmax(1)
    found = answers(folder, texts, opened.labels)
    figures = {
        "texts": len(texts),
        "eval_accuracy": _percent(np.asarray(scores).argmax(1) == references),
        "model_accuracy": _percent(wanted == references),
        "program_accuracy": _percent(found == references),
        "agree": int((found == wanted).sum()),
    }
    if emulated:
        board = emulator.Board(toolchain.read(toolchain.firmware(folder)), outputs=len(opened.labels))
        device = np.array([board.classify(text)[0] for text in texts[:emulated]])
        figures |= {"emulated": len(device), "emulated_agree": int((device == found[:emulated]).sum())}
    return figures


def answers(folder, texts, labels):
    """The classes of texts without line breaks, by the program for this machine."""
    done = subprocess.run([toolchain.program(folder)], input="\n".join([*texts, ""]).encode(), stdout=-1, check=True)
    return np.array([labels.index(line.split("\t")[0]) for line in done.stdout.decode().splitlines()])


def _percent(right):
    return round(100 * float(np.mean(right)), 4)


def main():
    """The program: prints the figures."""
    values = flags.FLAGS
    opened = experiment.load(values.workdir, checkpoint=values.checkpoint)
    command_line.report(check(opened, values.folder, data=values.data, emulated=values.emulated))


if __name__ == "__main__":  # flags belong to the program
    flags.DEFINE_string("workdir", None, "Folder of a run.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step: the one that was exported.")
    flags.DEFINE_string("folder", None, "The exported folder.")
    flags.DEFINE_string("data", "", "A data set KIND:NAME@SPLIT; default: the run's test set.")
    flags.DEFINE_integer("emulated", 0, "Texts that the emulated device is given, too.")
    command_line.run(main, required=["workdir", "folder"])
