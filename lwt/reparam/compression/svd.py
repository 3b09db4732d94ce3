"""Factorisation stores each weight as two thin matrices, its factors."""

import dataclasses

from lwt.layers import linear
from lwt.reparam.parts import stacks, targets

LAYERS = stacks.MATRICES


@dataclasses.dataclass(frozen=True)
class SVD:
    """``W -> a @ b`` with `a` `[in r]`, `b` `[r out]`, from the r largest singular values of W; both are trained.

    No matrix of rank r is closer to W (Eckart and Young 1936). Unlike an adapter, it neither stores nor uses W itself:
    r·(in + out) numbers replace in·out. The command ``lwt.compress.factorise`` chooses the ranks by energy or by a
    budget and writes them into `rank_pattern`.

    Attributes:
        rank: r; a weight with fewer inputs or outputs keeps its full rank.
        targets: which matrices to factorise, see `targets.matching`.
        rank_pattern: ``((regex, rank), ...)``; the first that matches a target's name replaces `rank`.
    """

    rank: int = 8
    targets: str | tuple[str, ...] = LAYERS
    rank_pattern: tuple = ()

    identity_at_start = False

    def __post_init__(self):
        targets.check(self)

    def init(self, key, base):
        """The leaves ``NAME/a`` and ``NAME/b`` for every target NAME of the model `base`; `key` is unused."""
        del key
        names = targets.select(base, self.targets)
        targets.check_used(self.rank_pattern, names, key="reparam.rank_pattern")
        adapter = {}
        for name in names:
            rank = targets.by_pattern(name, self.rank_pattern, default=self.rank)
            adapter[f"{name}/a"], adapter[f"{name}/b"] = targets.best_factors(base[name], rank)
        return adapter

    def stored(self, base):
        """The weights of the model `base` that are stored beside the factors."""
        made = set(targets.select(base, self.targets))
        return {name: w for name, w in base.items() if name not in made}

    def expand(self, base, adapter, step, *, key=None):
        """The model's weights: the stored ones, and a `linear.Factors` at every target."""
        del step, key
        made = {n: linear.Factors(adapter[f"{n}/a"], adapter[f"{n}/b"]) for n in targets.factorised(adapter)}
        return {**base, **made}

    def labels(self, adapter):
        """``{leaf: label}``; all are trained."""
        return {leaf: targets.label(leaf) for leaf in adapter}
