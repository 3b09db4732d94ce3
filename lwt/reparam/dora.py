"""DoRA splits a weight into a trained magnitude and a direction with a low-rank update."""

import dataclasses

import jax
import jax.numpy as jnp

from lwt.layers import linear
from lwt.reparam import lora
from lwt.reparam.parts import targets


@dataclasses.dataclass(frozen=True)
class DoRA(lora.LoRA):
    """``m · (W + s·a@b) / ‖W + s·a@b‖`` with the norm `[out]` of every column (Liu et al. 2024, equation 5).

    `m` starts as the column norms of W. The norm gets no gradient (section 4.3), as in PEFT. A column of zeros stays
    zero. The attributes are those of `lora.LoRA`. Deviation from PEFT: dropout acts on the input of the low-rank part
    only; PEFT also drops the input of the base product in the part that the rescaling adds.
    """

    def init(self, key, base):
        """The leaves of `lora.LoRA`, and ``NAME/magnitude`` `[out]` for every target."""
        adapter = super().init(key, base)
        for name in targets.select(base, self.targets):
            adapter[f"{name}/magnitude"] = _norm(base[name])
        return adapter

    def expand(self, base, adapter, step, *, key=None):
        """The adapted weights: `base` with a `linear.ColumnScaled` over a `linear.LowRank` at every target."""
        weights = super().expand(base, adapter, step, key=key)
        for name in targets.select(base, self.targets):
            norm = _norm(jax.lax.stop_gradient(weights[name]))
            weights[name] = linear.ColumnScaled(weights[name], adapter[f"{name}/magnitude"] / norm)
        return weights


def _norm(w):
    """Euclidean norm of every column `[out]`, never zero."""
    norm = jnp.linalg.norm(linear.dense(w).astype(jnp.float32), axis=0)
    return jnp.maximum(norm, jnp.finfo(jnp.float32).tiny)
