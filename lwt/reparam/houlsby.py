"""Adapter layers: small nonlinear layers after those of the base, as weights that know how to be multiplied."""

import dataclasses

import jax.numpy as jnp

from lwt.layers import linear
from lwt.reparam.parts import each, targets


@dataclasses.dataclass(frozen=True)
class Houlsby(each.Each):
    """``y + gelu(y @ down + c) @ up + d`` in place of the output y, bias included, of a linear layer (Houlsby et al.
    2019, arXiv 1902.00751, section 2.1), with `down` `[out r]`, `c` `[r]`, `up` `[r out]` and `d` `[out]`.

    The paper puts one after the output of every attention and feed-forward part, before the residual sum; these are
    the default targets. A nonlinear layer cannot be merged into a weight: runs, adapters and stacks of adapters
    multiply it as it is, and programs that need arrays refuse it. Deviation: `up` starts at zero, not near it, so that
    step 0 is the identity. The paper trains norms and the head as well; ``optimizer.trainable`` says so.

    Attributes:
        rank: r, the paper's m.
        targets: the layers to adapt, see `targets.matching`.
    """

    rank: int = 16
    targets: str | tuple[str, ...] = r".*(attention/out(/full)?|mlp/fc2)/kernel"

    def start(self, key, name, *, shape):
        """The leaves ``down``, ``down_bias``, ``up`` and ``up_bias``."""
        del name
        n = shape[1]
        down = targets.kaiming_uniform(key, (n, self.rank), fan_in=n)
        zeros = {"down_bias": jnp.zeros(self.rank), "up": jnp.zeros((self.rank, n)), "up_bias": jnp.zeros(n)}
        return {"down": down, **zeros}

    def weight(self, name, w, *, leaves):
        """A `linear.Behind` without a bias of the layer."""
        del name
        return linear.Behind(w, jnp.zeros(w.shape[1]), **leaves)

    def expand(self, base, adapter, step, *, key=None):
        """The adapted weights: a `linear.Behind` at every target, with the layer's bias, which is zero elsewhere."""
        weights = super().expand(base, adapter, step, key=key)
        for name in targets.select(base, self.targets):
            bias = f"{name.rpartition('/')[0]}/bias"
            if bias in base and not targets.is_embedding(name):
                weights[name] = weights[name].replace(bias=base[bias])
                weights[bias] = jnp.zeros_like(base[bias])
        return weights
