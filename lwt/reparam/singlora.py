"""SingLoRA: a low-rank update made of one matrix and its own transpose."""

import dataclasses

import jax
import jax.numpy as jnp

from lwt.layers import linear
from lwt.reparam.parts import targets


@dataclasses.dataclass(frozen=True)
class SingLoRA:
    """``W + u · s · A[:in] @ A[:out].T`` with A `[max(in, out) r]` and u = min(step/ramp, 1) (Bensaïd et al. 2025,
    arXiv 2507.05566).

    For a square target the update is symmetric and positive semidefinite. A is Kaiming-uniform with fan-in max(in, out)
    (PyTorch's initialiser on an array `[n, r]` takes r as the fan-in and starts √(n/r) times larger). The ramp starts
    the model as the base; at step 0 the gradient of A is zero too.

    Attributes:
        rank: r.
        alpha: α, above 0.
        scaling: s is ``"alpha/r"`` (the paper's), ``"rslora"`` α/√r, or ``"one"`` 1 at any rank.
        ramp: optimizer steps T until the update has its full scale; 0 for no ramp (then step 0 is not the identity).
        dropout: rate on the input of A.
        targets: which matrices to adapt, such as ("query", "value"), see `targets.matching`.
    """

    rank: int = 16
    alpha: float = 16.0
    scaling: str = "alpha/r"
    ramp: int = 100
    dropout: float = 0.0
    targets: str | tuple[str, ...] = targets.ATTENTION

    def __post_init__(self):
        targets.check(self, scaling=targets.SCALINGS)

    @property
    def identity_at_start(self):
        return self.ramp > 0

    def init(self, key, base):
        """The adapter's leaves ``NAME/a`` `[max(in, out) r]`."""
        adapter = {}
        for i, name in enumerate(targets.select(base, self.targets)):
            targets.check_size(self.rank, name, shape=base[name].shape)
            width = max(base[name].shape)
            adapter[f"{name}/a"] = targets.kaiming_uniform(jax.random.fold_in(key, i), (width, self.rank), fan_in=width)
        return adapter

    def expand(self, base, adapter, step, *, key=None):
        """The adapted weights: `base` with a `linear.LowRank` at every target; `step` may be traced."""
        factor = targets.scale(self.scaling, alpha=self.alpha, rank=self.rank)
        scale = jnp.asarray(factor * self.ramp_at(step), jnp.float32)
        weights = dict(base)
        for i, name in enumerate(targets.select(base, self.targets)):
            n_in, n_out = base[name].shape
            a = adapter[f"{name}/a"]
            own_key = jax.random.fold_in(key, i) if key is not None and self.dropout > 0 else None
            weights[name] = linear.LowRank(base[name], a[:n_in], a[:n_out].T, scale, own_key, self.dropout)
        return weights

    def labels(self, adapter):
        """``{leaf: "a"}`` (``"embedding_a"`` for tables)."""
        return {leaf: targets.label(leaf) for leaf in adapter}

    def ramp_at(self, step):
        """u(step), in [0, 1]."""
        return jnp.minimum(step / self.ramp, 1.0) if self.ramp else 1.0
