"""IA3: learned vectors scale the outputs of keys and values, and the inputs of feed-forward layers."""

import dataclasses

import jax.numpy as jnp

from lwt.layers import linear
from lwt.reparam.parts import each, targets


@dataclasses.dataclass(frozen=True)
class IA3(each.Each):
    """``W · l`` on the outputs, bias included, or ``l · W`` on the inputs (Liu et al. 2022, arXiv 2205.05638, section
    3.3).

    The paper scales keys, values and the hidden features of feed-forward layers, which are the inputs of the second
    layer. Every `l` starts at one. With unfolded K/V projection, the keys and values before it are scaled.

    Attributes:
        targets: the weights to scale, see `targets.matching`.
        feedforward: those among them whose inputs are scaled; () for none.
    """

    targets: str | tuple[str, ...] = r".*(attention/(key|value)(/full)?|mlp/fc2)/kernel"
    feedforward: str | tuple[str, ...] = r".*mlp/fc2/kernel"

    def start(self, key, name, *, shape):
        """The leaf ``scale``, `[in]` or `[out]`."""
        del key
        return {"scale": jnp.ones(shape[0] if self.scales_inputs(name) else shape[1])}

    def weight(self, name, w, *, leaves):
        """A `linear.RowScaled` or `linear.ColumnScaled`."""
        return (linear.RowScaled if self.scales_inputs(name) else linear.ColumnScaled)(w, leaves["scale"])

    def expand(self, base, adapter, step, *, key=None):
        """The adapted weights, with the biases of the outputs that are scaled."""
        weights = super().expand(base, adapter, step, key=key)
        for name in targets.select(base, self.targets):
            bias = f"{name.rpartition('/')[0]}/bias"
            if bias in base and not self.scales_inputs(name) and not targets.is_embedding(name):
                weights[bias] = base[bias] * adapter[f"{name}/scale"]
        return weights

    def scales_inputs(self, name):
        """Whether the vector of the target `name` scales its inputs."""
        return bool(self.feedforward) and targets.matches(name, self.feedforward)
