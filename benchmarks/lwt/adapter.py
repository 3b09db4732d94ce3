"""lwt's LoRA of rank 16 on q, k, v, and full fine-tuning, on arithmetic: ``--variant=lora|full:float32|bfloat16``."""

from benchmarks import common
from benchmarks.lwt import train
from benchmarks.work import samples
from lwt.machine import command_line

VARIANTS = tuple(f"{method}:{precision}" for method in ("lora", "full") for precision in ("float32", "bfloat16"))
LORA = dict(name="lora", rank=16, alpha=16.0)


def main():
    flags = common.arguments(__doc__, VARIANTS)
    method, _, precision = flags.variant.partition(":")
    pairs = samples.arithmetic(flags.data, flags.cache, count=flags.batches * samples.BATCH)
    config = train.get_config(precision=precision, reparam=LORA if method == "lora" else None)
    work = samples.packed_work(samples.batches(pairs))
    run, parameters = train.trainer(config, work, vocabulary=samples.VOCABULARY)
    common.serve(run, parameters=parameters, peak=train.peak_bytes, warmup=flags.batches)


if __name__ == "__main__":
    with command_line.guarded():
        main()
