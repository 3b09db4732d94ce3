"""MAMBA as a text encoder, at the 2 MB size of the EmbBERT-Q paper.

Source: Gu and Dao 2023, section 3; "EmbBERT-Q", section 4.1 and Table 2. v=2048, l=256, d=64, α=1, d_s=6, k=4, N=5 give
14,464 weights per block and 219,968 in all, the paper's "220 K". The table omits the inner width: d·α = 64 channels and
a step-size rank of ⌈d/16⌉ = 4, with a bias in the convolution and none in the projections, match the count and the
authors' code; the paper's printed activations, 265,216, assume 128 channels.

Known deviation: the model is causal, so the state at position 0, [CLS], sees none of the text. The authors' code reads
it after pre-training, and otherwise the root mean square over the positions, as ours does by default.
"""

import flax.linen as nn
from jaxtyping import Array, Float

from lwt.layers import blocks, norm, ssm, text_embed, text_head, validate


class Block(nn.Module):
    """``x + Mixer(RMSNorm(x))``; fields as of `ssm.Mixer`."""

    inner: int
    state: int
    kernel_size: int
    time_rank: int = 0
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b t d"], *, train: bool = False) -> Float[Array, "b t d"]:
        """Maps x `[b t d]` to `[b t d]`, in training as otherwise."""
        del train
        fields = dict(time_rank=self.time_rank, dtype=self.dtype, name="mixer")
        mixer = ssm.Mixer(self.inner, self.state, self.kernel_size, **fields)
        return blocks.once(x + mixer(norm.RMSNorm(epsilon=1e-5, name="norm")(x)))


class Mamba(text_head.TextModel):
    """The encoder; its batch, heads and common attributes are those of `lwt/layers/text_head.py`.

    Padding is at the end of a row and every layer is causal, so padding cannot influence the text before it.

    Attributes:
        layers: N; expansion: α, inner channels over d; state: d_s, states per channel; kernel_size: k.
        time_rank: rank of the projection to step sizes; 0 means ⌈d/16⌉.
    """

    width: int = 64
    layers: int = 5
    expansion: int = 1
    state: int = 6
    kernel_size: int = 4
    time_rank: int = 0
    segments: int = 3
    pool: str = "rms"

    def setup(self):
        super().setup()
        validate.require_positive(self, "layers", "expansion", "state", "kernel_size")
        if self.time_rank < 0:
            raise validate.refuse(self, "time_rank", must="at least 1, or 0 for ⌈d/16⌉")
        self.embed = text_embed.of(self)
        fields = dict(time_rank=self.time_rank, dtype=self.dtype)
        inner = self.width * self.expansion
        self.block = [Block(inner, self.state, self.kernel_size, **fields) for _ in range(self.layers)]

    def encode(self, batch, *, train, first=False):
        """The last block's states, without dropout or a final norm."""
        del first
        x = self.embed(batch["ids"], batch["segments"])
        return blocks.run(self.block, x, model=self, train=train)
