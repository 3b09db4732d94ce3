"""Cross-entropy over the vocabulary in PyTorch, in chunks of tokens: one chunk of logits exists at a time."""

import torch
import torch.nn.functional as F


def _probabilities(logits, targets, count):
    """``(gradient of the mean loss with respect to the logits, sum of losses)`` of a chunk; overwrites `logits`."""
    log_probabilities = F.log_softmax(logits, -1)
    loss = -log_probabilities.gather(1, targets).sum(dtype=torch.float32)
    gradient = log_probabilities.exp_()
    gradient.scatter_add_(1, targets, torch.full_like(targets, -1, dtype=gradient.dtype))
    return gradient.mul_(1 / count), loss


def _fusible_probabilities(logits, targets, count):
    """The same, in a form that `torch.compile` turns into a few passes; computed in float32 for any logits."""
    x = logits.float()
    top = x.amax(-1, keepdim=True)
    exp = (x - top).exp()
    total = exp.sum(-1, keepdim=True)
    loss = (total.log() + top - x.gather(1, targets)).sum()
    hot = torch.arange(x.shape[1], device=x.device) == targets
    return ((exp / total - hot.float()) * (1 / count)).to(logits.dtype), loss


class ChunkedCrossEntropy(torch.autograd.Function):
    """``mean cross-entropy of softmax(hidden @ table.T)``, with the gradient computed alongside: three products.

    Args (of apply):
        hidden: `[n d]`, real tokens only; table: `[v d]`; targets: `[n]`.
        chunk: number of tokens at a time.
        dtype: type of the products' operands.
        probabilities: one of the two functions above, compiled or not.
    """

    @staticmethod
    def forward(ctx, hidden, table, targets, chunk, dtype, probabilities):
        want_table = ctx.needs_input_grad[1]
        h, w, count = hidden.to(dtype), table.to(dtype), len(targets)
        d_hidden = torch.empty_like(hidden)
        d_table = torch.zeros_like(table) if want_table else None
        loss = hidden.new_zeros(())
        for x, y, dx in zip(h.split(chunk), targets[:, None].split(chunk), d_hidden.split(chunk), strict=True):
            d_logits, part = probabilities(x @ w.T, y, count)
            loss += part
            dx.copy_(d_logits @ w)
            if want_table and dtype == torch.float32:
                d_table.addmm_(d_logits.T, x)
            elif want_table:
                d_table += d_logits.T @ x
        ctx.save_for_backward(d_hidden, d_table)
        return loss / count

    @staticmethod
    def backward(ctx, by_loss):
        d_hidden, d_table = ctx.saved_tensors
        return d_hidden * by_loss, None if d_table is None else d_table * by_loss, None, None, None, None
