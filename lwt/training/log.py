"""The log of a run: one call writes a line on the console, a row in ``metrics.jsonl``, and TensorBoard's files.

On a terminal a progress bar follows the steps below the lines.
"""

import collections
import json
import logging
import math
import pathlib
import sys
import time

import jax

from lwt import files

LOG = logging.getLogger(__name__)
ROWS = "metrics.jsonl"
PADDING = "train/real_share"  # of the mean positions of a batch, so that rows of long batches are above 1
SHOWN = 5  # figures of an evaluation on the console; metrics.jsonl has all
RECENT = 20  # rows behind "time left", so that a pause or a busy machine is forgotten


class Log:
    """Writes the figures of a run; `active` is None to write on process 0 only."""

    def __init__(self, workdir, *, total_steps, active=None):
        self._workdir, self._total = pathlib.Path(workdir), total_steps
        self._active = jax.process_index() == 0 if active is None else active
        self._began = time.monotonic()
        self._recent = collections.deque(maxlen=RECENT)  # (step, seconds); the first row is past the compilation
        self._later = None  # TensorBoard drops what it has from this step on
        self._rows = self._board = self._bar = None

    def resume(self, step):
        """Continues the files of an earlier start; call it before the first `write`, with 0 if there was none.

        Rows after `step` are dropped, since they will be written again, and so is a last row that a kill cut short.
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
                LOG.warning("%s:%d: not a row; dropped", path, number)
                continue
            if keep:
                kept.append(line + b"\n")
                last = max(last, at)
        files.write_bytes(path, b"".join(kept))
        self._began = time.monotonic() - last
        self._later = step + 1

    def write(self, step, values, *, shown=None):
        """Writes the row ``{"step": .., "time": seconds of the run, **values}``.

        Values that are not finite become null; texts (a score's signature) are not printed on the console.

        Args:
            shown: names of the values that the console shows, in this order; None: all.
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
        said = numbers if shown is None else {name: numbers[name] for name in shown}
        self.say(self._line(step, said, self._left(step, seconds)))

    def say(self, text):
        """Prints one line on the console, above the bar."""
        if self._active and self._bar is not None:
            self._bar.write(text)
        elif self._active:
            print(text, flush=True)

    def advance(self, step):
        """Moves the bar to `step`, on a terminal. It costs no wait for the device."""
        if self._bar is None and self._active and sys.stdout.isatty() and sys.stderr.isatty():
            import tqdm

            self._bar = tqdm.tqdm(total=self._total, initial=step, unit="step", dynamic_ncols=True, leave=False)
        elif self._bar is not None:
            self._bar.update(step - self._bar.n)

    def close(self):
        """Closes the files, and removes the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._rows:
            self._rows.close()
            self._board.close()
            self._rows = self._board = None

    def _open(self):
        if self._rows is None:
            self._workdir.mkdir(parents=True, exist_ok=True)
            self._rows = open(self._workdir / ROWS, "a", encoding="utf-8")
            self._board = _tensorboard().SummaryWriter(str(self._workdir), purge_step=self._later)

    def _left(self, step, seconds):
        """Seconds until the end, at the rate of the last rows; None before there is a rate."""
        self._recent.append((step, seconds))
        done, elapsed = step - self._recent[0][0], seconds - self._recent[0][1]
        return elapsed / done * (self._total - step) if done > 0 else None

    def _line(self, step, values, left):
        parts = [f"{step}/{self._total}", *(_show(name, value) for name, value in values.items() if name != PADDING)]
        more = left is not None and step < self._total
        return "  ".join([*parts, f"{clock(left)} left"] if more else parts)


def _tensorboard():
    """tensorboardX without PyTorch, which it imports where that is installed: 180 MB, and more than a second."""
    if hidden := "torch" not in sys.modules:
        sys.modules["torch"] = None
    try:
        import tensorboardX
    finally:
        if hidden:
            del sys.modules["torch"]
    return tensorboardX


def chosen(figures, select):
    """Names of the figures of an evaluation for the console: `select`, the loss, and some that are not counts."""
    others = [name for name, value in figures.items() if "/" not in name and isinstance(value, float)]
    return [name for name in dict.fromkeys([select, "loss", *others]) if name in figures][:SHOWN]


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
    return f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:.4g}"
