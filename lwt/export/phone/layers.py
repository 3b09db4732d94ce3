"""Layers as a phone's runtime wants them: the same functions of the same weights, by other operations.

XLA fuses a loop over the taps of a convolution; LiteRT and ONNX fuse nothing, and have convolutions ready. LiteRT also
folds what does not depend on its inputs into a constant of floats, which can be larger than the weights that made it.
"""

import functools

import jax
import jax.numpy as jnp

from lwt.layers import conv, image_conv, linear, listen, text_embed

TAPS = 16  # of a convolution in one piece: XNNPACK, LiteRT's code for CPUs, has none for more than 25


def forms(batch):
    """A context in which the layers of a linen model are traced in these forms.

    Args:
        batch: what the model is given.
    """
    return listen.intercept(functools.partial(_form, batch))


def _form(batch, name, module, call, args, kwargs):
    """Answers a module's call in the form that a phone's runtime wants; see `listen.intercept`."""
    del name
    if type(module) in FORMS:
        return FORMS[type(module)](module, *args)
    if module.name == "position_expander" and isinstance(module.parent, text_embed.NanoEmbed):
        args = (_unfolded(args[0], batch),)
    return call(*args, **kwargs)


def _depthwise_conv(module, x):
    """`conv.DepthwiseConv`, as the sum of convolutions of images that are one pixel high."""
    weights, length = module.variables["params"], x.shape[1]
    kernel, x = weights["kernel"], jnp.repeat(x, module.expansion, axis=-1)
    padded = jnp.pad(x, ((0, 0), (kernel.shape[0] - 1, 0), (0, 0)))
    y = 0
    for i in range(0, kernel.shape[0], TAPS):
        taps = kernel[i : i + TAPS]
        seen = padded[:, None, i : i + length + taps.shape[0] - 1]
        y += _convolve(seen, taps[None], padding=((0, 0), (0, 0)))[:, 0]
    return y + weights["bias"][None, None] if module.use_bias else y


def _separable(module, x):
    """`image_conv.Separable`, with a convolution for its depthwise part."""
    weights = module.variables["params"]
    border = (module.kernel_size // 2,) * 2
    y = _convolve(x, weights["depthwise"], padding=(border, border), stride=module.stride)
    y = linear.linear(y, weights["pointwise"]["kernel"], dtype=module.dtype)
    return y + weights["pointwise"]["bias"][None, None, None] if module.use_bias else y


FORMS = {conv.DepthwiseConv: _depthwise_conv, image_conv.Separable: _separable}


def _convolve(x, kernel, *, padding, stride=1):
    """``x [b h w c]`` by ``kernel [m n c]``, every channel by itself."""
    return jax.lax.conv_general_dilated(
        x.astype(jnp.float32),
        kernel[:, :, None],
        (stride, stride),
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=x.shape[-1],
    )


def _unfolded(rows, batch):
    """The position rows `[t r]`, as if they depended on the batch: otherwise their product with the expander, `[t d]`
    floats, would be stored in place of the two (131 kB and not 20, of EmbBERT in int8)."""
    always = batch["segments"][0, :, None] >= 0
    return jnp.where(always, rows, 0)
