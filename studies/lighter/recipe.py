"""The recipe: a trained model made lighter by one method after the other, and what each of them cost and gained.

    python -m studies.lighter.recipe --teacher=runs/multi30k --recipe=translation --workdir=runs/recipe --out=recipe
    python -m studies.lighter.recipe --teacher=runs/snips --recipe=classification --adapt=folder:nlu \\
        --workdir=runs/recipe_snips --out=docs/results/recipe_snips

The stages are those of ``recipe()`` in ``--config``: layers, heads and hidden units go, and after each cut what is left
learns from the teacher; or a student that begins with nothing does. Then its weights become integers, and an adapter
teaches it another task. Every stage is a folder of the workdir, a run like any other, that starts from the one before.
The same command goes on where it stopped.

Quality is that on the teacher's test set, bytes and times are measured as `lwt/inspect/measuring.py` does it, all
models in turn on the machine at hand. Training is the seconds of the stage's own training, its evaluations included.
"""

import dataclasses
import math
import os
import pathlib

import jax
from absl import flags

from lwt import errors, trees
from lwt.compress import factorise, sparsify, structured
from lwt.export import quantize
from lwt.inspect import measuring
from lwt.layers import quantized_weight
from lwt.machine import command_line, hardware, latency
from lwt.reparam import quantize as rounding
from lwt.report import pages, plots, results, study
from lwt.runs import checkpoint, config_file, experiment

RECORD = os.path.join("eval", "recipe.json")
CUTS = {"structured": structured.prune, "factorise": factorise.factorise, "sparsify": sparsify.sparsify}


@dataclasses.dataclass(frozen=True)
class Made:
    """A stage that is done.

    Attributes:
        name: of the stage; "teacher" for what it starts from.
        opened: an `experiment.Experiment` with the weights that are measured.
        bytes: of the weights, or of their file.
        seconds: of its training; 0 for none.
        file: path of the integers, if they are what is measured.
    """

    name: str
    opened: experiment.Experiment
    bytes: int
    seconds: float = 0.0
    file: str = ""


def stages(path, kind, *, adapt=""):
    """The stages of ``recipe(kind, adapt)`` in the config file at `path`: ``[(name, what is done, its arguments)]``.

    Raises:
        lwt.errors.ConfigError: the file has no recipe, or none of that kind.
    """
    recipe = getattr(config_file.module(path), "recipe", None)
    if recipe is None:
        raise errors.ConfigError(f"--config={path} has no recipe(); configs/lightweight.py has one")
    try:
        return recipe(kind, adapt)
    except ValueError as error:
        raise errors.ConfigError(str(error)) from error


def run(chain, teacher, workdir, *, path, more=""):
    """Runs all stages, or goes on with them; returns what is done, the teacher first.

    Args:
        chain: from `stages`.
        teacher: folder of the run to start from.
        workdir: for the folders of the stages.
        path: of the config file that trains.
        more: arguments for all that is trained besides, such as "smoke=true".
    """
    whole = experiment.load(teacher)
    done, folder = [Made("teacher", whole, measuring.size(whole), _seconds(teacher))], None
    for name, what, arguments in chain:
        if what == "quantize":
            done.append(_quantized(name, folder or teacher, arguments))
            continue
        out = os.path.join(workdir, name)
        if what in CUTS:
            _cut(CUTS[what], folder or teacher, out, arguments)
            seconds = 0.0
        else:
            learning = {"teacher": teacher} if arguments["method"] == "distill" else {}
            start = {"base": folder} if folder else {}
            spec = study.spec_of(path, start | learning | arguments, more=more)
            seconds = study.run(study.Entry(name, arguments, spec), workdir, measure=_timed, record=RECORD)["seconds"]
        opened = experiment.load(out)
        size = trees.nbytes(opened.stored()[0]) if what == "adapt" else measuring.size(opened)
        done.append(Made(name, opened, size, seconds))
        folder = out
    return done


def _cut(cut, folder, out, arguments):
    """A stage that trains nothing; one that is there already is left alone, if it was made by the same."""
    kept = study.read_record(out, RECORD)
    if checkpoint.of_run(out).last_step() is None:
        study.write_record(out, {"arguments": arguments}, record=RECORD)  # first, lest one that is cut off be nobody's
        cut(experiment.load(folder), out, **arguments)
    elif not kept or kept["arguments"] != arguments:
        raise errors.ConfigError(f"{out} was made with {(kept or {}).get('arguments')}; give another --workdir")


def _quantized(name, folder, arguments):
    opened = experiment.load(folder)
    path = os.path.join(folder, "export", f"{name}.safetensors")
    size = quantize.export(opened, path, quantization=rounding.Quantize(**arguments))
    return Made(name, opened.with_file(path), size, file=path)


def _timed(entry, folder):
    del entry
    return {"seconds": study.seconds(folder)}


def _seconds(folder):
    """Of a run's training; 0 for one that was made of another."""
    return study.seconds(folder) if os.path.exists(os.path.join(folder, "metrics.jsonl")) else 0.0


def measure(done, *, rounds=7):
    """A row of figures for every stage: ``[{"name", "task", "metric", "quality", "bytes", ...}]``.

    Args:
        done: from `run`.
        rounds: turns of every model in the timing.
    """
    seconds = latency.of_runs({made.name: made.opened for made in done}, rows=measuring.ROWS, rounds=rounds)
    found = []
    for made in done:
        metric, _, quality = measuring.quality(made.opened, file=made.file)
        alone, together = seconds[made.name]
        found.append(
            {
                "name": made.name,
                "task": measuring.title(made.opened),
                "metric": metric,
                "quality": quality,
                "parameters": parameters(made.opened.weights),
                "bytes": made.bytes,
                "milliseconds": 1e3 * alone,
                "rate": measuring.ROWS / together,
                "seconds": made.seconds,
            }
        )
    return found


def parameters(weights):
    """How many numbers make the weights, those of factors, and integers without their scales."""
    leaves = jax.tree.leaves(weights, is_leaf=lambda w: isinstance(w, quantized_weight.Quantized))
    return sum(math.prod(leaf.shape) for leaf in leaves)


def rows_of(found, *, config, kind, command, machine):
    """Rows for ``results.json``."""
    rows = []
    for own in found:
        fixed = {
            "config": config,
            "overrides": {"recipe": kind, "stage": own["name"]},
            "seed": None,
            "split": own["task"],
            "paper": None,
            "hardware": machine,
            "seconds": own["seconds"],
            "command": command,
        }
        values = {key: own[key] for key in ("parameters", "bytes", "milliseconds", "rate")}
        rows += [
            fixed | {"metric": key, "value": value} for key, value in ({own["metric"]: own["quality"]} | values).items()
        ]
    return rows


def table(found):
    """The stages as Markdown, each beside the teacher."""
    first, body = found[0], []
    factor = 100 if first["metric"] in results.SHARES else 1
    for own in found:
        same = own["task"] == first["task"]
        gap = f"{factor * (own['quality'] - first['quality']):+.2f}" if same else own["task"]
        body.append(
            [
                own["name"],
                f"{factor * own['quality']:.2f}",
                "–" if own is first else gap,
                f"{own['parameters']:,}",
                f"{own['bytes']:,}",
                f"{own['bytes'] / first['bytes']:.1%}",
                f"{own['milliseconds']:.2f}",
                f"{own['rate']:,.0f}",
                f"{own['rate'] / first['rate']:.2f}",
                f"{own['seconds'] / 60:,.1f}",
            ]
        )
    header = [
        "stage",
        first["metric"],
        "to teacher",
        "parameters",
        "bytes",
        "share",
        "ms alone",
        "records/s",
        "speed-up",
    ]
    return results.markdown([*header, "training, min"], body)


def draw(found, path):
    """Quality over bytes and over the time of a record, from stage to stage; saves a PNG."""
    own = [row for row in found if row["task"] == found[0]["task"]]
    with plots.drawing(path, "", panels=2) as (_, axes):
        for place, key, label in zip(axes, ("bytes", "milliseconds"), ("bytes", "milliseconds of one record alone")):
            place.plot([row[key] for row in own], [row["quality"] for row in own], "o-", color=plots.COLORS[0])
            for row in own:
                place.annotate(
                    row["name"], (row[key], row["quality"]), xytext=(4, 4), textcoords="offset points", fontsize=8
                )
            place.margins(x=0.15, y=0.1)
            plots.log_x(place, label)
            place.set_ylabel(own[0]["metric"])


def write(out, found, *, config, kind, command, machine):
    """Writes README.md, results.json and recipe.png into the folder `out`; returns their names."""
    out = pathlib.Path(out)
    results.write(out / "results.json", rows_of(found, config=config, kind=kind, command=command, machine=machine))
    draw(found, out / "recipe.png")
    text = [
        f"# The recipe for {kind}",
        "",
        f"    {command}",
        "",
        f"On {machine}; quality on `{found[0]['task']}`. Bytes: of the weights in float32, of the file of integers, "
        f"and of an adapter what it stores. Records a second in batches of {measuring.ROWS}; all models took turns.",
        "",
        table(found),
        "![quality from stage to stage](recipe.png)",
        "",
    ]
    (out / "README.md").write_text("\n".join(text), encoding="utf-8")
    return ["README.md", "results.json", "recipe.png"]


def main():
    """The program."""
    values = flags.FLAGS
    chain = stages(values.config, values.recipe, adapt=values.adapt)
    done = run(chain, values.teacher, values.workdir, path=values.config, more=values.arguments)
    found = measure(done, rounds=values.rounds)
    about = dict(config=values.config, kind=values.recipe, command=pages.command_line(), machine=hardware.describe())
    names = write(values.out, found, **about)
    command_line.report({"page": os.path.join(values.out, names[0]), "stages": [row["name"] for row in found]})


if __name__ == "__main__":
    flags.DEFINE_string("config", "configs/lightweight.py", "A config file with a recipe().")
    flags.DEFINE_string("recipe", "translation", "translation or classification.")
    flags.DEFINE_string("teacher", None, "Workdir of the trained model.")
    flags.DEFINE_string("adapt", "", "Another training set, for an adapter on top: folder:NAME.")
    flags.DEFINE_string("workdir", None, "Folder of the stages.")
    flags.DEFINE_string("arguments", "", "More arguments of all that is trained: 'seed=1'.")
    flags.DEFINE_integer("rounds", 7, "Turns of every model in the timing.", lower_bound=1)
    flags.DEFINE_string("out", "docs/results/recipe", "Folder of the page.")
    command_line.run(main, required=["teacher", "workdir"])
