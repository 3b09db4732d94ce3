"""Runs the recipe: compresses a trained model with one method after another, and measures each stage.

    python -m studies.lighter.recipe --teacher=runs/multi30k --recipe=translation --workdir=runs/recipe --out=recipe
    python -m studies.lighter.recipe --teacher=runs/snips --recipe=classification --adapt=folder:nlu \\
        --workdir=runs/recipe_snips --out=docs/results/recipe_snips

The stages come from ``recipe()`` in ``--config``: cuts of layers, heads and hidden units, each followed by distillation
from the teacher; or a student trained from scratch. Then the weights are quantized, and an adapter learns another task.
Every stage is an ordinary run folder in the workdir that starts from the stage before. The same command resumes an
unfinished recipe.

Quality is measured on the teacher's test set, bytes and times as in `lwt/inspect/measuring.py`, all models in turn on
this machine. Training is the time of the stage's own training, evaluations included.
"""

import dataclasses
import math
import os

import jax
from absl import flags

import lwt
from lwt import errors, trees
from lwt.compress import factorise, sparsify, structured
from lwt.export import quantize
from lwt.inspect import measuring
from lwt.layers import quantized_weight
from lwt.machine import command_line, hardware, latency
from lwt.reparam.compression import quantize as rounding
from lwt.report import pages, plots, records, results, study
from lwt.runs import checkpoint, config_file
from lwt.runs import experiment as experiments

RECORD = os.path.join("eval", "recipe.json")
HOW_TO_READ = """\
A stage starts from the one above it, but a student starts from scratch (`studies/lighter/recipe.py`). Everything was
run once, with one seed. Quality is measured on `{task}`; "difference" is relative to the teacher, in points. Bytes are
those of the weights in float32, of the file of integers, or of what an adapter stores; "share" is their share of the
teacher's bytes. "ms" is the time of one record alone; records a second are counted in batches of {rows}, and "speed-up"
is their ratio to the teacher's. All models took turns on {machine}. "Training" is that of the stage itself, evaluations
included.
"""
TRANSLATORS = """\
The trained stages keep the checkpoint with the lowest validation loss. This rule was preferred to the highest
validation BLEU after two runs had been tested both ways, so the figures are not wholly untouched by the test sets. A
translation is decoded to its end, so a model that repeats itself is slow.
"""
CUTS = {"structured": structured.prune, "factorise": factorise.factorise, "sparsify": sparsify.sparsify}


@dataclasses.dataclass(frozen=True)
class Made:
    """A finished stage.

    Attributes:
        name: name of the stage; "teacher" for the run that the recipe starts from.
        experiment: the experiment with the measured weights.
        bytes: size of the weights, or of their file.
        seconds: training time; 0 without training.
        file: path of the quantized file, if the stage is one.
    """

    name: str
    experiment: experiments.Experiment
    bytes: int
    seconds: float = 0.0
    file: str = ""


def stages(path, kind, *, adapt=""):
    """The stages of ``recipe(kind, adapt)`` in the config file `path`: ``[(name, method, arguments)]``.

    Raises:
        lwt.errors.ConfigError: the file has no recipe, or none of this kind.
    """
    recipe = getattr(config_file.module(path), "recipe", None)
    if recipe is None:
        raise errors.ConfigError(f"--config={path} has no recipe(); configs/lightweight.py has one")
    try:
        return recipe(kind, adapt)
    except ValueError as error:
        raise errors.ConfigError(str(error)) from error


def run(chain, teacher, workdir, *, path, more=""):
    """Runs or resumes all stages; returns a `Made` for each, the teacher first.

    Args:
        chain: from `stages`.
        teacher: folder of the run to start from.
        workdir: folder of the stages.
        path: config file of the training stages.
        more: further arguments of every training stage, such as "smoke=true".
    """
    start = lwt.load(teacher)
    done, folder = [Made("teacher", start, measuring.size(start), _seconds(teacher))], None
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
            base = {"base": folder} if folder else {}
            spec = study.spec_of(path, base | learning | arguments, more=more)
            seconds = study.run(study.Entry(name, arguments, spec), workdir, measure=_timed, record=RECORD)["seconds"]
        experiment = lwt.load(out)
        size = trees.nbytes(experiment.stored()[0]) if what == "adapt" else measuring.size(experiment)
        done.append(Made(name, experiment, size, seconds))
        folder = out
    return done


def _cut(cut, folder, out, arguments):
    """Makes a stage without training, unless it exists with the same arguments, from the same run."""
    made, kept = {"arguments": arguments, "base": folder}, study.read_record(out, RECORD)
    if checkpoint.of_run(out).last_step() is None:
        study.write_record(out, made, record=RECORD)  # first, so that an interrupted cut is known
        cut(lwt.load(folder), out, **arguments)
    elif not kept or {"base": folder, **kept} != made:  # older records do not name the run
        kept = kept or {}
        raise errors.ConfigError(
            f"{out} was made from {kept.get('base', 'a run')} with {kept.get('arguments')}; give another --workdir"
        )


def _quantized(name, folder, arguments):
    experiment = lwt.load(folder)
    path = os.path.join(folder, "export", f"{name}.safetensors")
    size = quantize.export(experiment, path, quantization=rounding.Quantize(**arguments))
    return Made(name, experiment.with_file(path), size, file=path)


def _timed(entry, folder):
    del entry
    return {"seconds": study.seconds(folder)}


def _seconds(folder):
    """The training time of a run; 0 for a run derived from another."""
    return study.seconds(folder) if os.path.exists(os.path.join(folder, "metrics.jsonl")) else 0.0


def measure(done, *, rounds=7):
    """Measures every stage: ``[{"name", "task", "metric", "quality", "bytes", ...}]``.

    Args:
        done: from `run`.
        rounds: number of turns of every model in the timing.
    """
    seconds = latency.of_runs({made.name: made.experiment for made in done}, rows=measuring.ROWS, rounds=rounds)
    rows = []
    for made in done:
        metric, _, quality = measuring.quality(made.experiment, file=made.file)
        alone, together = seconds[made.name]
        rows.append(
            {
                "name": made.name,
                "task": measuring.title(made.experiment),
                "metric": metric,
                "quality": quality,
                "parameters": parameters(made.experiment.weights),
                "bytes": made.bytes,
                "milliseconds": 1e3 * alone,
                "rate": measuring.ROWS / together,
                "seconds": made.seconds,
            }
        )
    return rows


def parameters(weights):
    """The number of values in the weights; factors count as stored, integers without their scales."""
    leaves = jax.tree.leaves(weights, is_leaf=lambda w: isinstance(w, quantized_weight.Quantized))
    return sum(math.prod(leaf.shape) for leaf in leaves)


def rows_of(stages, *, config, kind, command_line, machine):
    """Rows for ``results.json``."""
    rows = []
    for own in stages:
        fixed = {
            "config": config,
            "overrides": {"recipe": kind, "stage": own["name"]},
            "seed": None,
            "split": own["task"],
            "paper": None,
            "hardware": machine,
            "seconds": own["seconds"],
            "command": command_line,
        }
        values = {key: own[key] for key in ("parameters", "bytes", "milliseconds", "rate")}
        rows += [
            fixed | {"metric": key, "value": value} for key, value in ({own["metric"]: own["quality"]} | values).items()
        ]
    return rows


def table(stages):
    """The Markdown table of the stages, each compared with the teacher."""
    first, body = stages[0], []
    factor = 100 if first["metric"] in results.SHARES else 1
    for own in stages:
        same = own["task"] == first["task"]
        gap = f"{factor * (own['quality'] - first['quality']):+z.2f}" if same else "–"
        body.append(
            [
                own["name"] if same else f"{own['name']}, on `{own['task']}`",
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
    header = ["stage", results.shown(first["metric"])[0], "difference", "parameters", "bytes", "share"]
    return results.markdown([*header, "ms", "records/s", "speed-up", "training, min"], body)


def draw(path, stages):
    """Draws quality, size and time of the stages on the teacher's task, one below the other."""
    own = [row for row in stages if row["task"] == stages[0]["task"]]
    label, factor = results.shown(own[0]["metric"])
    lines = {
        row["name"].replace("-", ", "): {
            "quality": factor * row["quality"],
            "size": row["bytes"] / 1e6,
            "time": row["milliseconds"],
        }
        for row in own
    }
    first, last = own[0], own[-1]
    share, change = last["bytes"] / first["bytes"], factor * (last["quality"] - first["quality"])
    points = f"{change:+z.1f} {'points' if factor == 100 else label}".replace("-", "−")
    title = f"{share:.0%} of the teacher's bytes, {points}, stage after stage"
    columns = {"quality": (label, 1), "size": ("size (MB)", 1), "time": ("time (ms)", 2)}
    plots.rows(lines, path, columns=columns, title=title, faded=[first["name"]])


def write(out, stages, *, config, kind, command_line, machine):
    """Writes README.md, results.json and recipe.png into the folder `out`; returns their names.

    Args:
        out: folder of the page.
        stages: from `measure`.
        config, kind: the config file with the recipe, and which of its recipes ran.
        machine: that measured.
    """
    page = pages.Page(out, f"The recipe for {kind}", command_line=command_line)
    page.rows(rows_of(stages, config=config, kind=kind, command_line=command_line, machine=machine))
    about = dict(task=stages[0]["task"], machine=machine, rows=measuring.ROWS)
    page.add(
        HOW_TO_READ.format(**about),
        TRANSLATORS if stages[0]["metric"] == "bleu" else "",
        "The adapter learns another task, so its figure stands alone." if stages[-1]["task"] != about["task"] else "",
        table(stages),
    )
    draw(page.picture("recipe.png", "quality from stage to stage"), stages)
    return page.write()


def main():
    """The program."""
    values = flags.FLAGS

    def measured():
        chain = stages(values.config, values.recipe, adapt=values.adapt)
        done = run(chain, values.teacher, values.workdir, path=values.config, more=values.arguments)
        about = dict(config=values.config, kind=values.recipe, machine=hardware.describe())
        return about | {"stages": measure(done, rounds=values.rounds), "command_line": pages.command_line()}

    facts = records.of_page(values.out, measured, report_only=values.report_only)
    names = write(values.out, **facts)
    command_line.report(
        {"page": os.path.join(values.out, names[0]), "stages": [own["name"] for own in facts["stages"]]}
    )


if __name__ == "__main__":
    flags.DEFINE_string("config", "configs/lightweight.py", "A config file with a recipe().")
    flags.DEFINE_string("recipe", "translation", "translation or classification.")
    flags.DEFINE_string("teacher", None, "Folder of the trained run.")
    flags.DEFINE_string("adapt", "", "Training set of an adapter on top, KIND:NAME.")
    flags.DEFINE_string("workdir", None, "Folder of the stages.")
    flags.DEFINE_string("arguments", "", "Further config arguments of every training stage, such as 'seed=1'.")
    flags.DEFINE_integer("rounds", 7, "Number of turns of every model in the timing.", lower_bound=1)
    flags.DEFINE_string("out", "docs/results/recipe", "Folder of the page.")
    pages.define_report_only()
    command_line.run(main, required=["teacher", "workdir"])
