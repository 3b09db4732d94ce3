"""What a setting costs: the memory of a training step as compiled, its time, and the time to merge the adapter."""

import os
import statistics
import time

import jax

from lwt import errors, trees
from lwt.inspect import cost
from lwt.machine import devices, hardware
from lwt.reparam import adapters, compose
from lwt.report import study
from lwt.runs import experiment
from lwt.training import build

STEPS = 30
REPEATS = 5
LENGTH = 32  # of a row, where memory is measured


def run(entry, workdir, *, record, config):
    """Measures a setting unless that is done; returns its record.

    Args:
        entry: a `study.Entry`.
        workdir: of the study.
        record: path of the record in the folder of the entry.
        config: of a run of this setting.
    """
    folder = os.path.join(workdir, entry.name)
    kept = study.read_record(folder, record)
    if kept:
        return kept
    base = experiment.arrays_of(config.init_from, config.init_checkpoint)
    made = build.build(config, folder, base=base)
    hardware.record(folder)
    measured = cost.measure(config, row_length=min(LENGTH, config.data.row_length))
    found = {
        "arguments": entry.arguments,
        "config": entry.spec,
        "memory": sum(measured[key] for key in ("parameter_bytes", "optimizer_bytes", "activation_bytes")),
        "step_seconds": step_seconds(made),
        "merge_seconds": merge_seconds(config, base),
        "hardware": hardware.of_run(folder),
    }
    study.write_record(folder, found, record=record)
    return found


def step_seconds(made):
    """Median seconds of `STEPS` steps of a built run on one batch, behind two more."""
    batch = devices.put_rows(next(made.batches), made.row_sharding)
    state, seconds = made.init(), []
    for _ in range(STEPS + 2):
        begin = time.perf_counter()
        state = jax.block_until_ready(made.step(state, made.frozen, batch))
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[2:])


def merge_seconds(config, base):
    """Median seconds to write a fresh adapter into the weights `base`; None if none can be merged."""
    reparam = compose.build(config.reparam)
    leaves = reparam.init(jax.random.key(0), base)
    if not trees.count(leaves):
        return None
    adapter = adapters.Adapter(leaves=leaves, config=config.reparam.to_dict())
    merge, seconds = jax.jit(adapter.merged), []
    try:
        merge(base)
    except errors.ConfigError:  # a nonlinear adapter stays a layer of its own
        return None
    for _ in range(REPEATS):
        begin = time.perf_counter()
        jax.block_until_ready(merge(base))
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)
