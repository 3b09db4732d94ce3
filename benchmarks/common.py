"""What every worker does: a process of one variant, which runs steps when it is asked to (`harness.py`).

It prints one JSON line when it is ready (compiled and warm). Then it answers each line on its stdin:

    {"run": 4}   ->  {"seconds": 1.9, "cpu_seconds": 3.7, "examples": 512, "tokens": 6810, "loss": 10.7}
    {"quit": 1}  ->  {"peak_bytes": 1234567890}, and ends

"trace": FOLDER in a request writes a trace of JAX's profiler there. Other keys select one of several kinds of steps.
"""

import contextlib
import json
import os
import resource
import sys
import tempfile
import time

from benchmarks import parsing
from lwt.machine import memory

THREADS = 2
CACHE = os.path.join(tempfile.gettempdir(), "lwt-benchmarks")
DEVICES = ("cpu", "gpu")


def arguments(description, variants, *, data="folder:mt_de_en_train", more=None):
    """Parses the flags of a worker; this is a worker's first call.

    It also limits the cores, and sets the allocator as lwt's training does, which speeds up PyTorch too where a step
    takes gigabytes (docs/design/speed.md).

    Args:
        description: help text of the program.
        variants: choices of ``--variant``.
        data: default of ``--data``.
        more: function that adds flags to the parser.
    """
    memory.tune()
    names, program = sorted(variants), parsing.program()
    parser = parsing.Parser(
        f"{description.strip()}\n\nA worker of `benchmarks.run` or `benchmarks.attention`, which ask it for steps: "
        "benchmarks/common.py.",
        examples=[f"{program} --variant={names[0]}", f"{program} --variant={names[-1]} --batches=4"],
    )
    parser.add_argument("--variant", choices=names, required=True, help="what to run")
    parser.add_argument("--data", default=data, help="folder:NAME under LWT_DATA")
    parser.add_argument("--cache", default=CACHE, help="folder of tokenizers and batches")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="where it runs")
    text = "number of different batches; steps cycle through them"
    parser.add_argument("--batches", type=parsing.whole(1), default=16, help=text)
    if more:
        more(parser)
    flags = parser.parse_args()
    if flags.device == "cpu":
        limit_cores()
    return flags


def limit_cores():
    """Keeps this process on `THREADS` cores where the system can: XLA starts a thread for every core it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])


def peak_bytes():
    """The peak memory of this process in bytes.

    Linux resets VmHWM when a program starts; ru_maxrss, the fallback, starts at the parent's peak.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forget_peak():
    """Resets `peak_bytes` to what the process holds now, and returns that; only Linux can reset it."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return peak_bytes()


def serve(run, *, parameters, warmup, peak=peak_bytes, **facts):
    """Runs a worker: warms up, reports that it is ready, and answers requests until it is told to quit.

    Args:
        run: ``run(k)`` does k steps, waits for their results and returns a dict of sums over the steps (and ``loss``);
            it gets the other keys of a request by name.
        parameters: number of trained scalars (when decoding: of all), reported with the figures.
        warmup: steps before the first timed one; every shape must occur (and be compiled) in them.
        peak: a function that gives the peak memory so far in bytes, of the process or of the GPU's allocator.
        **facts: anything else to report once.
    """
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not reach the channel
    start = time.perf_counter()
    at_start = peak()
    run(warmup)
    facts |= {"parameters": parameters, "warmup_seconds": time.perf_counter() - start, "start_bytes": at_start}
    print(json.dumps({"ready": True, **facts}), file=channel, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "run" not in request:
            print(json.dumps({"peak_bytes": peak()}), file=channel, flush=True)
            return
        steps, folder = request.pop("run"), request.pop("trace", "")
        wall, cpu = time.perf_counter(), time.process_time()
        with _traced(folder):
            answer = run(steps, **request)
        answer |= {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        print(json.dumps(answer), file=channel, flush=True)


@contextlib.contextmanager
def _traced(folder):
    """Writes a trace of JAX's profiler to `folder`, unless it is ""."""
    if not folder:
        yield
        return
    import jax

    with jax.profiler.trace(folder):
        yield
