"""Training steps in PyTorch, as well as they can be written for this CPU: ``--variant=LAYOUT[+compiled][+bf16]``.

    plain      rows padded to the batch's longest, logits of every position: the ordinary collate and loss
    real_loss  the same body, logits of the real target tokens only
    unpadded   sentences packed end to end with block-diagonal attention: 2-D activations, almost no padding anywhere,
               and the loss in chunks of real tokens

"compiled" puts body and loss through `torch.compile`, "graphs" also records the body as CUDA graphs; "bf16" is autocast
with float32 weights. All have fused AdamW. Batches and masks are made beforehand, as a prefetching loader would.
"""

import dataclasses

import torch
import torch.nn.functional as F

from benchmarks import common
from benchmarks.torch import loss, train
from benchmarks.torch import model as torch_model
from benchmarks.work import samples
from lwt.machine import command_line

LAYOUTS = ("plain", "real_loss", "unpadded")
VARIANTS = tuple(layout + suffix for layout in LAYOUTS for suffix in train.SUFFIXES)
CHUNK = 512


def padded(batch):
    """Arguments of the model for rows padded to the longest, and all targets in one row."""
    source, inputs, targets = (
        train.tensor(samples.pad(x)).long() for x in (batch.sources, batch.inputs(), batch.targets)
    )
    mask = torch.zeros(source.shape)[:, None, None, :].masked_fill(
        (source == samples.PAD)[:, None, None, :], train.BLOCKED
    )
    positions = (torch.arange(source.shape[1]), torch.arange(inputs.shape[1]))
    return (source, positions[0], inputs, positions[1], (mask, None, mask), False), targets.flatten()


def packed(batch, rows=None):
    """Arguments of the model for packed rows laid end to end, and all targets."""
    arrays = {name: train.tensor(array).long() for name, array in samples.pack(batch, rows=rows).items()}
    source, target = arrays["source_segments"], arrays["target_segments"]

    def mask(of, to, allowed=True):
        same = (of[:, None, :, None] == to[:, None, None, :]) & allowed
        return torch.zeros(same.shape).masked_fill(~same, train.BLOCKED)

    causal = torch.ones(samples.MAX_LENGTH, samples.MAX_LENGTH, dtype=torch.bool).tril()
    masks = (mask(source, source), mask(target, target, causal), mask(target, source))
    names = ("source", "source_positions", "inputs", "target_positions")
    return (*(arrays[name].flatten() for name in names), masks, True), arrays["targets"].flatten()


@dataclasses.dataclass(frozen=True)
class Work:
    """One batch, ready: `inputs` of the model, all `targets`, the places of the `real` ones, its `counts`."""

    inputs: tuple
    targets: torch.Tensor
    real: torch.Tensor
    counts: dict


def prepare(batches, layout, *, same_rows=False):
    """`Work` for every batch."""
    rows = len(samples.pack_all(batches)[0]["source"]) if same_rows and layout == "unpadded" else None
    work = []
    for batch in batches:
        inputs, targets = packed(batch, rows) if layout == "unpadded" else padded(batch)
        work.append(Work(inputs, targets, (targets != samples.PAD).nonzero()[:, 0], batch.counts))
    return work


def loss_function(layout, *, compiled=False, bf16=False):
    """``loss(hidden, table, work)``: the mean over the batch's real target tokens."""

    def whole(hidden, table, targets):
        return F.cross_entropy(F.linear(hidden, table), targets, ignore_index=samples.PAD)

    if compiled:
        whole = torch.compile(whole, dynamic=True)
        probabilities = torch.compile(loss._fusible_probabilities, dynamic=True)
    else:
        probabilities = loss._probabilities
    dtype = torch.bfloat16 if bf16 else torch.float32

    def plain(hidden, table, work):
        return whole(hidden, table, work.targets)

    def real_loss(hidden, table, work):
        return whole(hidden[work.real], table, work.targets[work.real])

    def unpadded(hidden, table, work):
        hidden = hidden[work.real].float()
        with train.autocast(bf16=False):
            return loss.ChunkedCrossEntropy.apply(hidden, table, work.targets[work.real], CHUNK, dtype, probabilities)

    return {"plain": plain, "real_loss": real_loss, "unpadded": unpadded}[layout]


def trainer(model, table, batches, variant):
    """``run(k)`` for `common.serve`: k training steps of `model` (or of a wrapper with its forward).

    Args:
        model: called with a `Work`'s inputs; its trainable parameters are optimized.
        table: the output table, tied to the embedding.
        variant: a name of `VARIANTS`.
    """
    layout, *options = variant.split("+")
    compiled, graphs, bf16 = (option in options for option in ("compiled", "graphs", "bf16"))
    loss_of = loss_function(layout, compiled=compiled or graphs, bf16=bf16)
    body = train.compiled(model, options, dynamic=compiled and layout != "unpadded")
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True)
    model.train()
    work = [(item, item.counts) for item in prepare(batches, layout, same_rows=compiled or graphs)]
    return train.runner(lambda item: loss_of(body(*item.inputs), table, item), optimizer, work, bf16=bf16)


def main():
    flags = common.arguments(__doc__, VARIANTS)
    train.start_torch(flags.device)
    model = torch_model.Translator()
    pairs = samples.translation(flags.data, flags.cache, count=flags.batches * samples.BATCH)
    run = trainer(model, model.embedding.weight, samples.batches(pairs), flags.variant)
    common.serve(run, parameters=torch_model.count(model), peak=train.peak_bytes, warmup=flags.batches)


if __name__ == "__main__":
    with command_line.guarded():
        main()
