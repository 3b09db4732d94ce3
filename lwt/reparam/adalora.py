"""AdaLoRA: a low-rank update in the form of an SVD, whose singular values are pruned while it trains."""

import dataclasses

import jax
import jax.numpy as jnp

from lwt import errors
from lwt.layers import linear
from lwt.reparam.parts import each, targets

SMOOTHING = 0.85  # β1 and β2 of the paper


@dataclasses.dataclass(frozen=True)
class AdaLoRA(each.Each):
    """``W + (α/r) · (a · λ) @ b`` with `a` `[in r]`, `b` `[r out]` and `λ` `[r]` (Zhang et al. 2023, arXiv 2303.10512,
    equation 3; Q = aᵀ and P = bᵀ of the paper's ``P Λ Q``).

    The penalty ``orthogonality · mean ‖aᵀa − I‖`` over all `a` and `bᵀ` keeps the directions apart (equation 4, without
    its squares, as in the authors' code and in PEFT). From step `begin` to `end`, every `every` steps, the directions
    of the lowest `importance` among all targets get ``λ = 0``; they may come back until `end`. The number of those that
    remain falls by a cubic from r to `budget` for each target on average (equation 12), and stays from `end` on.

    Attributes:
        rank: r, at the start.
        budget: mean rank at the end.
        alpha: α, above 0.
        begin, end: steps between which ranks fall; a shorter run keeps more than the budget.
        every: steps between two choices of directions.
        orthogonality: weight of the penalty, which is added to the loss.
        targets: which matrices to adapt, see `targets.matching`.
    """

    rank: int = 12
    budget: int = 8
    alpha: float = 12.0
    begin: int = 100
    end: int = 1000
    every: int = 10
    orthogonality: float = 0.5
    targets: str | tuple[str, ...] = targets.ATTENTION

    def __post_init__(self):
        super().__post_init__()
        if self.budget > self.rank or self.begin >= self.end or self.every < 1:
            raise errors.ConfigError(
                f"reparam: budget={self.budget} has to be at most rank={self.rank}, begin={self.begin} below "
                f"end={self.end}, and every={self.every} at least 1"
            )

    def start(self, key, name, *, shape):
        """The leaves ``a`` and ``b``, normal, and ``values``, which are zero."""
        targets.check_size(self.rank, name, shape=shape)
        a, b = (0.02 * jax.random.normal(k, (n, self.rank)) for k, n in zip(jax.random.split(key), shape, strict=True))
        return {"a": a, "values": jnp.zeros(self.rank), "b": b.T}

    def weight(self, name, w, *, leaves):
        """A `linear.LowRank`."""
        scale = jnp.float32(targets.scale("alpha/r", alpha=self.alpha, rank=self.rank))
        return linear.LowRank(w, leaves["a"] * leaves["values"][None], leaves["b"], scale)

    def penalty(self, adapter):
        """What training adds to the loss."""
        norms = []
        for name in targets.factorised(adapter):
            for factor in (adapter[f"{name}/a"], adapter[f"{name}/b"].T):
                difference = jnp.dot(factor.T, factor, precision="highest") - jnp.eye(self.rank)
                norms.append(jnp.sqrt((difference**2).sum() + 1e-12))
        return self.orthogonality * jnp.stack(norms).mean()

    def memory(self, adapter):
        """The moving averages of every leaf's sensitivity and of its spread, and the directions that remain."""
        found = {f"{leaf}/{what}": jnp.zeros_like(w) for leaf, w in adapter.items() for what in ("mean", "spread")}
        return found | {f"{name}/kept": jnp.ones(self.rank, bool) for name in targets.factorised(adapter)}

    def advance(self, adapter, memory, *, gradients, step, key):
        """The leaves after optimizer step `step`, with the singular values of pruned directions at zero."""
        del key
        found, names = dict(memory), targets.factorised(adapter)
        for leaf, w in adapter.items():
            own = (memory[f"{leaf}/mean"], memory[f"{leaf}/spread"])
            for what, old, new in zip(("mean", "spread"), own, follow(*own, product=jnp.abs(w * gradients[leaf]))):
                found[f"{leaf}/{what}"] = jnp.where(step < self.end, new, old)
        scores = {}
        for name in names:
            s = [found[f"{name}/{leaf}/mean"] * found[f"{name}/{leaf}/spread"] for leaf in ("a", "values", "b")]
            scores[name] = importance(s[0], s[1], b=s[2])
        removed = len(names) * self.rank - self.budget_at(step, len(names))
        threshold = jnp.sort(jnp.concatenate([scores[name] for name in names]))[jnp.maximum(removed - 1, 0)]
        chosen = (step > self.begin) & (step < self.end) & (step % self.every == 0) | (step == self.end)
        leaves = dict(adapter)
        for name in names:
            kept = (scores[name] > threshold) | (removed == 0)
            found[f"{name}/kept"] = kept = jnp.where(chosen, kept, memory[f"{name}/kept"])
            values = adapter[f"{name}/values"]
            leaves[f"{name}/values"] = jnp.where((chosen | (step > self.end)) & ~kept, 0, values)
        return leaves, found

    def budget_at(self, step, targets):
        """The number of directions that a number of targets have together at a step."""
        left = 1 - jnp.clip((step - self.begin) / (self.end - self.begin), 0, 1)
        return jnp.int32(targets * (self.budget + (self.rank - self.budget) * left**3))


def follow(mean, spread, *, product):
    """The moving averages of the sensitivity ``I = |w · ∂L/∂w|`` (`product`) and of ``|I − mean|``, a step later."""
    mean = SMOOTHING * mean + (1 - SMOOTHING) * product
    return mean, SMOOTHING * spread + (1 - SMOOTHING) * abs(product - mean)


def importance(a, values, *, b):
    """The importance ``s(λ_i) + mean_j s(a_ji) + mean_j s(b_ij)`` `[r]` of the directions (section 3.2).

    Args:
        a, values, b: the scores s = mean · spread, `[in r]`, `[r]` and `[r out]`.
    """
    return values + a.mean(axis=0) + b.mean(axis=1)
