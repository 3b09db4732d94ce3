"""Attention with dropout on its weights."""

import torch
import torch.nn.functional as F

from benchmarks.torch import train


def attend(q, k, v, mask, dropout=0.0):
    """``dropout(softmax(q kᵀ / √w + mask)) v`` `[b h t w]`.

    Written out for a CPU: with dropout, `F.scaled_dot_product_attention` has no kernel there and takes longer.

    Args:
        q: `[b h t w]`; k, v: `[b h s w]`.
        mask: `[b 1 1|t s]`, 0 where allowed and a large negative number elsewhere; None for causal rows.
        dropout: the part of the weights that is dropped.
    """
    if q.is_cuda or not dropout:
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=mask is None)
    b, h, t, w = q.shape
    s = k.shape[2]
    if mask is None:
        mask = q.new_full((t, s), train.BLOCKED).triu(1)
    else:
        mask = mask.to(q.dtype).expand(b, h, -1, s).flatten(0, 1)
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=w**-0.5)
    return (F.dropout(scores.softmax(-1), dropout) @ v).unflatten(0, (b, h))
