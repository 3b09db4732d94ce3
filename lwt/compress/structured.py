"""Structured pruning: a run with fewer heads, hidden units or layers than another, whose arrays are smaller for real.

    python -m lwt.compress.structured --workdir=runs/mt --out=runs/mt-heads40 --heads=0.4
    python -m lwt.compress.structured --workdir=runs/mt --out=runs/mt-small --units=0.5 --layers=encoder/layer_3
    python train.py --config=configs/lightweight.py:base=runs/mt-heads40,epochs=2 --workdir=runs/mt-heads40-tuned

Of all heads (or units) of the model together, or of those in --modules, the share with the lowest scores goes; see
`gates.py`. Decoding gets faster by what the decoder loses: --modules='decoder/.*'. What is left of a module is in the
config's ``model.sizes``, so that the new run is an ordinary one. Layers are named by the user; those behind a removed
one move up. The last line is one JSON object.
"""

import itertools
import re

from absl import flags

from lwt import errors, trees
from lwt.compress import gates
from lwt.layers import linear
from lwt.machine import command_line
from lwt.training import experiment, new_run

SCORES = ("gradient", "magnitude", "random")
LAYER = re.compile(r"(?P<stack>encoder/layer|decoder/layer|block)_(?P<index>\d+)(?P<rest>/.*)?")
COUNTS = {"encoder/layer": "encoder_layers", "decoder/layer": "decoder_layers", "block": "layers"}


def prune(opened, out, *, heads=0.0, units=0.0, layers=(), modules=".*", scores="gradient", **options):
    """Writes the run `out` without those heads, units and layers; returns it, opened, and what was done.

    Args:
        opened: an `experiment.Experiment`.
        out: a new folder.
        heads, units: shares that go, in [0, 1], of those of the chosen modules.
        modules: regular expression for whole names of modules that may lose some, such as "decoder/.*".
        layers: names of layers that go, such as "encoder/layer_3".
        scores: "gradient" (`gates.scores`), "magnitude" or "random".
        options: of `scores_of`.

    Raises:
        lwt.errors.ConfigError: nothing is to go; the model has no such parts; a share or a layer is wrong.
    """
    shares = {kind: share for kind, share in (("heads", heads), ("units", units)) if share}
    if not shares and not layers:
        raise errors.ConfigError("nothing is to go: give --heads, --units or --layers")
    weights, model = linear.merge(opened.weights), {}
    sizes = dict(getattr(opened.model, "sizes", None) or {})
    done = {"method": "structured", "scores": scores, "parameters_before": trees.count(weights)}
    for kind, share in shares.items():
        if not 0 <= share <= 1:
            raise errors.ConfigError(f"--{kind}={share} should be a share in [0, 1]")
        found = scores_of(opened, kind, scores, **options)
        keep = gates.least({name: found[name] for name in trees.matching(found, modules, what="--modules")}, share)
        weights, left = gates.removed(weights, keep, kind)
        sizes |= left
        done[kind] = {"left": sum(left.values()), "before": sum(map(len, keep.values()))}
    if layers:
        weights, sizes, model = without_layers(weights, sizes, layers)
        done["layers"] = list(layers)
    if sizes or "sizes" in opened.config.model:
        model["sizes"] = sizes
    done |= {"parameters": trees.count(weights), "sizes": sizes}
    return new_run.write(opened, out, weights=weights, model=model, how=done), done


def scores_of(opened, kind, which, *, data="", examples=0, normalise=False, seed=0):
    """``{module: [heads]}`` by the name of the scores.

    Args:
        kind: "heads" or "units".
        which: of `SCORES`.
        data: where gradients are taken from; "" for the run's validation set.
        examples: so many of its records; 0: all.
        normalise: whether their scores get an L2 norm of 1 in every module.
        seed: of random scores.
    """
    if which == "gradient":
        found = gates.scores(opened, kind, opened.batches(data, limit=examples))
        return gates.normalised(found) if normalise else found
    return gates.magnitudes(opened, kind) if which == "magnitude" else gates.random(opened, kind, seed=seed)


def without_layers(weights, sizes, layers):
    """``(weights, sizes, model)`` without layers, the others in their old order; `model` counts them, by config key.

    Raises:
        lwt.errors.ConfigError: there is no such layer, or none is left of a stack.
    """
    found = {}  # stack -> index -> name
    for match in filter(None, map(LAYER.match, weights)):
        found.setdefault(match["stack"], {})[int(match["index"])] = f"{match['stack']}_{match['index']}"
    every = [name for stack in found.values() for name in stack.values()]
    for layer in layers:
        if layer not in every:
            raise errors.ConfigError(f"--layers={layer}: there is no such layer; {errors.suggest(layer, every)}")
    renamed, model = {}, {}
    for stack, names in found.items():
        kept = [name for _, name in sorted(names.items()) if name not in layers]
        if not kept:
            raise errors.ConfigError(f"--layers={','.join(layers)}: no layer of {stack} would be left")
        renamed |= dict(zip(kept, map(f"{stack}_{{}}".format, itertools.count())))
        if len(kept) < len(names):
            model[COUNTS[stack]] = len(kept)

    def new_names(flat):
        matches = {name: LAYER.match(name) for name in flat}
        old = {name: match and f"{match['stack']}_{match['index']}" for name, match in matches.items()}
        kept = {name: value for name, value in flat.items() if old[name] not in layers}
        return {
            renamed[old[name]] + matches[name]["rest"] if old[name] else name: value for name, value in kept.items()
        }

    return new_names(weights), new_names(sizes), model


def main():
    """The program: writes the run, and prints what is left."""
    values = flags.FLAGS
    opened = experiment.load(values.workdir, checkpoint=values.checkpoint)
    keys = ("heads", "units", "layers", "modules", "scores", "data", "examples", "normalise", "seed")
    given = {key: getattr(values, key) for key in keys}
    _, done = prune(opened, values.out, **given)
    command_line.report({"workdir": values.out, **done})


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "Folder of a run.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
    flags.DEFINE_string("out", None, "Folder of the new run.")
    flags.DEFINE_float("heads", 0.0, "Share of all heads that goes.")
    flags.DEFINE_float("units", 0.0, "Share of all hidden units that goes.")
    flags.DEFINE_list("layers", [], "Layers that go, such as encoder/layer_3, separated by commas.")
    flags.DEFINE_string("modules", ".*", "Regular expression for the modules that may lose heads and units.")
    flags.DEFINE_enum("scores", "gradient", SCORES, "What heads and units are ranked by.")
    flags.DEFINE_string("data", "", "Of the gradients, KIND:NAME@SPLIT; default: the validation set.")
    flags.DEFINE_integer("examples", 0, "So many of its records; 0: all.")
    flags.DEFINE_boolean("normalise", False, "Rank by gradients with an L2 norm of 1 in every module.")
    flags.DEFINE_integer("seed", 0, "Of random scores.")
    command_line.run(main, required=["workdir", "out"])
