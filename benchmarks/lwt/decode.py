"""Decodes 256 sentences greedily in lwt: ``--variant=float32|bfloat16``."""

import functools

import jax
import jax.numpy as jnp

from benchmarks import common
from benchmarks.lwt import train
from benchmarks.work import decoding, samples
from lwt import trees
from lwt.machine import command_line
from lwt.runs import assembly

VARIANTS = ("float32", "bfloat16")


def decode_with(flat, *, precision):
    """``decode(Sources) -> ids [b limit]``."""
    config = train.get_config(precision=precision)
    model, task = assembly.make_model(config, samples.VOCABULARY), assembly.make_task(config)
    params = jax.device_put(trees.unflatten(flat))

    @functools.partial(jax.jit, static_argnames="limit")
    def generate(params, batch, limit):
        return task.generate(functools.partial(model.apply, {"params": params}), batch, length=limit)

    def decode(batch):
        positions = jnp.broadcast_to(jnp.arange(batch.ids.shape[1]), batch.ids.shape)
        segments = (positions < batch.lengths[:, None]).astype(jnp.int32)
        arrays = {"source": batch.ids, "source_segments": segments, "source_positions": positions}
        return jax.device_get(generate(params, arrays, batch.limit))

    return decode


def main():
    flags = common.arguments(__doc__, VARIANTS, more=decoding.add_flags)
    batches, flat = decoding.load(flags)
    run = decoding.runner(decode_with(flat, precision=flags.variant), batches, flags)
    common.serve(run, parameters=sum(weight.size for weight in flat.values()), peak=train.peak_bytes, warmup=2)


if __name__ == "__main__":
    with command_line.guarded():
        main()
