"""Unstructured pruning holds the smallest weights at zero while the rest trains."""

import dataclasses
import numbers

import jax
import jax.numpy as jnp

from lwt import errors
from lwt.layers import linear
from lwt.reparam.parts import targets

MASKS = ("magnitude", "zeros")
SCOPES = ("layer", "global")
GRADIENTS = ("masked", "straight_through")


@dataclasses.dataclass(frozen=True)
class Prune:
    """``W -> mask ∘ W``, where the mask removes the weights of smallest magnitude.

    Every step computes the mask from the stored weights and the step, so nothing is stored. The base stays dense and
    trains (``optimizer.trainable = ("base/.*",)``). Between the steps `begin` = t0 and `end` = t0 + nΔt the sparsity
    rises, every Δt steps, by the cubic schedule of Zhu and Gupta (2017, arXiv 1710.01878, equation 1)

        s_t = s_f + (s_i - s_f) (1 - (t - t0) / (nΔt))³

    Before `begin` nothing is pruned; without an `end`, `begin` prunes all at once. Deviation: in the paper the mask is
    fixed between two rises and after the last; here it always follows the current weights.

    ``mask="zeros"`` stores the mask instead, as untrained leaves ``NAME/mask``: weights that are 0 in the run this one
    starts from stay 0. Fine-tuning after pruning and lottery tickets (`lwt/compress/rewind.py`) use it.

    Attributes:
        sparsity: s_f, the final share of zeros among the targets' weights.
        initial: s_i, the share at the first step of the schedule.
        begin, end: first and last step of the schedule; every: Δt.
        scope: "layer": that share of each target; "global": of all together, by one threshold (Han et al. 2015 set one
            per layer).
        pattern: ``(n, m)`` keeps the n largest of any m consecutive weights along the input axis, from the step `begin`
            on (2:4, Mishra et al. 2021, arXiv 2104.08378), and ignores sparsity and schedule; ``()`` for none.
        gradient: "masked": that of ``mask ∘ W``: a weight at zero stays fixed. "straight_through": as without a mask:
            weights at zero keep learning and may return, which N:M patterns from an early step need (Zhou et al. 2021,
            arXiv 2102.04010, without their extra decay).
        mask: "magnitude" or "zeros".
        targets: which matrices to prune, see `targets.matching`; the default excludes embedding tables.
    """

    sparsity: float = 0.5
    initial: float = 0.0
    begin: int = 0
    end: int = 0
    every: int = 100
    scope: str = "layer"
    pattern: tuple = ()
    gradient: str = "masked"
    mask: str = "magnitude"
    targets: str | tuple[str, ...] = r".*kernel"

    def __post_init__(self):
        targets.check(self, scope=SCOPES, gradient=GRADIENTS, mask=MASKS)
        if self.every < 1 or (self.end and self.end <= self.begin):
            raise errors.ConfigError(
                f"reparam.begin={self.begin}, end={self.end}, every={self.every}: the schedule must end after it "
                "begins (or end=0: all at once), and rise every 1 or more steps"
            )
        if self.initial and not self.end:
            raise errors.ConfigError(f"reparam.initial={self.initial} has no effect without an end of the schedule")
        pattern = tuple(self.pattern)
        object.__setattr__(self, "pattern", pattern)  # a list from JSON becomes a tuple
        whole = all(isinstance(value, numbers.Integral) for value in pattern)
        if pattern and not (len(pattern) == 2 and whole and 1 <= pattern[0] <= pattern[1]):
            raise errors.ConfigError(f"reparam.pattern is {pattern!r}; it has to be (n, m), n of every m, or ()")

    @property
    def identity_at_start(self):
        """Whether step 0 prunes only weights that are 0 already."""
        gradual = not self.pattern and self.end and not self.initial
        return bool(self.mask == "zeros" or self.begin or gradual)

    @property
    def follows_training(self):
        """Whether the masks are the same, made from the weights at the start or from the trained ones."""
        return self.mask == "zeros" and self.gradient == "masked"

    def init(self, key, base):
        """No leaves; with ``mask="zeros"`` a bool ``NAME/mask`` `[in out]` for every target."""
        del key
        names = self.select(base)
        if self.mask == "magnitude":
            return {}
        return {f"{name}/mask": linear.dense(base[name]) != 0 for name in names}

    def expand(self, base, adapter, step, *, key=None):
        """The weights: every target as an array with zeros in it."""
        del key
        dense = {name: linear.dense(base[name]) for name in self.select(base)}
        if self.mask == "zeros":
            masks = {name: adapter[f"{name}/mask"] for name in dense}
        else:
            masks = self.masks(jax.lax.stop_gradient(dense), step)
        return base | {name: self._masked(w, masks[name]) for name, w in dense.items()}

    def labels(self, adapter):
        """Masks are not trained."""
        return dict.fromkeys(adapter, "constant")

    def sparsity_at(self, step):
        """s_t, 0 before `begin`; `step` may be traced."""
        step = jnp.asarray(step)
        share = 1.0
        if self.end:
            rises = (step - self.begin) // self.every * self.every
            share = jnp.where(step < self.end, rises / (self.end - self.begin), 1.0)
        sparsity = self.sparsity + (self.initial - self.sparsity) * (1 - share) ** 3
        return jnp.where(step < self.begin, 0.0, sparsity)

    def masks(self, weights, step):
        """``{name: bool [in out]}`` of the weights `{name: [in out]}`: True for those kept at this step."""
        if self.pattern:
            return {name: largest_of(abs(w), pattern=self.pattern) | (step < self.begin) for name, w in weights.items()}
        sparsity, sizes = self.sparsity_at(step), {name: abs(w) for name, w in weights.items()}
        if self.scope == "layer":
            return {name: size > threshold([size], sparsity) for name, size in sizes.items()}
        limit = threshold(list(sizes.values()), sparsity)
        return {name: size > limit for name, size in sizes.items()}

    def select(self, base):
        """The names of the targets; their inputs have to be a multiple of the pattern's m."""
        names = targets.select(base, self.targets)
        for name in names if self.pattern else ():
            if base[name].shape[0] % self.pattern[1]:
                raise errors.ConfigError(
                    f"reparam.pattern is {self.pattern}, but {name} has {base[name].shape[0]} inputs, not a multiple "
                    f"of {self.pattern[1]}; reparam.targets must exclude it"
                )
        return names

    def _masked(self, w, mask):
        masked = jnp.where(mask, w, 0)
        return masked if self.gradient == "masked" else w + jax.lax.stop_gradient(masked - w)


def threshold(sizes, share):
    """The magnitude that ``round(share · n)`` of the n numbers in a list of arrays do not exceed; -inf for none.

    Bisects the range of bit patterns, which sort like the numbers, in 31 counting passes: sorting millions of numbers
    would take longer than the training step around it.
    """
    bits = [jax.lax.bitcast_convert_type(size.astype(jnp.float32), jnp.int32) for size in sizes]
    count = jnp.round(share * sum(b.size for b in bits)).astype(jnp.int32)

    def halve(_, ends):
        low, high = ends  # too few at or below `low`, enough at or below `high`
        middle = low + (high - low) // 2
        enough = sum((b <= middle).sum() for b in bits) >= count
        return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

    ends = jnp.int32(-1), jnp.int32(0x7F800000)  # below 0, and infinity
    found = jax.lax.fori_loop(0, 31, halve, ends)[1]
    return jnp.where(count > 0, jax.lax.bitcast_convert_type(found, jnp.float32), -jnp.inf)


def largest_of(sizes, *, pattern):
    """Marks the n largest of every m magnitudes along the inputs, `[in out]` bool; of equal ones, the first."""
    n, m = pattern
    groups = sizes.reshape(-1, m, sizes.shape[1])
    rank = jnp.zeros(groups.shape, jnp.int32)
    for other in range(m):
        rival, first = groups[:, other : other + 1], (other < jnp.arange(m))[None, :, None]
        rank += (rival > groups) | ((rival == groups) & first)
    return (rank < n).reshape(sizes.shape)
