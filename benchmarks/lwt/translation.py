"""lwt's training step on the translation batches: ``--variant=float32|bfloat16``, packed rows."""

from benchmarks import common
from benchmarks.lwt import train
from benchmarks.work import samples
from lwt.machine import command_line

VARIANTS = ("float32", "bfloat16")


def main():
    flags = common.arguments(__doc__, VARIANTS)
    pairs = samples.translation(flags.data, flags.cache, count=flags.batches * samples.BATCH)
    config, work = train.get_config(precision=flags.variant), samples.packed_work(samples.batches(pairs))
    run, parameters = train.trainer(config, work, vocabulary=samples.VOCABULARY)
    common.serve(run, parameters=parameters, peak=train.peak_bytes, warmup=flags.batches)


if __name__ == "__main__":
    with command_line.guarded():
        main()
