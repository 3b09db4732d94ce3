"""Runs pre-training steps in PyTorch: ``--variant=MODEL:FORM[+compiled][+bf16]``.

    published  as in the paper's code: logits of every position, most targets ignored, and `Conv1d`
    gathered   logits of the masked positions only, and a channels-last convolution

MODEL is "embbert" or "bert_2mb". "compiled" puts model and loss through `torch.compile`; "bf16" is autocast with
float32 weights. All use fused AdamW; places, targets and masks are made beforehand.
"""

import numpy as np
import torch

from benchmarks import common
from benchmarks.torch import encoder, train
from benchmarks.work import text_samples
from lwt.machine import command_line

FORMS = ("published", "gathered")
VARIANTS = tuple(
    f"{model}:{form}{suffix}" for model in text_samples.MODELS for form in FORMS for suffix in train.SUFFIXES
)
NONE = -100  # no target


def prepare(batches, form):
    """The model's arguments for each batch. With "gathered", all batches have as many places as the fullest."""
    places = [_places(batch) for batch in batches]
    most = max(len(found) for found, _ in places)
    work = []
    for batch, (found, targets) in zip(batches, places, strict=True):
        if form == "gathered":
            fill = (0, most - len(found))
            given = np.pad(targets, fill, constant_values=NONE), np.pad(found, fill)
        else:
            everywhere = np.full(batch["ids"].size, NONE)
            everywhere[found] = targets
            given = (everywhere,)
        ids, segments, following, *given = (
            train.tensor(array).long() for array in (batch["ids"], batch["segments"], batch["next_sentence"], *given)
        )
        mask = torch.zeros(ids.shape).masked_fill(segments == 0, train.BLOCKED)[:, None, None]
        work.append((ids, segments, mask, following, *given))
    return work


def _places(batch):
    """``(places among all positions of the batch, targets)`` of the masked tokens."""
    positions, real = batch["masked_positions"], batch["masked_weights"] > 0
    start = np.arange(len(positions))[:, None] * batch["ids"].shape[1]
    return (start + positions)[real], batch["masked_targets"][real]


def trainer(name, form, options, batches):
    """``(run, parameters)`` of a model; see `VARIANTS`."""
    model = encoder.make(name, **({"channels_last": form == "gathered"} if name == "embbert" else {}))
    loss = train.compiled(model, options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01, fused=True)
    work = [*zip(prepare(batches, form), map(text_samples.counts, batches), strict=True)]
    run = train.runner(lambda item: loss(*item), optimizer, work, bf16="bf16" in options)
    return run, sum(weight.numel() for weight in model.parameters())


def main():
    flags = common.arguments(__doc__, VARIANTS, data=text_samples.DATA)
    name, _, form = flags.variant.partition(":")
    form, *options = form.split("+")
    train.start_torch(flags.device)
    batches = text_samples.batches(name, flags.data, flags.cache, count=flags.batches)
    run, parameters = trainer(name, form, options, batches)
    common.serve(run, parameters=parameters, peak=train.peak_bytes, warmup=max(2, flags.batches))


if __name__ == "__main__":
    with command_line.guarded():
        main()
