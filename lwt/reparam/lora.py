"""Low-rank adaptation: a frozen weight plus the product of two thin trained matrices."""

import dataclasses

import jax
import jax.numpy as jnp

from lwt import errors
from lwt.layers import dropout, linear
from lwt.reparam.parts import starts, targets

LOOKS = {"eva": "inputs", "corda": "inputs", "lora_ga": "gradients"}  # the starts from data, and what they look at
STARTS = ("lora", "pissa", "olora", *LOOKS)


@dataclasses.dataclass(frozen=True)
class LoRA:
    """``W + s · a @ b`` with `a` `[in r]` and `b` `[r out]` (Hu et al. 2021, arXiv 2106.09685, equation 3;
    "Implementing Transformers", equation 7). In PyTorch's layout a = Aᵀ and b = Bᵀ.

    With ``start="lora"``, `a` is Kaiming-uniform (with PyTorch's slope √5) and `b` zero. For a table of embeddings, `a`
    is zero and `b` standard normal, as in loralib and PEFT. ("Implementing Transformers" names a normal start for A.)

    ``"pissa"`` (Meng et al. 2024, arXiv 2404.02948) starts from the r largest singular triples of W, ``"olora"``
    (Büyükakyüz 2024, arXiv 2406.01775) from the leading r columns of its QR decomposition. Both papers subtract the
    product from the stored weight. Here the stored base is NEVER changed: the starting factors stay in the adapter as
    constants `a0` and `b0`, and the weight is ``W - s · a0 @ b0 + s · a @ b``, multiplied as one low-rank sum of rank
    2r. Step 0 is the identity (to float32 rounding), and training moves as in the papers. Deviation: dropout acts on
    the constant part too, so step 0 is the identity in training as well.

    ``"eva"``, ``"corda"`` and ``"lora_ga"`` start from the first training batches (`parts/starts.py`); until `look` has
    seen them the leaves are those of ``"lora"``. EVA's b is zero; the other two subtract their start like PiSSA, and
    the adapter stores it. Deviation: all targets keep their rank, which EVA redistributes.

    With ``frozen_a`` (LoRA-FA, Zhang et al. 2023, arXiv 2308.03303) `a` stays as it starts: half of the weights are
    trained, and the inputs of `a` need not be kept for the backward pass.

    ``factor_dropout`` is LoRA Dropout (Lin et al. 2024, arXiv 2404.09610, section 3.1): each step drops whole rows of
    `a` (inputs) and columns of `b` (outputs), the same ones for all tokens, and divides the rest by the kept share.
    Deviation: answers come from the factors as they are, not from the mean over several draws.

    Attributes:
        rank: r.
        alpha: α, above 0.
        scaling: s is ``"alpha/r"`` α/r, ``"rslora"`` α/√r (Kalajdzievski 2023, arXiv 2312.03732), or ``"one"`` 1
            at any rank (then α has no effect).
        dropout: rate on the input of `a`; embeddings have none.
        factor_dropout: rate on the rows of `a` and on the columns of `b`.
        targets: which matrices to adapt, such as ("query", "value"), see `targets.matching`.
        rank_pattern: ``((regex, rank), ...)``; the first match with a target's name replaces `rank`.
        alpha_pattern: ``((regex, alpha), ...)``, the same for `alpha`.
        start: "lora", "pissa", "olora", "eva", "corda" or "lora_ga".
        batches: the number of training batches that "eva", "corda" and "lora_ga" start from.
        frozen_a: whether `a` is a constant.
    """

    rank: int = 16
    alpha: float = 16.0
    scaling: str = "alpha/r"
    dropout: float = 0.0
    factor_dropout: float = 0.0
    targets: str | tuple[str, ...] = targets.ATTENTION
    rank_pattern: tuple = ()
    alpha_pattern: tuple = ()
    start: str = "lora"
    batches: int = 8
    frozen_a: bool = False

    identity_at_start = True

    def __post_init__(self):
        targets.check(self, scaling=targets.SCALINGS, start=STARTS)

    def init(self, key, base):
        """The leaves ``NAME/a`` and ``NAME/b`` (and ``NAME/a0``, ``NAME/b0``) for every target NAME of `base`."""
        names = targets.select(base, self.targets)
        targets.check_used(self.rank_pattern, names, key="reparam.rank_pattern")
        targets.check_used(self.alpha_pattern, names, key="reparam.alpha_pattern")
        adapter = {}
        for i, name in enumerate(names):
            a, b = self._factors(jax.random.fold_in(key, i), name, base[name])
            adapter[f"{name}/a"], adapter[f"{name}/b"] = a, b
            if self._subtracts:  # copies: a donated buffer must not be another leaf's too
                adapter[f"{name}/a0"], adapter[f"{name}/b0"] = jnp.copy(a), jnp.copy(b)
        return adapter

    def watches(self, base, adapter):
        """What `look` has to know, see `compose.watches`."""
        del adapter
        kind = LOOKS.get(self.start)
        return {(kind, name): self.batches for name in targets.select(base, self.targets)} if kind else {}

    def look(self, adapter, base, *, seen):
        """The leaves at step 0, from what the data say of the weights, see `compose.look`."""
        adapter = dict(adapter)
        for _, name in self.watches(base, adapter):
            found, rank = seen[LOOKS[self.start], name], self.rank_of(name)
            if self.start == "eva":
                adapter[f"{name}/a"] = jnp.asarray(starts.eva(found, rank), jnp.float32)
                continue
            if self.start == "corda":
                a, b = starts.corda(linear.dense(base[name]) / self.scale(name), found, rank=rank)
            else:
                a, b = starts.lora_ga(found, rank)
            for leaf, array in {"a": a, "b": b, "a0": a, "b0": b}.items():
                adapter[f"{name}/{leaf}"] = jnp.asarray(array, jnp.float32)
        return adapter

    def expand(self, base, adapter, step, *, key=None):
        """The adapted weights: `base` with a `linear.LowRank` at every target."""
        del step
        weights = dict(base)
        for i, name in enumerate(targets.select(base, self.targets)):
            a, b = adapter[f"{name}/a"], adapter[f"{name}/b"]
            a = jax.lax.stop_gradient(a) if self.frozen_a else a
            if self._subtracts:
                a = jnp.concatenate([a, jax.lax.stop_gradient(adapter[f"{name}/a0"])], axis=1)
                b = jnp.concatenate([b, -jax.lax.stop_gradient(adapter[f"{name}/b0"])], axis=0)
            own_key = jax.random.fold_in(key, i) if key is not None and self.dropout > 0 else None
            if key is not None and self.factor_dropout > 0:
                first, second = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, i), 1))
                a, b = _dropped(first, a.T, self.factor_dropout).T, _dropped(second, b, self.factor_dropout)
            scale = jnp.asarray(self.scale(name), jnp.float32)
            weights[name] = linear.LowRank(base[name], a, b, scale, own_key, self.dropout)
        return weights

    def labels(self, adapter):
        """``{leaf: label}``; the optimizer trains all but those labelled "constant", or "state" if data set them."""
        kept = "state" if self.start in LOOKS else "constant"
        labels = {n: "constant" if self.frozen_a and n.endswith("/a") else targets.label(n) for n in adapter}
        return {n: kept if label == "constant" else label for n, label in labels.items()}

    def rank_of(self, name):
        """The rank at the target `name`."""
        return targets.by_pattern(name, self.rank_pattern, default=self.rank)

    def scale(self, name):
        """The factor s at the target `name`."""
        alpha = targets.by_pattern(name, self.alpha_pattern, default=self.alpha)
        return targets.scale(self.scaling, alpha=alpha, rank=self.rank_of(name))

    @property
    def _subtracts(self):
        return self.start not in ("lora", "eva")

    def _factors(self, key, name, w):
        """The starting `a` `[in r]` and `b` `[r out]` of the target `name` of value `w`."""
        (n_in, n_out), rank = w.shape, self.rank_of(name)
        targets.check_size(rank, name, shape=w.shape)
        table = targets.is_embedding(name)
        if table and self.start in LOOKS:
            raise errors.ConfigError(f"reparam.start={self.start!r}: {name!r} is a table, which has no inputs")
        if table and self.frozen_a and self.start == "lora":
            raise errors.ConfigError(
                f"reparam.frozen_a: {name!r} is a table, whose a starts at zero and would stay there"
            )
        least = min(n_in, n_out)
        most = {"lora": rank, "eva": n_in, "lora_ga": least // 2}.get(self.start, least)
        if rank > most:
            raise errors.ConfigError(
                f"reparam.rank is {rank} at {name!r} of shape {(n_in, n_out)}; "
                f"start={self.start!r} takes at most {most}"
            )
        if self.start == "lora" or self.start in LOOKS:
            if table:
                return jnp.zeros((n_in, rank)), jax.random.normal(key, (rank, n_out))
            return targets.kaiming_uniform(key, (n_in, rank), fan_in=n_in), jnp.zeros((rank, n_out))
        if self.start == "pissa":
            return targets.best_factors(w / self.scale(name), rank)
        q, r = jnp.linalg.qr(w.astype(jnp.float32).T)  # of the PyTorch-side matrix [out in]: B = Q, A = R
        return r[:rank].T, q[:, :rank].T


def _dropped(key, x, rate):
    """`x` with columns of zeros at this rate, and the others divided by the kept share."""
    kept = dropout.kept_of_256(rate)
    return x * (dropout.keep_mask(key, rate, shape=x.shape[1:]) * (256 / kept))[None]
