"""Compares an exported folder with the run it was made from, on the run's test set.

    python -m lwt.export.c.check --workdir=runs/snips --folder=firmware
    python -m lwt.export.c.check --workdir=runs/snips --folder=firmware --emulated=200
    python -m lwt.export.c.check --workdir=runs/embbert --adapter=topic=runs/topic --folder=firmware

The last line is JSON. For a classifier, it has three accuracies in percent: of the model with the exported integers, as
`eval.py` measures it; of the same in JAX with states rounded like the program's; and of the program on this machine. It
also has the number of texts on which the last two agree, and on which the emulated Cortex-M4F agrees with the program.
With many tasks, there are such figures for each. For a translator, see `lwt/export/c/translation/compare.py`.
"""

import pathlib

import numpy as np
from absl import flags

from lwt import errors, files
from lwt.export.c import emulator, export, literals, reference, tasks, toolchain, weights
from lwt.export.c.translation import compare
from lwt.machine import command_line
from lwt.models import seq2seq


def check(source, folder, *, data="", records=0, emulated=0, many=None):
    """Compares the answers of a classifier of single texts, or of a translator; returns the figures.

    Args:
        source: an `experiment.Experiment`.
        folder: the exported folder.
        data: a data set ``KIND:NAME@SPLIT``; "": the run's test set.
        records: the number of texts to draw from the set; 0: all.
        emulated: number of texts to run on the emulated device too.
        many: the `tasks.Tasks` on `source` that were exported; the figures are then ``{task: figures}``.

    Raises:
        lwt.errors.ConfigError: the run has no classes, or reads two texts; the folder is of another run; or a compiler
            or the emulator is missing.
    """
    folder = pathlib.Path(folder)
    report = files.load_json(folder / export.REPORT)
    activations = report.get("activations")
    if activations not in export.ACTIVATIONS or "prefix" not in report:
        raise errors.ConfigError(f"{folder / export.REPORT} does not name the type of the states; export the run again")
    if isinstance(source.model, seq2seq.Seq2Seq):
        return compare.compare(source, folder, report=report, data=data, records=records, emulated=emulated)
    if reference.sides(many.largest if many else source) == 2:
        raise errors.ConfigError("the run reads two texts in a record; the comparison is of single texts")
    names, there = [task.name for task in many.tasks] if many else [], [*report.get("tasks", ())]
    if names != there:
        raise errors.ConfigError(f"{folder} has the tasks {there}, and --adapter gives {names}")
    options = {"activations": activations, "data": data, "records": records}
    if not many:
        return _figures(source, weights.of(source)[0], folder, board=_board(folder, report, emulated), **options)
    found = {}
    for i, task in enumerate(many.tasks):
        board = _board(folder, report, emulated, offset=i * many.slot_bytes)
        found[task.name] = _figures(task.experiment, task.weights, folder, task=task.name, board=board, **options)
    return found


def _board(folder, report, count, offset=None):
    """``(an emulated device, number of texts for it)``; its task is that of the slot at `offset`."""
    if not count:
        return None, 0
    classes = [row["classes"] for row in report["tasks"].values()] if "tasks" in report else [report["classes"]]
    elf = toolchain.read(toolchain.firmware(folder)[0])
    board = emulator.Board(elf, outputs=max(map(len, classes)), prefix=report["prefix"])
    if offset is not None:
        board.select(offset)
    return board, count


def _figures(source, integers, folder, *, activations, data, records, board, task=""):
    if not source.labels:
        raise errors.ConfigError("the run predicts a number; it must predict classes")
    stored = source.with_weights(integers, name="int8", step=source.step)
    _, raw, scores, references = stored.evaluate(data, limit=records)
    texts = [literals.one_line(text) for text in raw]
    sides = [(text,) for text in texts]
    wanted = reference.logits(source, integers, records=sides, activations=activations).argmax(1)
    found = answers(folder, texts, labels=[*map(literals.one_line, source.labels)], task=task)
    figures = {
        "texts": len(texts),
        "eval_accuracy": _percent(np.asarray(scores).argmax(1) == references),
        "model_accuracy": _percent(wanted == references),
        "program_accuracy": _percent(found == references),
        "agree": int((found == wanted).sum()),
    }
    board, count = board
    if board:
        device = np.array([board.classify(text)[0] for text in texts[:count]])
        figures |= {"emulated": len(device), "emulated_agree": int((device == found[:count]).sum())}
    return figures


def answers(folder, texts, *, labels, task=""):
    """The classes that the program for this machine gives to texts without line breaks, as indices into `labels`;
    `task` is the one to select of many.

    Raises:
        lwt.errors.ConfigError: the program fails, or answers with other labels.
    """
    printed = toolchain.answers(toolchain.program(folder), texts, *filter(None, [task]))
    found = [line.split("\t")[0] for line in printed]
    other = next((label for label in found if label not in labels), None)
    if other is not None:
        raise errors.ConfigError(f"{folder} answers {other!r}, which is not a label of the run; export the run again")
    return np.array([labels.index(label) for label in found])


def _percent(right):
    return round(100 * float(np.mean(right)), 4)


def main():
    """The program: prints the figures."""
    values = flags.FLAGS
    source = tasks.open_run()
    options = {"data": values.data, "records": values.records, "emulated": values.emulated}
    command_line.report(check(source, values.folder, many=tasks.of_flags(source), **options))


if __name__ == "__main__":  # flags belong to the program
    command_line.define_run()
    flags.DEFINE_string("folder", None, "Exported folder.")
    tasks.define_flags()
    flags.DEFINE_string("data", "", "Data set KIND:NAME@SPLIT; default: the run's test set.")
    flags.DEFINE_integer("records", 0, "Number of texts to draw from it; 0: all.", lower_bound=0)
    flags.DEFINE_integer("emulated", 0, "Number of texts to run on the emulated device too.", lower_bound=0)
    command_line.run(main, required=["workdir", "folder"])
