"""LoRA of rank 16 on q, k, v by HF PEFT on short arithmetic sequences: ``--variant=METHOD:LAYOUT[+compiled][+bf16]``.

METHOD is "lora" or "full" (fine-tuning all weights); the layouts are those of `torch_translation`: "lora:plain" is
unmodified PEFT, "lora:real_loss" computes the vocabulary loss on real tokens only, "lora:unpadded" also packs.
"""

from benchmarks import common
from benchmarks.torch import model as torch_model
from benchmarks.torch import train, translation
from benchmarks.work import samples
from lwt.machine import command_line

VARIANTS = tuple(f"{method}:{name}" for method in ("lora", "full") for name in translation.VARIANTS)


def adapted(model, *, rank=16):
    """The model wrapped in PEFT's LoRA, which trains only the adapter."""
    from benchmarks.torch import timm  # noqa: F401, PEFT imports torchvision, which `timm` makes importable

    # isort: split
    import peft

    targets = ["query", "key", "value"]
    config = peft.LoraConfig(r=rank, lora_alpha=rank, lora_dropout=0.0, target_modules=targets, bias="none")
    return peft.get_peft_model(model, config)


def main():
    flags = common.arguments(__doc__, VARIANTS)
    method, _, variant = flags.variant.partition(":")
    train.start_torch(flags.device)
    model = torch_model.Translator()
    table = model.embedding.weight
    model = adapted(model) if method == "lora" else model
    pairs = samples.arithmetic(flags.data, flags.cache, count=flags.batches * samples.BATCH)
    run = translation.trainer(model, table, samples.batches(pairs), variant)
    common.serve(run, parameters=torch_model.count(model, trained=True), peak=train.peak_bytes, warmup=flags.batches)


if __name__ == "__main__":
    with command_line.guarded():
        main()
