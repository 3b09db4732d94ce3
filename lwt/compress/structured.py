"""Structured pruning: removes heads, hidden units or layers of a run, so that its arrays get smaller.

    python -m lwt.compress.structured --workdir=runs/mt --out=runs/mt-heads40 --heads=0.4
    python -m lwt.compress.structured --workdir=runs/mt --out=runs/mt-small --units=0.5 --layers=encoder/layer_3
    python train.py --config=configs/lightweight.py:base=runs/mt-heads40,epochs=2 --workdir=runs/mt-heads40-tuned

It removes the share of all heads (or units) with the lowest scores (`gates.py`), or of those in --modules. Decoding
gets faster where the decoder shrinks: --modules='decoder/.*'. The config's ``model.sizes`` holds the sizes of the
pruned modules, so the new run is an ordinary one. The user names the layers to remove; later layers move up. The last
line of output is one JSON object.
"""

import itertools
import re

from absl import flags

from lwt import errors, trees
from lwt.compress import gates, program
from lwt.layers import linear
from lwt.machine import command_line
from lwt.training import new_run

SCORES = ("gradient", "magnitude", "random")
LAYER = re.compile(r"(?P<stack>encoder/layer|decoder/layer|block)_(?P<index>\d+)(?P<rest>/.*)?")
COUNTS = {"encoder/layer": "encoder_layers", "decoder/layer": "decoder_layers", "block": "layers"}


def prune(experiment, out, *, heads=0.0, units=0.0, layers=(), modules=".*", scores="gradient", **options):
    """Writes the run `out` without some heads, units and layers; returns it and a dict that describes the change.

    Args:
        heads, units: shares to remove, in [0, 1], of those in the chosen modules.
        modules: regular expression for whole names of modules that may lose some, such as "decoder/.*".
        layers: names of layers to remove, such as "encoder/layer_3".
        scores: one of `SCORES`.
        options: of `scores_of`.

    Raises:
        lwt.errors.ConfigError: there is nothing to remove; the model has no such parts; a share or a layer is wrong.
    """
    shares = {kind: share for kind, share in (("heads", heads), ("units", units)) if share}
    if not shares and not layers:
        raise errors.ConfigError("nothing to remove: give --heads, --units or --layers")
    weights, model = linear.merge(experiment.weights), {}
    sizes = dict(getattr(experiment.model, "sizes", None) or {})
    done = {"method": "structured", "scores": scores, "parameters_before": trees.count(weights)}
    for kind, share in shares.items():
        if not 0 <= share <= 1:
            raise errors.ConfigError(f"--{kind}={share} must be in [0, 1]")
        found = scores_of(experiment, kind, which=scores, **options)
        keep = gates.drop_least({name: found[name] for name in trees.matching(found, modules, what="--modules")}, share)
        of, count = sum(map(len, found.values())), sum(int((~kept).sum()) for kept in keep.values())
        if not count or (count == of and modules == ".*"):  # those of named modules may all go
            raise errors.ConfigError(f"--{kind}={share:g} is a share: it would remove {count:,} of all {of:,} {kind}")
        weights, left = gates.removed(weights, keep, kind=kind)
        sizes |= left
        done[kind] = {"left": sum(left.values()), "before": sum(map(len, keep.values()))}
    if layers:
        weights, sizes, model = without_layers(weights, layers, sizes=sizes)
        done["layers"] = list(layers)
    if sizes or "sizes" in experiment.config.model:
        model["sizes"] = sizes
    done |= {"parameters": trees.count(weights), "sizes": sizes}
    return new_run.write(experiment, out, weights=weights, model=model, how=done), done


def scores_of(experiment, kind, *, which, data="", examples=0, normalise=False, seed=0):
    """Scores of heads or units, ``{module: [heads]}``.

    Args:
        which: "gradient" (`gates.scores`), "magnitude" or "random".
        data, examples: of the gradients; see `Experiment.batches`.
        normalise: whether gradient scores get an L2 norm of 1 in every module.
    """
    if which == "gradient":
        found = gates.scores(experiment, kind, batches=experiment.batches(data, limit=examples))
        return gates.normalised(found) if normalise else found
    return gates.magnitudes(experiment, kind) if which == "magnitude" else gates.random(experiment, kind, seed=seed)


def without_layers(weights, layers, *, sizes):
    """``(weights, sizes, model)`` without some layers; `model` has the new numbers of layers.

    Raises:
        lwt.errors.ConfigError: there is no such layer, or a stack would lose all its layers.
    """
    found = {}  # stack -> index -> name
    for match in filter(None, map(LAYER.match, weights)):
        found.setdefault(match["stack"], {})[int(match["index"])] = f"{match['stack']}_{match['index']}"
    every = [name for stack in found.values() for name in stack.values()]
    for layer in layers:
        if layer not in every:
            raise errors.ConfigError(f"--layers={layer}: the model has no such layer; {errors.suggest(layer, every)}")
    renamed, model = {}, {}
    for stack, names in found.items():
        kept = [name for _, name in sorted(names.items()) if name not in layers]
        if not kept:
            raise errors.ConfigError(f"--layers={','.join(layers)} removes every layer of {stack}")
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


def main(experiment, values):
    """Prunes as the flags say."""
    keys = ("heads", "units", "layers", "modules", "scores", "data", "examples", "normalise", "seed")
    return prune(experiment, values.out, **{key: getattr(values, key) for key in keys})[1]


if __name__ == "__main__":
    flags.DEFINE_float("heads", 0.0, "Share of all heads to remove.", lower_bound=0, upper_bound=1)
    flags.DEFINE_float("units", 0.0, "Share of all hidden units to remove.", lower_bound=0, upper_bound=1)
    flags.DEFINE_list("layers", [], "Layers to remove, such as encoder/layer_3, separated by commas.")
    command_line.define_regex("modules", ".*", help="Regular expression for the modules that may lose heads and units.")
    flags.DEFINE_enum("scores", "gradient", SCORES, "What ranks heads and units.")
    flags.DEFINE_string("data", "", "Data set of the gradients, KIND:NAME@SPLIT; default: the validation set.")
    flags.DEFINE_integer("examples", 0, "Number of its records to use; 0: all.", lower_bound=0)
    flags.DEFINE_boolean("normalise", False, "Scale gradient scores to an L2 norm of 1 in every module.")
    flags.DEFINE_integer("seed", 0, "Seed of random scores.", lower_bound=0)
    program.run(main)
