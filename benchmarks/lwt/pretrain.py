"""lwt's pre-training step on the batches of `text_samples`: ``--variant=MODEL:float32|bfloat16``."""

from benchmarks import common
from benchmarks.lwt import train
from benchmarks.work import text_samples
from configs import embbert_pretrain
from lwt.machine import command_line

VARIANTS = tuple(f"{model}:{precision}" for model in text_samples.MODELS for precision in ("float32", "bfloat16"))


def main():
    flags = common.arguments(__doc__, VARIANTS, data=text_samples.DATA)
    model, _, precision = flags.variant.partition(":")
    config = embbert_pretrain.get_config(f"model={model},precision={precision}")
    batches = text_samples.batches(model, flags.data, flags.cache, count=flags.batches)
    work = [(batch, text_samples.counts(batch)) for batch in batches]
    run, parameters = train.trainer(config, work, vocabulary=config.data.tokenizer.vocabulary)
    common.serve(run, parameters=parameters, peak=train.peak_bytes, warmup=max(2, flags.batches))


if __name__ == "__main__":
    with command_line.guarded():
        main()
