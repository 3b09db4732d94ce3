"""Runs the recipe: compresses a trained model with one method after another, and measures each stage.

    python -m studies.lighter.recipe --teacher=runs/multi30k --recipe=translation --workdir=runs/recipe --out=recipe
    python -m studies.lighter.recipe --teacher=runs/snips-0,runs/snips-1,runs/snips-2 --recipe=classification \\
        --adapt=folder:nlu --workdir=runs/recipe_snips --out=docs/results/recipe_snips

The stages come from ``recipe()`` in ``--config``: cuts of layers, heads and hidden units, each followed by distillation
from the teacher; or a student trained from scratch. Then the weights are quantized, and an adapter learns another task.
Every stage is an ordinary run folder in the workdir that starts from the stage before. The same command resumes an
unfinished recipe. With several teachers, the i-th (from 0) has its stages in ``WORKDIR/i``, trained with ``seed=i``.

Quality is measured on the teacher's test set, bytes and times as in `lwt/inspect/measuring.py`, all models in turn on
this machine. Training is the time of the stage's own training, evaluations included.
"""

import dataclasses
import math
import os
import statistics

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
from lwt.report import pages, records, study
from lwt.runs import checkpoint, config_file
from lwt.runs import experiment as experiments
from studies.lighter import recipe_page

RECORD = os.path.join("eval", "recipe.json")
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


def run_all(chain, teachers, workdir, *, path, more=""):
    """A list of `Made` for each of several teachers, see `run`; with more than one, the i-th trains with ``seed=i``."""
    if len(teachers) == 1:
        return [run(chain, teachers[0], workdir, path=path, more=more)]
    done = []
    for seed, teacher in enumerate(teachers):
        own = ",".join(filter(None, [more, f"seed={seed}"]))
        done.append(run(chain, teacher, os.path.join(workdir, str(seed)), path=path, more=own))
    return done


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


def measure(runs, *, rounds=7):
    """Measures every stage: ``[{"name", "task", "metric", "qualities", "bytes", ...}]``.

    Args:
        runs: from `run_all`; times are those of the first one's models.
        rounds: number of turns of every model in the timing.
    """
    seconds = latency.of_runs({made.name: made.experiment for made in runs[0]}, rows=measuring.ROWS, rounds=rounds)
    rows = []
    for same in zip(*runs, strict=True):
        made, found = same[0], [measuring.quality(one.experiment, file=one.file) for one in same]
        alone, together = seconds[made.name]
        rows.append(
            {
                "name": made.name,
                "task": measuring.title(made.experiment),
                "metric": found[0][0],
                "qualities": [quality for _, _, quality in found],
                "parameters": parameters(made.experiment.weights),
                "bytes": made.bytes,
                "milliseconds": 1e3 * alone,
                "rate": measuring.ROWS / together,
                "seconds": statistics.fmean(made.seconds for made in same),
            }
        )
    return rows


def parameters(weights):
    """The number of values in the weights; factors count as stored, integers without their scales."""
    leaves = jax.tree.leaves(weights, is_leaf=lambda w: isinstance(w, quantized_weight.Quantized))
    return sum(math.prod(leaf.shape) for leaf in leaves)


def main():
    """The program."""
    values = flags.FLAGS

    def measured():
        chain = stages(values.config, values.recipe, adapt=values.adapt)
        runs = run_all(chain, values.teacher, values.workdir, path=values.config, more=values.arguments)
        about = dict(config=values.config, kind=values.recipe, machine=hardware.describe())
        return about | {"stages": measure(runs, rounds=values.rounds), "command_line": pages.command_line()}

    facts = records.of_page(values.out, measured, report_only=values.report_only)
    names = recipe_page.write(values.out, **facts)
    command_line.report(
        {"page": os.path.join(values.out, names[0]), "stages": [own["name"] for own in facts["stages"]]}
    )


if __name__ == "__main__":
    flags.DEFINE_string("config", "configs/lightweight.py", "A config file with a recipe().")
    flags.DEFINE_string("recipe", "translation", "translation or classification.")
    flags.DEFINE_list("teacher", None, "Folder of the trained run; several, A,B,C, differ in their seed.")
    flags.DEFINE_string("adapt", "", "Training set of an adapter on top, KIND:NAME.")
    flags.DEFINE_string("workdir", None, "Folder of the stages.")
    flags.DEFINE_string("arguments", "", "Further config arguments of every training stage, such as 'seed=1'.")
    flags.DEFINE_integer("rounds", 7, "Number of turns of every model in the timing.", lower_bound=1)
    flags.DEFINE_string("out", "docs/results/recipe", "Folder of the page.")
    pages.define_report_only()
    command_line.run(main, required=["teacher", "workdir"])
