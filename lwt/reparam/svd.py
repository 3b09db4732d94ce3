"""Factorisation: weights as products of two thin matrices, which are all that is stored."""

import dataclasses

from lwt.layers import linear
from lwt.reparam import targets

LAYERS = r"(?!.*conv/).*_\d+/.*/kernel"  # the linear layers of encoders and decoders, no table and no head


@dataclasses.dataclass(frozen=True)
class SVD:
    """``W -> a @ b`` with `a` `[in r]`, `b` `[r out]`, from the r largest singular values of W; both are trained.

    No matrix of the rank r is nearer to W (Eckart and Young 1936). Unlike an adapter's, the weight itself is neither
    stored nor multiplied with, see `stored`: r·(in + out) numbers in place of in·out. At full rank it is the identity,
    and larger.

    Ranks are numbers here and nowhere chosen by the weights' values, so that all shapes follow from the config. The
    command ``lwt.compress.factorise`` chooses them, by energy or by a budget, and writes them into `rank_pattern`.

    Attributes:
        rank: r; a weight with fewer inputs or outputs keeps all that it has.
        targets: regular expression for whole names of weights; the matrices among them are factorised.
        rank_pattern: ``((regex, rank), ...)``; the first that matches a target's name replaces `rank`.

    Raises:
        lwt.errors.ConfigError: a value is out of its range; from `init` when a pattern matches no weight.
    """

    rank: int = 8
    targets: str = LAYERS
    rank_pattern: tuple = ()

    identity_at_start = False

    def __post_init__(self):
        targets.check_rank(self.rank)
        rules = targets.checked_rules(self.rank_pattern, targets.check_rank, "reparam.rank_pattern")
        object.__setattr__(self, "rank_pattern", rules)  # lists from JSON become tuples

    def init(self, key, base):
        """The leaves ``NAME/a`` and ``NAME/b`` for every target NAME of the whole model `base`; nothing is random."""
        del key
        names = targets.select(base, self.targets)
        targets.check_used(self.rank_pattern, names, "reparam.rank_pattern")
        adapter = {}
        for name in names:
            rank = targets.by_pattern(name, self.rank_pattern, self.rank)
            adapter[f"{name}/a"], adapter[f"{name}/b"] = targets.balanced(base[name], rank)
        return adapter

    def stored(self, base):
        """What of the whole model's weights is kept beside the factors."""
        made = set(targets.select(base, self.targets))
        return {name: w for name, w in base.items() if name not in made}

    def expand(self, base, adapter, step, *, key=None):
        """The weights of the whole model: what is stored, and a `linear.Factors` in the place of every target."""
        del step, key
        names = [leaf.removesuffix("/a") for leaf in adapter if leaf.endswith("/a")]
        return {**base, **{name: linear.Factors(adapter[f"{name}/a"], adapter[f"{name}/b"]) for name in names}}

    def labels(self, adapter):
        """``{leaf: label}``; all are trained."""
        return {leaf: targets.label(leaf) for leaf in adapter}
