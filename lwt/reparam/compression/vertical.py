"""Vertical LoRA: a layer's weights are those of the previous layer plus a low-rank increment."""

import collections
import dataclasses
import itertools

import jax
import jax.numpy as jnp

from lwt import errors
from lwt.layers import linear
from lwt.reparam.parts import stacks, targets

MODES = ("recursive", "base", "lors")
EMPTY = 1e-6  # entries of a factor that hold nothing but rounding
STARTS = ("kaiming", "zero", "svd", "average")
FUSED = ("query", "key", "value")


@dataclasses.dataclass(frozen=True)
class Increment:
    """The increment of one pair of leaves ``NAME/a``, ``NAME/b``.

    Attributes:
        name: NAME: the weight's own name, or ``.../query_key_value/kernel`` for three weights that share their `a`.
        weights: names of the weights it forms, side by side along the outputs.
        onto: names of the weights it adds to, in the same order.
    """

    name: str
    weights: tuple
    onto: tuple


@dataclasses.dataclass(frozen=True)
class Vertical:
    """Chunks of one full base layer and layers of increments ("Vertical LoRA", section 3.2).

    A stack is a row of layers ``STACK_0/..., STACK_1/...``, cut into `chunks` of equal length. The first layer of a
    chunk holds arrays; the others add products ``a @ b``, with `a` `[in r]` and `b` `[r out]`, to

    "recursive"  the previous layer: ``W_l = W_{l-1} + s · a_l b_l`` (equation 13; its sum is equation 14)
    "base"       the chunk's first layer: ``W_l = stop_gradient(W_0) + s · a_l b_l``, as in the authors' code
    "lors"       a weight that all layers of the chunk share, the first included (Li et al. 2024, arXiv 2403.04303,
                 equations 3 and 4; their K products of rank r are one of rank K·r); it is stored under the first
                 layer's name

    Each layer has its own biases, norms and other weights outside the targets. Weights that increments replace are not
    stored. Where the gradient flows on to the weights below, a layer's weight is formed as an array, which costs less
    than two thin products with all activations. Where it stops, the weight is a `linear.LowRank`.

    Attributes:
        chunks: k, of every stack; must divide its number of layers.
        rank: r.
        mode: "recursive", "base" or "lors".
        stop_gradient: whether to stop the gradient at the weight that an increment adds to; None follows the mode: only
            "base" stops it.
        start: "kaiming" for both factors, as in the code (Kaiming-uniform with slope √5); "zero" for `b`, so that all
            layers of a chunk start alike (LORS); "svd": the best increments of this rank for the weights of the full
            model that the run starts from, each given those below (Eckart and Young 1936); "average", for "lors":
            the same, and the shared weight is the mean of the chunk's layers (Bae et al. 2024, "Relaxed Recursive
            Transformers").
        scale: s.
        targets: which matrices of layers get increments, see `targets.matching`.
        rank_pattern: ``((regex, rank), ...)``; the first match with a pair's name replaces `rank`.
        fused: regular expression for attentions whose query, key and value share one `a`, like one kernel with all
            three outputs (they read the same input); "" for none.
    """

    chunks: int = 1
    rank: int = 4
    mode: str = "recursive"
    stop_gradient: bool | None = None
    start: str = "kaiming"
    scale: float = 1.0
    targets: str | tuple[str, ...] = stacks.MATRICES
    rank_pattern: tuple = ()
    fused: str | tuple[str, ...] = r"(?!.*cross_)(.*/)?\w*attention"

    identity_at_start = False

    def __post_init__(self):
        targets.check(self, mode=MODES, start=STARTS)
        if self.start == "average" and self.mode != "lors":
            raise errors.ConfigError(f"reparam.start='average' needs reparam.mode='lors', not {self.mode!r}")

    def init(self, key, base):
        """The leaves ``NAME/a`` `[in r]` and ``NAME/b`` `[r out]` of every increment; `base` is the full model."""
        plan = self._checked_plan(base)
        targets.check_used(self.rank_pattern, [i.name for i in plan], key="reparam.rank_pattern")
        if self.start in ("svd", "average"):
            return self._fitted(key, plan, base)
        adapter = {}
        for i, increment in enumerate(plan):
            (n_in, n_out), rank = _shape(base, increment.onto), self._rank(increment.name)
            targets.check_size(rank, increment.name, shape=(n_in, n_out))
            key_a, key_b = jax.random.split(jax.random.fold_in(key, i))
            b = jnp.zeros((rank, n_out))
            if self.start == "kaiming":
                b = targets.kaiming_uniform(key_b, (rank, n_out), fan_in=n_out)
            a = targets.kaiming_uniform(key_a, (n_in, rank), fan_in=n_in)
            adapter |= {f"{increment.name}/a": a, f"{increment.name}/b": b}
        return adapter

    def stored(self, base):
        """The weights of the full model that are stored beside the increments."""
        plan = self._checked_plan(base)
        made = {name for i in plan for name in i.weights if name not in i.onto}
        return {name: w for name, w in self._shared(plan, base).items() if name not in made}

    def expand(self, base, adapter, step, *, key=None):
        """The weights of the full model, from the stored ones and the increments."""
        del step, key
        names = targets.factorised(adapter)
        weights = dict(base)
        for i in self.plan([*base, *(name for pair in names for name in self._members(pair))]):
            a, b = adapter[f"{i.name}/a"], adapter[f"{i.name}/b"]
            parts = jnp.split(b, self._cuts(weights, i.onto), axis=1)
            below = [base[n] if self.mode != "recursive" else weights[n] for n in i.onto]
            weights |= {name: self._sum(w, a, part) for name, w, part in zip(i.weights, below, parts, strict=True)}
        return weights

    def labels(self, adapter):
        """``{leaf: "a" or "b"}``."""
        return {leaf: targets.label(leaf) for leaf in adapter}

    def plan(self, names):
        """The increments of the full model whose weights have these `names`, lower layers first.

        Raises:
            lwt.errors.ConfigError: a target is outside the layers; `chunks` does not divide the layers of a stack; a
                layer has a target that the chunk's first one lacks.
        """
        found = collections.defaultdict(lambda: collections.defaultdict(dict))  # stack -> rest -> layer -> pair
        matching = targets.matching(names, self.targets)
        for name in matching:
            match, pair = stacks.matched(name, self.targets), self._pair(name, matching)
            rest = stacks.LAYER.fullmatch(pair)["rest"]
            found[match["stack"]][rest].setdefault(int(match["index"]), pair)
        plan, layers = [], stacks.layers(names)
        for stack, pairs in found.items():
            length = stacks.length(stack, layers[stack], chunks=self.chunks)
            for rest in sorted(pairs):
                for layer, pair in sorted(pairs[rest].items()):
                    first = layer - layer % length
                    if first not in pairs[rest]:
                        raise errors.ConfigError(
                            f"reparam.chunks={self.chunks}: {pair!r} has no counterpart in {stack}_{first}, the first "
                            "layer of its chunk"
                        )
                    if layer == first and self.mode != "lors":
                        continue
                    below = layer - 1 if self.mode == "recursive" else first
                    onto = self._members(f"{stack}_{below}/{rest}")
                    plan.append((layer, Increment(pair, self._members(pair), onto)))
        return [increment for _, increment in sorted(plan, key=lambda item: item[0])]

    def _checked_plan(self, base):
        """The `plan` of weights whose layers have the same shapes; structured pruning makes others."""
        plan = self.plan(base)
        for name, below in ((n, o) for i in plan for n, o in zip(i.weights, i.onto, strict=True)):
            if base[name].shape != base[below].shape:
                raise errors.ConfigError(
                    f"reparam: {name} {base[name].shape} cannot be {below} {base[below].shape} and an increment; give "
                    "the layers the same numbers of heads and units"
                )
        return plan

    def _rank(self, name):
        return targets.by_pattern(name, self.rank_pattern, default=self.rank)

    def _pair(self, name, names):
        """The pair that forms the weight `name`: its own name, or that of the fused three, if all are in `names`."""
        *parent, kind, leaf = name.split("/")
        together = ["/".join([*parent, other, leaf]) for other in FUSED]
        fused = kind in FUSED and targets.in_module("/".join(parent), self.fused)
        if fused and all(other in names for other in together):
            return "/".join([*parent, "_".join(FUSED), leaf])
        return name

    def _members(self, pair):
        """The weights that a pair forms: the inverse of `_pair`."""
        *parent, kind, leaf = pair.split("/")
        kinds = FUSED if kind == "_".join(FUSED) else [kind]
        return tuple("/".join([*parent, other, leaf]) for other in kinds)

    def _sum(self, below, a, b):
        below = linear.dense(below)
        if self.mode == "base" if self.stop_gradient is None else self.stop_gradient:
            return linear.LowRank(jax.lax.stop_gradient(below), a, b, jnp.float32(self.scale))
        return below + self.scale * jnp.dot(a, b, precision="highest")

    def _cuts(self, weights, onto):
        """Where the outputs of a group's weights end, without the last."""
        return list(itertools.accumulate(weights[name].shape[1] for name in onto[:-1]))

    def _shared(self, plan, base):
        """The full model with the weights that layers share: their mean if `start` says so, else the first layer's."""
        if self.start != "average":
            return base
        layers = collections.defaultdict(list)
        for i in plan:
            for name, shared in zip(i.weights, i.onto, strict=True):
                layers[shared].append(base[name])
        return {**base, **{name: sum(weights) / len(weights) for name, weights in layers.items()}}

    def _fitted(self, key, plan, base):
        """Fits the increments by truncated SVD, each to the residual that the layers below leave.

        Where nothing is left, as of the layer whose weights the others share, one factor is random: two zero factors
        would have no gradient.
        """
        adapter, shared, made = {}, self._shared(plan, base), dict(base)
        for number, i in enumerate(plan):
            below = shared if self.mode != "recursive" else made
            left = jnp.concatenate([base[n] - below[o] for n, o in zip(i.weights, i.onto, strict=True)], axis=1)
            rank = self._rank(i.name)
            if rank > min(left.shape):
                raise errors.ConfigError(
                    f"reparam.rank is {rank} at {i.name!r} of shape {left.shape}; start={self.start!r} takes "
                    f"at most {min(left.shape)}"
                )
            a, b = targets.best_factors(left / self.scale, rank)
            empty = jnp.abs(b).max(axis=1) <= EMPTY
            fresh = targets.kaiming_uniform(jax.random.fold_in(key, number), a.shape, fan_in=len(a))
            a, b = jnp.where(empty[None], fresh, a), jnp.where(empty[:, None], 0.0, b)
            adapter |= {f"{i.name}/a": a, f"{i.name}/b": b}
            parts = jnp.split(self.scale * (a @ b), self._cuts(base, i.onto), axis=1)
            made |= {n: below[o] + part for n, o, part in zip(i.weights, i.onto, parts, strict=True)}
        return adapter


def _shape(base, names):
    """The shape ``[in, out]`` of weights side by side; refuses what is not a matrix, and different inputs."""
    shapes = [tuple(base[name].shape) for name in names]
    if any(len(shape) != 2 or shape[0] != shapes[0][0] for shape in shapes):
        given = ", ".join(f"{name} {shape}" for name, shape in zip(names, shapes, strict=True))
        raise errors.ConfigError(f"reparam.targets: an increment needs matrices with the same inputs, not {given}")
    return shapes[0][0], sum(shape[1] for shape in shapes)
