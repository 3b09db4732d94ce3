"""PeriodicLoRA: LoRA in stages, whose products are added to the weight one after another."""

import dataclasses

import jax
import jax.numpy as jnp

from lwt import errors
from lwt.layers import linear
from lwt.reparam import lora
from lwt.reparam.parts import targets


@dataclasses.dataclass(frozen=True)
class PeriodicLoRA(lora.LoRA):
    """``W + Σ_past s · a @ b + s · a @ b`` (Meng et al. 2024, arXiv 2402.16141, section 3): after every stage of
    `period` steps the product moves into the weight and the factors start anew, so that the update of T stages has a
    rank of up to T·r.

    Here the stored base is NEVER changed: the sum of the past products is a leaf of the adapter, ``NAME/sum`` `[in
    out]`, which no gradient reaches. So an adapter is as large as its targets. The last stage need not be complete.
    Deviations: optimizer and learning rate go on across stages, where the paper restarts them; its momentum, which
    moves only a part of the product into the weight, is left out.

    Attributes:
        period: optimizer steps of a stage. All others are those of `lora.LoRA`, with ``start="lora"``.
    """

    period: int = 200

    def __post_init__(self):
        super().__post_init__()
        if self.start != "lora" or self.frozen_a:
            raise errors.ConfigError(
                "reparam: periodic_lora starts its factors anew; it takes start=lora, frozen_a=False"
            )

    def init(self, key, base):
        """The leaves of `lora.LoRA`, and ``NAME/sum`` of zeros for every target."""
        adapter = super().init(key, base)
        return adapter | {f"{n}/sum": jnp.zeros(base[n].shape) for n in targets.factorised(adapter)}

    def expand(self, base, adapter, step, *, key=None):
        """The adapted weights: a `linear.LowRank` over the sum of the base and the past products at every target."""
        past = {n: jax.lax.stop_gradient(adapter[f"{n}/sum"]) for n in targets.factorised(adapter)}
        moved = {name: linear.dense(base[name]) + own for name, own in past.items()}
        return super().expand({**base, **moved}, adapter, step, key=key)

    def advance(self, adapter, memory, *, gradients, step, key):
        """The adapter after optimizer step `step`: at the end of a stage, with its product in the sum."""
        del gradients

        def ended():
            found = {}
            for i, name in enumerate(targets.factorised(adapter)):
                a, b, past = (adapter[f"{name}/{leaf}"] for leaf in ("a", "b", "sum"))
                found[f"{name}/sum"] = past + self.scale(name) * jnp.dot(a, b, precision="highest")
                found[f"{name}/a"], found[f"{name}/b"] = self._factors(jax.random.fold_in(key, i), name, past)
            return found

        return jax.lax.cond(step % self.period == 0, ended, lambda: adapter), memory
