"""The harness: every variant is a worker process that runs some steps when told to; the parent tells them in turn.

A worker prints one JSON line when it is ready (compiled and warm), then answers each line on its stdin:

    {"run": 4}   ->  {"seconds": 1.9, "cpu_seconds": 3.7, "examples": 512, "tokens": 6810, "loss": 10.7}
    {"quit": 1}  ->  {"peak_bytes": 1234567890}, and ends

What else a command holds says which of several kinds of steps is meant. So A B A B rounds interleave on one machine,
and the memory of each variant is measured alone.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from lwt.machine import memory

THREADS = 2
CACHE = os.path.join(tempfile.gettempdir(), "lwt-benchmarks")
# The same for every worker, PyTorch or JAX, as is the allocator (`memory.settle`, in `arguments`).
ENVIRONMENT = {
    "OMP_NUM_THREADS": str(THREADS),
    "MKL_NUM_THREADS": str(THREADS),
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "JAX_PLATFORMS": "cpu",
    "GLIBC_TUNABLES": memory.TUNABLES,
}


def arguments(description, variants, *, data="folder:mt_de_en_train", more=None):
    """The flags that every worker understands, parsed; ``more(parser)`` adds some, `data` is that flag's default.

    A worker's first call: it sets the allocator, as lwt's training does. PyTorch gains by that too, where a step takes
    gigabytes (docs/design/speed.md).
    """
    memory.settle()
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=sorted(variants), required=True)
    parser.add_argument("--data", default=data, help="folder:NAME under LWT_DATA")
    parser.add_argument("--cache", default=CACHE)
    parser.add_argument("--batches", type=int, default=16, help="different batches; steps go round and round")
    if more:
        more(parser)
    return parser.parse_args()


def peak_bytes():
    """Most memory this process ever held.

    Linux's VmHWM starts afresh when a program starts; ru_maxrss, the fall-back, begins at what the parent held.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forget_peak():
    """Lets `peak_bytes` start afresh, from what the process holds now: these bytes. Elsewhere than on Linux the peak
    stays what it was."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return peak_bytes()


def serve(run, *, parameters, warmup, **facts):
    """A worker's whole life: warms up, says that it is ready, answers until it is told to quit.

    Args:
        run: ``run(k)`` does k steps, waits for their results and returns a dict of sums over the steps (and ``loss``);
            what else the command holds comes by name.
        parameters: number of scalars that are trained (or, decoding, that there are), reported with the figures.
        warmup: steps before the first that is timed: all shapes have to be seen (compiled) in them.
        **facts: anything else to say once.
    """
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not reach the channel
    start = time.perf_counter()
    at_start = peak_bytes()
    run(warmup)
    facts |= {"parameters": parameters, "warmup_seconds": time.perf_counter() - start, "start_bytes": at_start}
    print(json.dumps({"ready": True, **facts}), file=channel, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if "run" not in command:
            print(json.dumps({"peak_bytes": peak_bytes()}), file=channel, flush=True)
            return
        steps = command.pop("run")
        wall, cpu = time.perf_counter(), time.process_time()
        answer = run(steps, **command)
        answer |= {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        print(json.dumps(answer), file=channel, flush=True)


class Worker:
    """One variant's process, seen from the parent."""

    def __init__(self, name, command, *, environment=None):
        self.name = name
        self.log = tempfile.NamedTemporaryFile("w+", prefix="lwt-benchmark-", suffix=".log")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **ENVIRONMENT, **(environment or {})},
        )
        self.facts = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise RuntimeError(f"variant {self.name} ended with {self.process.wait()}:\n{self.log.read()[-2000:]}")
        return json.loads(line)

    def ask(self, **command):
        """Sends one command, waits for its answer."""
        print(json.dumps(command), file=self.process.stdin, flush=True)
        return self._answer()

    def quit(self):
        """Ends the worker; its peak memory."""
        peak = self.ask(quit=1)["peak_bytes"]
        self.process.stdin.close()
        self.process.wait()
        return peak


def rates(runs, unit, *, clock="seconds"):
    """Units a second, one figure a round. With the CPU clock: on all threads, as if nobody else used the machine."""
    share = THREADS if clock == "cpu_seconds" else 1
    return [run[unit] / run[clock] * share for run in runs]


def summary(name, worker_facts, runs, peak):
    """One variant's line: median rates, their spread over the rounds, memory."""
    line = {"variant": name, "parameters": worker_facts["parameters"], "rounds": len(runs)}
    line["step_seconds"] = statistics.median(run["seconds"] / run["steps"] for run in runs)
    for unit in ("tokens", "positions", "examples"):
        if unit in runs[0]:
            values = rates(runs, unit)
            line[f"{unit}_per_second"] = statistics.median(values)
            line[f"{unit}_per_second_range"] = [min(values), max(values)]
            line[f"{unit}_per_cpu_second"] = statistics.median(rates(runs, unit, clock="cpu_seconds"))
    line["peak_bytes"] = peak
    line |= {key: worker_facts[key] for key in ("start_bytes", "warmup_seconds")}
    return line | {key: runs[-1][key] for key in ("loss",) if key in runs[-1]}


def interleave(commands, *, rounds, steps, pause=0.5, report=print):
    """Runs variants A B A B ...: `rounds` times `steps` steps of each; returns their `summary` lines.

    Args:
        commands: variant name -> ``(command, environment)``.
        rounds: how often each variant gets its turn.
        steps: steps of a turn, the same batches for everyone.
        pause: seconds of rest before a turn (idle threads of the last one stop spinning).
        report: called with a line of progress.
    """
    workers, runs, lines = {}, {name: [] for name in commands}, []
    try:
        for name, (command, environment) in commands.items():
            report(f"starting {name} ...")
            workers[name] = Worker(name, command, environment=environment)
        for turn in range(rounds):
            for name, worker in workers.items():
                time.sleep(pause)
                runs[name].append(worker.ask(run=steps) | {"steps": steps})
            slowest = max(runs, key=lambda name: runs[name][-1]["seconds"])
            report(f"round {turn + 1} of {rounds}; slowest: {slowest} {runs[slowest][-1]['seconds']:.2f} s")
        for name, worker in workers.items():
            lines.append(summary(name, worker.facts, runs[name], worker.quit()))
    finally:
        for worker in workers.values():
            worker.process.kill()
            worker.process.wait()
    return lines


def module_of(name):
    """``torch_decode`` -> ``benchmarks.torch.decode``, the worker that measures its variants."""
    side, _, work = name.partition("_")
    return f"benchmarks.torch.{name}" if side == "ctranslate2" else f"benchmarks.{side}.{work}"
