"""The harness: every variant is a worker process; the parent tells the workers in turn to run some steps.

A worker prints one JSON line when it is ready (compiled and warm). Then it answers each line on its stdin:

    {"run": 4}   ->  {"seconds": 1.9, "cpu_seconds": 3.7, "examples": 512, "tokens": 6810, "loss": 10.7}
    {"quit": 1}  ->  {"peak_bytes": 1234567890}, and ends

"trace": FOLDER in a request writes a trace of JAX's profiler there. Other keys select one of several kinds of steps.
Rounds interleave A B A B on one machine, and each variant's memory is measured alone.
"""

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks import parsing
from lwt import errors
from lwt.machine import memory

THREADS = 2
PAUSE = 0.5  # seconds
CACHE = os.path.join(tempfile.gettempdir(), "lwt-benchmarks")
DEVICES = ("cpu", "gpu")
# The same for every worker, PyTorch or JAX; so is the allocator (`memory.tune` in `arguments`).
ENVIRONMENT = {
    "OMP_NUM_THREADS": str(THREADS),
    "MKL_NUM_THREADS": str(THREADS),
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "GLIBC_TUNABLES": memory.TUNABLES,
}
# JAX takes memory as it needs it, so that all workers fit on one GPU.
PLATFORMS = {
    "cpu": {"JAX_PLATFORMS": "cpu"},
    "gpu": {"JAX_PLATFORMS": "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}


def arguments(description, variants, *, data="folder:mt_de_en_train", more=None):
    """Parses the flags of a worker; this is a worker's first call.

    It also sets the allocator as lwt's training does, which speeds up PyTorch too where a step takes gigabytes
    (docs/design/speed.md).

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
    return parser.parse_args()


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


class WorkerError(errors.LwtError):
    """A worker ended before it was told to."""


class Worker:
    """The parent's handle of one variant's process.

    If the process ends by itself, calls print what it wrote and raise `WorkerError` with its last line.

    Args:
        name: of the variant.
        arguments: command line of the process.
        device: one of `DEVICES`.
        wait: whether to wait until it is ready; else `ready` does.
    """

    def __init__(self, name, arguments, *, device="cpu", wait=True):
        self.name = name
        self.log = tempfile.NamedTemporaryFile("w+", prefix="lwt-benchmark-", suffix=".log")
        self.process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **ENVIRONMENT, **PLATFORMS[device]},
        )
        if wait:
            self.ready()

    def ready(self):
        """Waits until the worker is compiled and warm; its facts are in `facts`."""
        try:
            self.facts = self._answer()
        except BaseException:  # such as a Ctrl-C while it compiles
            self.kill()
            raise

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            *log, last = self.log.read()[-2000:].splitlines() or [""]
            if log:
                print("\n".join(log), file=sys.stderr, flush=True)
            raise WorkerError(f"variant {self.name} ended with {self.process.wait()}: {last}".rstrip(": "))
        return json.loads(line)

    def ask(self, **request):
        """Sends one request and waits for its answer."""
        with contextlib.suppress(BrokenPipeError):  # of a process that has ended, which `_answer` reports
            print(json.dumps(request), file=self.process.stdin, flush=True)
        return self._answer()

    def quit(self):
        """Ends the worker and returns its peak memory in bytes."""
        peak = self.ask(quit=1)["peak_bytes"]
        self.process.stdin.close()
        self.process.wait()
        return peak

    def kill(self):
        """Ends the process at once."""
        self.process.kill()
        self.process.wait()

    close = kill  # for `contextlib.closing`


def rates(runs, unit, *, clock="seconds"):
    """Units per second, one figure per round; "cpu_seconds" gives the rate on all threads of an idle machine."""
    share = THREADS if clock == "cpu_seconds" else 1
    return [run[unit] / run[clock] * share for run in runs]


def summary(name, facts, *, runs, peak):
    """One variant's line: median rates, their range over the rounds, and memory.

    Args:
        name: of the variant.
        facts: from `Worker.facts`.
        runs: the worker's answers, each with its ``steps``.
        peak: from `Worker.quit`.
    """
    line = {"variant": name, "parameters": facts["parameters"], "rounds": len(runs)}
    line["step_seconds"] = statistics.median(run["seconds"] / run["steps"] for run in runs)
    for unit in ("tokens", "positions", "examples"):
        if unit in runs[0]:
            values = rates(runs, unit)
            line[f"{unit}_per_second"] = statistics.median(values)
            line[f"{unit}_per_second_range"] = [min(values), max(values)]
            line[f"{unit}_per_cpu_second"] = statistics.median(rates(runs, unit, clock="cpu_seconds"))
    line["peak_bytes"] = peak
    line |= {key: facts[key] for key in ("start_bytes", "warmup_seconds")}
    return line | {key: runs[-1][key] for key in ("loss",) if key in runs[-1]}


@contextlib.contextmanager
def started(commands, *, failures, device="cpu", report=print):
    """``{variant name: Worker}`` of variants that are compiled and warm; they end with the block.

    Args:
        commands: ``{variant name: command line of its worker}``.
        failures: receives ``{variant name: why}`` of those that end by themselves, which are left out.
        device: one of `DEVICES`. On a GPU the variants compile beside each other, on a CPU one after the other.
        report: called with a line of progress.
    """
    workers = {}
    try:
        for name, arguments in commands.items():
            report(f"starting {name} ...")
            with _left_out(name, workers, failures=failures, report=report):
                workers[name] = Worker(name, arguments, device=device, wait=device == "cpu")
        for name, worker in list(workers.items()) if device == "gpu" else ():
            with _left_out(name, workers, failures=failures, report=report):
                worker.ready()
        yield workers
    finally:
        for worker in workers.values():
            worker.kill()


@contextlib.contextmanager
def _left_out(name, workers, *, failures, report):
    """Goes on after a block in which the worker `name` fails, without it."""
    try:
        yield
    except WorkerError as error:
        report(f"left out: {error}")
        failures[name] = str(error)
        if name in workers:
            workers.pop(name).kill()


def interleave(workers, *, failures, rounds, steps, pause=PAUSE, report=print):
    """Runs workers A B A B ..., `steps` steps of each in every round; ends them and returns their `summary` lines.

    Args:
        workers: from `started`; those that fail are taken out.
        failures: as in `started`.
        rounds: turns of each worker.
        steps: steps per turn, with the same batches for all workers.
        pause: seconds of rest before a turn, in which the previous worker's threads stop spinning.
        report: called with a line of progress.
    """
    runs, lines = {name: [] for name in workers}, []
    for turn in range(rounds):
        for name, worker in list(workers.items()):
            time.sleep(pause)
            with _left_out(name, workers, failures=failures, report=report):
                runs[name].append(worker.ask(run=steps) | {"steps": steps})
        if workers:
            slowest = max(workers, key=lambda name: runs[name][-1]["seconds"])
            report(f"round {turn + 1} of {rounds}; slowest: {slowest} {runs[slowest][-1]['seconds']:.2f} s")
    for name, worker in list(workers.items()):
        with _left_out(name, workers, failures=failures, report=report):
            lines.append(summary(name, worker.facts, runs=runs[name], peak=worker.quit()))
    return lines


def module_of(name):
    """The worker module of a name in the rows: ``torch_decode`` -> ``benchmarks.torch.decode``."""
    side, _, work = name.partition("_")
    return f"benchmarks.torch.{name}" if side == "ctranslate2" else f"benchmarks.{side}.{work}"
