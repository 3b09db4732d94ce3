"""Other forms of layers for phones' runtimes: the same functions of the same weights, with other operations.

XLA fuses a loop over the taps of a convolution. LiteRT and ONNX fuse nothing, but have convolutions. LiteRT also folds
values that depend on no input into a constant of floats, which can be larger than the weights it was made from. Its
converter has no loops, and those of ONNX are slow.
"""

import functools

import jax
import jax.numpy as jnp
from jax import export

from lwt.layers import conv, image_conv, linear, listen, ssm, text_embed

TAPS = 16  # most taps of one convolution; XNNPACK, LiteRT's code for CPUs, has none with more than 25


def forms(batch):
    """A context in which the layers of a linen model are traced in these forms; `batch` is the model's input."""
    return listen.intercept(functools.partial(_form, batch))


def _form(batch, name, module, call, args, kwargs):
    """Answers a module's call in another form, if it has one; see `listen.intercept`."""
    del name
    if type(module) in FORMS:
        return FORMS[type(module)](module, *args)
    if module.name == "position_expander" and isinstance(module.parent, text_embed.TextEmbed):
        args = (_unfolded(args[0], batch),)
    return call(*args, **kwargs)


def _depthwise_conv(module, x):
    """`conv.DepthwiseConv` as a sum of convolutions of images one pixel high."""
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
    """`image_conv.Separable` with one convolution as its depthwise part."""
    weights = module.variables["params"]
    border = (module.kernel_size // 2,) * 2
    y = _convolve(x, weights["depthwise"], padding=(border, border), stride=module.stride)
    y = linear.linear(y, weights["pointwise"]["kernel"], dtype=module.dtype)
    return y + weights["pointwise"]["bias"][None, None, None] if module.use_bias else y


def _scan(module, x, time, a, b, c):
    """`ssm.Scan` over all t positions at once, in log2(t) steps (Hillis and Steele 1986); a loop if t is open."""
    del module
    if export.is_symbolic_dim(x.shape[1]):
        return ssm.selective_scan(x, time, a=a, b=b, c=c)
    decay, states = jnp.exp(time[:, :, None] * a[None, None]), b[..., None] * (time * x)[:, :, None]
    reach = 1  # positions that a state covers, which end with its own
    while reach < x.shape[1]:
        states += decay * _later(states, reach)
        decay *= _later(decay, reach)
        reach *= 2
    return (states * c[..., None]).sum(2)


def _later(x, positions):
    """Moves ``x [b t n i]`` to later positions; the first ones become 0."""
    return jnp.pad(x[:, :-positions], ((0, 0), (positions, 0), (0, 0), (0, 0)))


FORMS = {conv.DepthwiseConv: _depthwise_conv, image_conv.Separable: _separable, ssm.Scan: _scan}


def _convolve(x, kernel, *, padding, stride=1):
    """Convolves ``x [b h w c]`` with ``kernel [m n c]``, each channel separately."""
    return jax.lax.conv_general_dilated(
        x.astype(jnp.float32),
        kernel[:, :, None],
        (stride, stride),
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=x.shape[-1],
    )


def _unfolded(rows, batch):
    """Makes the position rows `[t r]` depend on the batch, so that LiteRT does not fold them.

    It would store their product with the expander, `[t d]` floats: 131 kB instead of 20 kB for EmbBERT in int8.
    """
    always = batch["segments"][0, :, None] >= 0
    return jnp.where(always, rows, 0.0)
