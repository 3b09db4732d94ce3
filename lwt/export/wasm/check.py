"""Compares the WebAssembly in Node with the program in C on the run's test set.

    python -m lwt.export.wasm.check --workdir=runs/snips --folder=browser
    python -m lwt.export.wasm.check --workdir=pretrained/multi30k-small --weights=int4.safetensors --folder=translator
    python -m lwt.export.wasm.check --workdir=runs/embbert --adapter=topic=runs/topic --folder=browser

The last line is JSON: the number of texts; how many answers are equal, which are a translation, or a label and the bits
of all logits; and the milliseconds of a text in Node, the median and those of the slowest text. With many tasks, there
are such figures for each.
"""

import copy
import dataclasses
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

import numpy as np
from absl import flags

from lwt import errors
from lwt.export.c import export as engine
from lwt.export.c import literals, tasks, toolchain
from lwt.machine import command_line

SCRIPT = """
import {{ readFileSync }} from "node:fs";
import {{ load }} from "{url}";
const model = await load();
const given = JSON.parse(readFileSync(0, "utf8"));
function timed(call) {{
  const start = performance.now();
  const answer = call();
  return {{ ...answer, milliseconds: performance.now() - start }};
}}
console.log(JSON.stringify({expression}, (_, value) => ArrayBuffer.isView(value) ? [...value] : value));
"""
ANSWERS = "(model.select?.({task}), given.map((text) => timed(() => model.{call}(text))))"


def node(folder, expression, *, given=()):
    """The value of an expression in JavaScript, as JSON has it.

    Args:
        folder: a `pathlib.Path`, the exported folder.
        expression: reads `model` and `given`; ``timed(function)`` adds milliseconds to an answer.
        given: what JSON can hold.

    Raises:
        lwt.errors.ConfigError: Node is missing, or the expression fails; with Node's message.
    """
    if not shutil.which("node"):
        raise errors.ConfigError("node is not installed: apt install nodejs")
    script = SCRIPT.format(url=(folder / "model.js").absolute().as_uri(), expression=expression)
    command = ["node", "--input-type=module", "--eval", script]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True)
    if done.returncode:
        said = re.search(r"\w*Error: .*", done.stderr) or re.search(r"(?s).*", done.stderr)
        raise errors.ConfigError(f"node fails with {folder}/model.js: {said[0].strip()[-2000:]}")
    return json.loads(done.stdout)


def check(source, folder, *, data="", records=0, many=None):
    """Compares an exported folder with the program in C, which is built anew; returns the figures.

    Args:
        source: an `experiment.Experiment` of single texts.
        folder: a `pathlib.Path`.
        data: a data set ``KIND:NAME@SPLIT``; "": the run's test set.
        records: the number of texts to draw from the set; 0: all.
        many: the `tasks.Tasks` on `source` that were exported; the figures are then ``{task: figures}``.

    Raises:
        lwt.errors.ConfigError: the run reads two texts; the folder is of another run; or Node or a compiler is missing.
    """
    if len(engine.texts_of(many.largest if many else source, ())) == 2:
        raise errors.ConfigError("the run reads two texts in a record; the comparison is of single texts")
    about = "[model.states, model.fingerprint, model.beams, model.tasks ?? []]"
    states, fingerprint, beams, there = node(folder, about)
    members = {task.name: task.experiment for task in many.tasks} if many else {}
    if [*members] != there:
        raise errors.ConfigError(f"{folder} has the tasks {there}, and --adapter gives {[*members]}")
    if beams:
        source = copy.copy(source)
        source.task = dataclasses.replace(source.task, beams=beams)
    with tempfile.TemporaryDirectory() as place:
        program = engine.write(source, pathlib.Path(place), activations=states, many=many)
        command = toolchain.program(pathlib.Path(place), program.name)
        if f"0x{fingerprint}u" not in (pathlib.Path(place) / "src/lwt.c").read_text():
            raise errors.ConfigError(f"{folder} has other weights or another vocabulary than the run; export it again")
        options = {"command": command, "call": program.name, "data": data, "records": records}
        if many:
            return {name: _figures(member, folder, task=name, **options) for name, member in members.items()}
        return _figures(source, folder, **options)


def _figures(source, folder, *, command, call, data, records, task=""):
    sources = source.data.evaluation(data or source.data.test, limit=records).sources
    texts = [literals.one_line(text) for text in sources]
    printed = toolchain.answers(command, texts, *filter(None, [task]))
    found = node(folder, ANSWERS.format(call=call, task=json.dumps(task)), given=texts)
    times = [answer["milliseconds"] for answer in found]
    return {
        "texts": len(texts),
        "equal": sum(map(equal, found, printed)),
        "milliseconds": round(statistics.median(times), 2),
        "slowest": round(max(times), 2),
    }


def equal(answer, line):
    """Whether an answer in JavaScript, as JSON has it, is the line that the program in C prints."""
    if "text" in answer:
        return answer["text"] == line
    label, numbers = ([answer["label"]], answer["logits"]) if "label" in answer else ([], [answer["value"]])
    *printed, logits = line.split("\t", len(label))
    wanted = [float(number) for number in logits.split("\t")]
    return label == printed and np.float32(numbers).tobytes() == np.float32(wanted).tobytes()


def main():
    """The program: prints the figures."""
    values = flags.FLAGS
    source = tasks.open_run()
    many = tasks.of_flags(source)
    command_line.report(check(source, pathlib.Path(values.folder), data=values.data, records=values.records, many=many))


if __name__ == "__main__":  # flags belong to the program
    command_line.define_run()
    flags.DEFINE_string("folder", None, "Exported folder.")
    tasks.define_flags()
    flags.DEFINE_string("data", "", "Data set KIND:NAME@SPLIT; default: the run's test set.")
    flags.DEFINE_integer("records", 0, "Number of texts to draw from it; 0: all.", lower_bound=0)
    command_line.run(main, required=["workdir", "folder"])
