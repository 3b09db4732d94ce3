"""The harness: every variant is a worker process (`common.py`), and the workers take turns.

Rounds interleave A B A B on one machine, and each variant's memory is measured alone. A measurement keeps compiled
programs in a folder of its own, as training (`machine/compiled.py`) and `torch.compile` keep them: a variant's first
start compiles all of them, and its second start finds them there. Figures of speed are of both processes, since by
chance one may stay slower than another.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks import common
from lwt import errors
from lwt.machine import compiled, memory

PAUSE = 0.5  # seconds
# The same for every worker, PyTorch or JAX; so is the allocator (`memory.tune` in `common.arguments`).
ENVIRONMENT = {
    "OMP_NUM_THREADS": str(common.THREADS),
    "MKL_NUM_THREADS": str(common.THREADS),
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "GLIBC_TUNABLES": memory.TUNABLES,
    **{name.upper(): str(value) for name, value in compiled.SETTINGS.items()},
}
# Where a worker keeps compiled programs, in the folder of the measurement.
KEPT = {compiled.FOLDER.upper(): "jax", "TORCHINDUCTOR_CACHE_DIR": "torch"}
# JAX takes memory as it needs it, so that all workers fit on one GPU.
PLATFORMS = {
    "cpu": {"JAX_PLATFORMS": "cpu"},
    "gpu": {"JAX_PLATFORMS": "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}


class WorkerError(errors.LwtError):
    """A worker ended before it was told to."""


class Worker:
    """The parent's handle of one variant's process.

    If the process ends by itself, calls print what it wrote and raise `WorkerError` with its last line.

    Args:
        name: of the variant.
        arguments: command line of the process.
        device: one of `common.DEVICES`.
        wait: whether to wait until it is ready; else `ready` does.
        kept: folder for its compiled programs; "": none are kept.
    """

    def __init__(self, name, arguments, *, device="cpu", wait=True, kept=""):
        self.name, self.arguments = name, arguments
        folders = {variable: os.path.join(kept, folder) for variable, folder in KEPT.items()} if kept else {}
        self.environment = {**os.environ, **ENVIRONMENT, **PLATFORMS[device], **folders}
        self.log = tempfile.NamedTemporaryFile("w+", prefix="lwt-benchmark-", suffix=".log")
        self.start()
        if wait:
            self.ready()

    def start(self):
        """Starts the process, also again after `quit`."""
        self.process = subprocess.Popen(
            self.arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=self.environment,
        )

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
    share = common.THREADS if clock == "cpu_seconds" else 1
    return [run[unit] / run[clock] * share for run in runs]


def summary(name, facts, *, runs, peaks):
    """One variant's line: median rates, their range over the rounds, and memory.

    Args:
        name: of the variant.
        facts: from `Worker.facts`.
        runs: the worker's answers, each with its ``steps``.
        peaks: of each of its processes, from `Worker.quit`.
    """
    line = {"variant": name, "parameters": facts["parameters"], "rounds": len(runs)}
    line["step_seconds"] = statistics.median(run["seconds"] / run["steps"] for run in runs)
    for unit in ("tokens", "positions", "examples"):
        if unit in runs[0]:
            values = rates(runs, unit)
            line[f"{unit}_per_second"] = statistics.median(values)
            line[f"{unit}_per_second_range"] = [min(values), max(values)]
            line[f"{unit}_per_cpu_second"] = statistics.median(rates(runs, unit, clock="cpu_seconds"))
    line |= dict(zip(("peak_bytes", "second_peak_bytes"), peaks, strict=False))
    line |= {key: facts[key] for key in ("start_bytes", "warmup_seconds")}
    return line | {key: runs[-1][key] for key in ("loss",) if key in runs[-1]}


@contextlib.contextmanager
def started(commands, *, failures, device="cpu", report=print):
    """``{variant name: Worker}`` of variants that are compiled and warm; they end with the block.

    Args:
        commands: ``{variant name: command line of its worker}``.
        failures: receives ``{variant name: why}`` of those that end by themselves, which are left out.
        device: one of `common.DEVICES`. On a GPU the variants compile beside each other, on a CPU one after the other.
        report: called with a line of progress.
    """
    workers = {}
    with tempfile.TemporaryDirectory(prefix="lwt-benchmark-", ignore_cleanup_errors=True) as kept:
        try:
            for name, arguments in commands.items():
                report(f"starting {name} ...")
                with _left_out(name, workers, failures=failures, report=report):
                    workers[name] = Worker(name, arguments, device=device, wait=device == "cpu", kept=kept)
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


def interleave(workers, *, failures, rounds, steps, pause=PAUSE, again=False, report=print):
    """Runs workers A B A B ..., `steps` steps of each in every round; ends them and returns their `summary` lines.

    Args:
        workers: from `started`; those that fail are taken out.
        failures: as in `started`.
        rounds: turns of each process.
        steps: steps per turn, with the same batches for all workers.
        pause: seconds of rest before a turn, in which the previous worker's threads stop spinning.
        again: whether to start each a second time, for as many rounds and its ``second_peak_bytes``. If that fails, the
            figures of the first start stay.
        report: called with a line of progress.
    """
    facts = {name: worker.facts for name, worker in workers.items()}
    runs, peaks = ({name: [] for name in workers} for _ in range(2))
    for start in range(2 if again else 1):
        for name, worker in list(workers.items()) if start else ():
            report(f"starting {name} again ...")
            with _left_out(name, workers, failures=failures, report=report):
                worker.start()
                worker.ready()
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
                peaks[name].append(worker.quit())
    return [summary(name, facts[name], runs=runs[name], peaks=peaks[name]) for name in runs if peaks[name]]


def module_of(name):
    """The worker module of a name in the rows: ``torch_decode`` -> ``benchmarks.torch.decode``."""
    side, _, work = name.partition("_")
    return f"benchmarks.torch.{name}" if side == "ctranslate2" else f"benchmarks.{side}.{work}"
