"""lwt's training step of a Vision Transformer: ``--variant=vit|vlora:float32|bfloat16``.

"vlora" is its Vertical LoRA, rank 4, mode "recursive". The task normalises the images in the step.
"""

from benchmarks import common
from benchmarks.lwt import train
from benchmarks.work import image_samples
from configs import vlora_cifar10
from lwt.machine import command_line

RANKS = {"vit": 0, "vlora": 4}
VARIANTS = tuple(f"{model}:{precision}" for model in RANKS for precision in ("float32", "bfloat16"))


def get_config(model, precision, size):
    """The config of CIFAR-10 without augmentation and without clipping, as the PyTorch worker."""
    config = vlora_cifar10.get_config(f"rank={RANKS[model]},precision={precision},size={size},augment=none")
    config.optimizer.clip_norm = 0.0
    return config


def main():
    flags = common.arguments(__doc__, VARIANTS, data=image_samples.DATA, more=image_samples.add_size)
    model, _, precision = flags.variant.partition(":")
    work = [(batch, image_samples.counts(batch)) for batch in image_samples.batches(count=flags.batches)]
    run, parameters = train.trainer(get_config(model, precision, flags.size), work, vocabulary=0)
    common.serve(run, parameters=parameters, peak=train.peak_bytes, warmup=2)


if __name__ == "__main__":
    with command_line.guarded():
        main()
