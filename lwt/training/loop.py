"""The only training loop. It takes a built `Run` of functions and never reads a config."""

import collections.abc
import contextlib
import dataclasses
import functools
import time

import jax
import numpy as np
from jax.experimental import multihost_utils

from lwt import errors
from lwt.data.batches import prefetch
from lwt.machine import devices, hardware, interrupts, memory
from lwt.runs import checkpoint
from lwt.training import log as logs
from lwt.training import step as step_module
from lwt.training import stopping as early


@dataclasses.dataclass(frozen=True)
class Run:
    """Everything a run consists of; made by `build.build`.

    Attributes:
        workdir: folder of config.json, metrics.jsonl, TensorBoard's events and checkpoints/.
        steps: optimizer steps of the whole run.
        init: ``() -> State``, the state of step 0, placed on the devices.
        step: the jitted ``(state, frozen, batch) -> state``; donates the state.
        batches: endless training batches of this process's rows, with ``state()`` and ``restore(state)``.
        positions: token positions of a global batch on both sides (or its images), to tell the share of padding.
        evaluate: ``(State) -> dict`` of figures on the validation set.
        finish: ``(sums) -> figures``, the task's.
        rate: ``(step) -> learning rate``.
        leaves: names of the trainable leaves, sorted.
        identity: fingerprints (tokenizer or classes, base) saved with a checkpoint; they must agree to restore it.
        save_adapter: ``(State) -> None``, writes the adapter alone; or None.
        header: lines that say on the console what the run is.
    """

    workdir: str
    steps: int
    init: collections.abc.Callable
    step: collections.abc.Callable
    frozen: dict
    batches: collections.abc.Iterator
    positions: int
    row_sharding: jax.sharding.Sharding
    evaluate: collections.abc.Callable
    finish: collections.abc.Callable
    rate: collections.abc.Callable
    leaves: tuple
    identity: dict
    save_adapter: collections.abc.Callable | None
    log_every: int
    eval_every: int
    save_every: int
    keep_last: int
    select: str
    select_mode: str
    patience: int = 0
    profile_steps: tuple = ()
    header: tuple = ()


def train(run):
    """Trains until ``run.steps``, early stopping, Ctrl-C or a SIGTERM; returns the figures of the last evaluation.

    Raises:
        lwt.errors.NotFinite: a loss, gradient or update was not finite; names the step and the leaves. Checkpoints hold
            finite leaves only.
    """
    # ---- Where to start: the newest good checkpoint of the workdir, else step 0.
    checkpoints = checkpoint.of_run(run.workdir, keep_last=run.keep_last, select=run.select, mode=run.select_mode)
    log = logs.Log(run.workdir, total_steps=run.steps)
    stopping = early.Stopping(run.select, mode=run.select_mode, patience=run.patience)
    state, figures = run.init(), {}
    if checkpoints.last_step() is not None:
        same = functools.partial(checkpoint.check_identity, identity=run.identity, where=checkpoints.folder)
        state, data_state, _ = checkpoints.restore("last", _shapes(state), check=same)
        run.batches.restore(data_state["position"])
        stopping.restore(data_state.get("stopping"))
        figures, metrics = data_state["figures"], checkpoints.metrics(int(state.step))
        if metrics and not data_state.get("evaluated", True):  # it was evaluated later, see below
            figures = metrics
            stopping.update(metrics)
    start, before = int(state.step), jax.device_get(state.sums)  # sums of steps since the last row, before the stop
    if start > run.steps:
        raise errors.ConfigError(f"steps={run.steps}: {run.workdir} holds a run of {start} steps; give as many or more")
    log.resume(start)
    hardware.record(run.workdir)
    for line in (*run.header, f"folder  {run.workdir}, {'resumed after' if start else 'from'} step {start}"):
        log.say(line)
    batches = prefetch.Prefetch(run.batches)
    clock = Clock()

    def report():
        nonlocal pending, before
        if pending:
            step, sums, bad_step = pending
            pending = None
            write_training(run, log, clock=clock, step=step, sums=sums, before=before)
            before = {}
            if int(bad_step) != step_module.NEVER:
                refuse_not_finite(run, state, checkpoints=checkpoints)

    def save(step, *, evaluated, wait):
        data_state = {"position": batches.state(), "identity": run.identity}
        data_state |= {"figures": figures, "evaluated": evaluated}
        data_state |= {"stopping": stopping.state()} if run.patience else {}
        checkpoints.save(step, state, data_state=data_state, metrics=figures if evaluated else None, wait=wait)

    def is_due(step):
        return step == run.steps or step % run.eval_every == 0

    def evaluate(step):
        nonlocal figures
        try:
            figures = run.evaluate(state)
        except Exception:
            if jax.process_count() == 1:  # others may wait for a collective of the evaluation
                save(step, evaluated=False, wait=True)
                log.say(f"the evaluation failed: saved step {step}; the same command evaluates it again")
            raise
        numbers = {name: value for name, value in figures.items() if not isinstance(value, str)}
        shown = [f"validation/{name}" for name in logs.chosen(numbers, run.select)]
        log.write(step, {f"validation/{name}": v for name, v in numbers.items()}, shown=shown)
        stopping.update(figures)

    # ---- The loop. A log line's figures are fetched after the next step is dispatched, so that the device never waits.
    pending = None
    with (
        checkpoints,
        contextlib.closing(log),
        contextlib.closing(batches),
        interrupts.deferred() as asked,
        Profiler(run) as profile,
    ):
        if start and is_due(start) and not checkpoints.metrics(start):  # its evaluation failed
            evaluate(start)
            checkpoints.add_metrics(start, figures)
        for step in range(start + 1, (start if stopping.over else run.steps) + 1):
            profile(step)
            batch = devices.put_rows(next(batches), run.row_sharding)
            if step == start + 1:
                log.say("compiling ...")
            state = run.step(state, run.frozen, batch)
            memory.settle()
            log.advance(step)
            if jax.device_count() > 1 and jax.default_backend() == "cpu":
                jax.block_until_ready(state.step)  # simulated devices deadlock when steps queue up
            report()
            last = step == run.steps or bool(asked() if jax.process_count() == 1 else preempted(step))
            if step % run.log_every == 0 or step == run.steps:  # a signal adds no row: the sums are saved as they are
                pending = (step, state.sums, state.bad_step + 0)  # a copy: the next step takes the state's buffers
                state = state.replace(sums=jax.tree.map(lambda x: x * 0, state.sums))
            if last or step % run.eval_every == 0 or step % run.save_every == 0:
                report()
                with clock.paused():
                    refuse_not_finite(run, state, checkpoints=checkpoints)
                    if evaluated := is_due(step):
                        evaluate(step)
                    save(step, evaluated=evaluated, wait=last or stopping.over)
            if stopping.over:
                break
            if last and step < run.steps:
                log.say(f"{asked() or 'SIGTERM'}: saved step {step}; the same command resumes from here")
                break
        if run.save_adapter:  # of the step that an evaluation uses
            best = checkpoints.best_step() in (None, int(state.step))
            run.save_adapter(state if best else checkpoints.restore("best", _shapes(state))[0])
        if stopping.over:
            log.say(f"stopped at step {int(state.step)} of {run.steps}: {stopping}")
    if int(state.step) < run.steps and not stopping.over:
        interrupts.stop()
    return figures


def preempted(step):
    """Whether any of several processes got a SIGTERM; all learn of it at the same step."""
    return multihost_utils.reached_preemption_sync_point(step)


def _shapes(state):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)


def refuse_not_finite(run, state, *, checkpoints):
    """Raises if the loss or a gradient of a step so far was not finite, or if a trainable leaf is not finite now."""
    bad, names = int(state.bad_step), step_module.not_finite(state.trainable)
    if bad == step_module.NEVER and not names:
        return
    what = "update"
    if names:  # the step before made them so, or an older one if no batch has used them since
        bad = min(bad - 1, int(state.step))
    else:
        what = "loss or gradient"
        names = [name for name, is_bad in zip(run.leaves, np.asarray(state.bad_leaves)) if is_bad]
    checkpoints.wait()
    last = checkpoints.last_step()
    raise errors.NotFinite(
        f"step {bad}: {what} not finite, first in {', '.join(names[:5]) or 'the loss itself'}"
        f"{f' and {len(names) - 5} more leaves' if len(names) > 5 else ''}; "
        f"{'there is no checkpoint yet' if last is None else f'the last good checkpoint is step {last}'}; "
        "lower optimizer.learning_rate or set optimizer.clip_norm"
    )


def write_training(run, log, *, clock, step, sums, before):
    """Writes one row of training figures: means over the steps since the last row.

    Of a resumed run, some steps of its first row were `before` the stop; their time is not known, so that they do not
    count for the speeds.
    """
    sums = {name: float(value) for name, value in jax.device_get(sums).items()}
    steps = max(sums.pop("steps"), 1.0)
    norm = sums.pop("grad_norm") / steps
    unit = "tokens" if "tokens" in sums else "examples"  # images
    count, seconds = sums[unit], clock.lap()
    speeds = {unit: count - before.get(unit, 0.0), "steps": steps - before.get("steps", 0.0)}
    row = {f"train/{name}": value for name, value in run.finish(sums).items() if name != "tokens"}
    row |= {"train/grad_norm": norm, "train/learning_rate": float(run.rate(step - 1))}
    row |= {f"train/{name}_per_second": float(value) / seconds for name, value in speeds.items()}
    row["train/real_share"] = (count + sums.get("source_tokens", 0.0)) / (steps * run.positions)
    log.write(step, row)


class Clock:
    """Measures the time spent training; evaluation and saving do not count."""

    def __init__(self):
        self._start = time.perf_counter()

    @contextlib.contextmanager
    def paused(self):
        """Stops the clock inside the block."""
        begin = time.perf_counter()
        yield
        self._start += time.perf_counter() - begin

    def lap(self):
        """Seconds since the last lap."""
        before, self._start = self._start, time.perf_counter()
        return max(self._start - before, 1e-9)


class Profiler:
    """Traces the steps ``profile_steps``, first to last, into the workdir, for TensorBoard."""

    def __init__(self, run):
        self._run, self._tracing = run, False

    def __enter__(self):
        return self

    def __call__(self, step):
        """Call it before every step."""
        first, last = self._run.profile_steps or (0, 0)
        if self._tracing and step > last:
            self.__exit__()
        elif not self._tracing and first <= step <= last:
            jax.profiler.start_trace(self._run.workdir)
            self._tracing = True

    def __exit__(self, *_):
        if self._tracing:
            jax.profiler.stop_trace()
            self._tracing = False
