"""The two baselines without an encoder: Embedder, and Embedder + Conv.

Source: "EmbBERT-Q", section 4.1 and Table 2, which prints 293 K and 298 K weights (v=8192, l=256, d=320, r=32, k=16).

The tables, expanders and three segment rows of the published code have 291,776 weights, 297,216 with the convolution:
3d = 960 fewer than the counts that round to the printed ones. The defaults here reach those, 292,736 and 298,176, with
biases in both expanders (2d) and an RMSNorm after the embedder (d). Where the paper has the 3d is a guess; the
published code is ``use_bias=False, norm="none"``.
"""

from lwt.layers import conv, text_embed, text_head, validate
from lwt.layers import norm as norms

NORMS = ("none", *norms.KINDS)


class Embedder(text_head.TextModel):
    """The model; its batch, heads and common attributes are those of `lwt/layers/text_head.py`.

    The classifier's root mean square omits padding, which the authors' code includes.

    Attributes:
        reduced, use_bias, segments: see `text_embed.TextEmbed`.
        kernel_size: k of a depthwise causal convolution after the embedder; 0 for none (16 in Embedder + Conv).
        norm: "rms", "layer" or "none", after the embedder.
    """

    width: int = 320
    reduced: int = 32
    kernel_size: int = 0
    use_bias: bool = True
    norm: str = "rms"
    segments: int = 3
    pool: str = "rms"

    def setup(self):
        super().setup()
        validate.require_positive(self, "reduced")
        validate.require_choices(self, norm=NORMS)
        if self.kernel_size < 0:
            raise validate.refuse(self, "kernel_size", must="at least 1, or 0 for none")
        self.embed = text_embed.of(self, reduced=self.reduced, use_bias=self.use_bias)
        if self.norm != "none":
            self.embed_norm = norms.make(self.norm, epsilon=1e-6)
        if self.kernel_size:
            self.conv = conv.DepthwiseConv(self.kernel_size)

    def encode(self, batch, *, train, first=False):
        """The embedded (and convolved) positions; only the head has dropout."""
        del train, first
        x = self.embed(batch["ids"], batch["segments"])
        if self.norm != "none":
            x = self.embed_norm(x)
        return self.conv(x) if self.kernel_size else x
