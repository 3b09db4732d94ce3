"""Depthwise causal convolution along the positions: output t sees the inputs t-k+1..t of its own channel."""

import torch
import torch.nn.functional as F

from benchmarks.torch import train


def channels_first(x, weight, bias):
    """The usual form, ``Conv1d`` with as many groups as channels: x `[b t d]`, weight `[d 1 k]`, bias `[d]`."""
    padded = F.pad(x.transpose(1, 2), (weight.shape[-1] - 1, 0))
    return F.conv1d(padded, weight, bias, groups=x.shape[-1]).transpose(1, 2)


def channels_last(x, weight, bias):
    """The same on `[b t d]` as stored, several times as fast; in float32 under autocast too."""
    with train.autocast(bf16=False):
        return Causal.apply(x.float(), weight) + bias


class Causal(torch.autograd.Function):
    """The convolution without its bias: oneDNN's channels-last kernel, forward and for the gradient of x.

    oneDNN's gradient of the weights is slow, so `_weight_gradient` uses matrix products.
    """

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return _taps(x, weight, first=0)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        k = weight.shape[-1]
        return _taps(dy, weight.flip(-1), first=k - 1), _weight_gradient(x, dy, k)


def _taps(x, weight, *, first):
    """As many outputs as x has positions, from `first` on, of the convolution of x `[b t d]`, k-1 zeros around."""
    d, _, k = weight.shape
    y = F.conv2d(x.transpose(1, 2)[:, :, None], weight[:, :, None], padding=(0, k - 1), groups=d)
    return y[:, :, 0].transpose(1, 2)[:, first : first + x.shape[1]]


def _weight_gradient(x, dy, k):
    """``d[c, 0, i] = Σ dy[t, c] · x[t - (k-1) + i, c]``, `[d 1 k]`.

    Positions are cut into pieces of m ≥ k. A piece of dy meets its own piece of x and the one before in an `[m 2m]`
    product a channel, summed over pieces and rows; d[i] is the sum of one of its diagonals, and diagonals become
    columns when rows of 2m are read as rows of 2m + 1.
    """
    b, t, d = x.shape
    m = max(k, 32)
    pieces = -(-t // m)
    own, dy = (_by_channel(a, pieces * m) for a in (x, dy))
    own = own.view(d, b, pieces, m)
    before = F.pad(own, (0, 0, 1, 0))[:, :, :-1]
    both = torch.cat([before, own], dim=-1).view(d, b * pieces, 2 * m)
    products = torch.bmm(dy.view(d, b * pieces, m).transpose(1, 2), both)
    diagonals = F.pad(products.view(d, 2 * m * m), (0, m)).view(d, m, 2 * m + 1)
    return diagonals.sum(1)[:, None, m - k + 1 : m + 1]


def _by_channel(x, length):
    """`[b t d]` -> `[d b length]`, zeros at the end: a matrix transposition, for which PyTorch has a fast kernel."""
    b, t, d = x.shape
    rows = x.reshape(b * t, d).T.contiguous().view(d, b, t)
    return F.pad(rows, (0, length - t)) if length > t else rows
