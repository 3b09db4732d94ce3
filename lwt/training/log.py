"""What a run says: one line on the console, one row in ``metrics.jsonl``, and TensorBoard's files, from one call."""

import collections
import json
import math
import os
import pathlib
import time

import jax
from absl import logging

ROWS = "metrics.jsonl"
RECENT = 20  # rows behind "time left", so that a pause or a busy machine is forgotten


class Log:
    """Writes the figures of a run.

    Args:
        workdir: holds ``metrics.jsonl`` and TensorBoard's event files.
        total_steps: length of the run, for the time left.
        active: False makes every method do nothing; None is True on process 0 alone.
    """

    def __init__(self, workdir, *, total_steps, active=None):
        self._workdir, self._total = pathlib.Path(workdir), total_steps
        self._active = jax.process_index() == 0 if active is None else active
        self._began = time.monotonic()
        self._recent = collections.deque(maxlen=RECENT)  # (step, seconds); the first row is past the compilation
        self._later = None  # TensorBoard is told to forget what lies from this step on
        self._rows = self._board = None

    def resume(self, step):
        """Continues the files of an earlier start: rows after `step` are dropped, for they will come again.

        Call it before the first `write`; a run from the beginning calls ``resume(-1)``. A last row that was torn by
        a kill goes as well. The rows' ``time`` goes on from where it was.
        """
        path = self._workdir / ROWS
        if not self._active or not path.exists():
            return
        kept, last = [], 0.0
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                row = json.loads(line)
                keep, at = row["step"] <= step, row["time"]
            except (ValueError, KeyError, TypeError):
                logging.warning("%s:%d: not a row, dropped", path, number)
                continue
            if keep:
                kept.append(line + b"\n")
                last = max(last, at)
        partial = path.with_name(ROWS + ".partial")
        partial.write_bytes(b"".join(kept))
        os.replace(partial, path)
        self._began = time.monotonic() - last
        self._later = step + 1

    def write(self, step, values):
        """One row: ``{"step": .., "time": seconds of the run, **values}``.

        Args:
            step: optimizer steps taken.
            values: numbers by name, such as ``train/loss``. The console leaves ``train/`` out, and gives rates and
                ``real_share`` (the share of tokens that are not padding) their units. What is not finite becomes null
                in the row; a text (a score's signature) goes into the row alone.
        """
        if not self._active:
            return
        seconds = time.monotonic() - self._began
        texts = {name: value for name, value in values.items() if isinstance(value, str)}
        numbers = {name: _number(value) for name, value in values.items() if name not in texts}
        finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
        self._open()
        row = {"step": int(step), "time": round(seconds, 3), **dict.fromkeys(numbers), **finite, **texts}
        self._rows.write(json.dumps(row, allow_nan=False) + "\n")
        self._rows.flush()
        for name, value in finite.items():
            self._board.add_scalar(name, value, step)
        self._board.flush()
        self.say(self._line(step, numbers, self._left(step, seconds)))

    def say(self, text):
        """One line on the console, and nowhere else."""
        if self._active:
            print(text, flush=True)

    def close(self):
        """Closes the files."""
        if self._rows:
            self._rows.close()
            self._board.close()
            self._rows = self._board = None

    def _open(self):
        if self._rows is None:
            import tensorboardX  # here, for it takes torch along (180 MB) wherever that is installed

            self._workdir.mkdir(parents=True, exist_ok=True)
            self._rows = open(self._workdir / ROWS, "a", encoding="utf-8")
            self._board = tensorboardX.SummaryWriter(str(self._workdir), purge_step=self._later)

    def _left(self, step, seconds):
        """Seconds until the end, at the rate of the last rows; None while there is no rate."""
        self._recent.append((step, seconds))
        done, elapsed = step - self._recent[0][0], seconds - self._recent[0][1]
        return elapsed / done * (self._total - step) if done > 0 else None

    def _line(self, step, values, left):
        parts = [f"{step}/{self._total}", *(_show(name, value) for name, value in values.items())]
        if left is not None and step < self._total:
            parts.append(f"{clock(left)} left")
        return "  ".join(parts)


def clock(seconds):
    """Seconds as ``h:mm:ss``."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"


def _number(value):
    return value if isinstance(value, int) else float(value)


def _show(name, value):
    name = name.removeprefix("train/")
    unit = name.removesuffix("_per_second")
    if unit != name and math.isfinite(value):
        return f"{value:,.0f} {unit}/s" if value >= 100 else f"{value:.3g} {unit}/s"
    if name == "real_share" and math.isfinite(value):
        return f"{100 * value:.1f} % real"
    return f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:.4g}"
