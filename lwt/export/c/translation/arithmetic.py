"""The arithmetic of ``source/engine.c`` and ``source/states_*.c`` in NumPy, to the bit, for many rows at once.

Everything is float32 and added in the order of the C program; integers are exact in float64, which BLAS multiplies.
"""

import numpy as np

from lwt.layers import linear, quantized_weight

F = np.float32
MOST = 32767


def to_operand(rows):
    """Rounds rows `[n k]` to integers of 16 bits `[n k]` (as float64) and steps `[n 1]`."""
    largest = np.abs(rows).max(-1, keepdims=True, initial=F(0))
    units = np.divide(F(MOST), largest, out=np.zeros_like(largest), where=largest > 0)
    return rounded(rows * units), largest / F(MOST)


def rounded(values):
    """Rounds to the nearest integer, halves away from zero; as float64."""
    return np.trunc(values + np.where(values < 0, F(-0.5), F(0.5))).astype(np.float64)


class Linear:
    """``x W + b`` of a quantized kernel `[in out]`, or of two factors; `None` as kernel: the bias alone."""

    def __init__(self, kernel, bias):
        self.bias = None if bias is None else np.asarray(bias, F)
        self.first = None
        if isinstance(kernel, linear.Factors):
            self.first, kernel = Linear(kernel.a, None), kernel.b
        self.blocks = []
        if kernel is not None:
            values, scales = np.asarray(kernel.values, np.float64), np.asarray(kernel.scales, F)
            starts = range(0, len(values), kernel.block)
            self.blocks = [(values[at : at + kernel.block], scale) for at, scale in zip(starts, scales, strict=True)]

    def __call__(self, rows):
        """Maps rows `[n in]` to `[n out]`."""
        return self.multiply(to_operand(self.first(rows) if self.first else rows))

    def multiply(self, operand):
        """Maps an operand, from `to_operand`, to `[n out]`."""
        (integers, step), total, at = operand, F(0), 0
        for values, scale in self.blocks:
            total = total + scale * (integers[:, at : at + len(values)] @ values).astype(F)
            at += len(values)
        y = np.broadcast_to(total * step, (len(step), len(self.bias) if not self.blocks else values.shape[1]))
        return y + (F(0) if self.bias is None else self.bias)


class Table:
    """Rows of a quantized table `[v d]`, to look up and as the output's kernel."""

    def __init__(self, node, *, bias=None, count):
        if not isinstance(node, quantized_weight.Quantized):
            raise TypeError(f"a table must be quantized, not {type(node).__name__}")
        self.values, self.scales = np.asarray(node.values, F), np.asarray(node.scales, F)
        self.block = 0 if node.axis else node.block
        self.bias, self.count = F(0) if bias is None else np.asarray(bias, F)[:count], count

    def look_up(self, ids):
        """Rows `[n d]` of ids `[n]`."""
        return self.values[ids] * self.scales[ids // self.block if self.block else ids]

    def logits(self, rows):
        """Logits `[n count]` of rows `[n d]`."""
        if not self.block:
            integers, step = to_operand(rows)
            sums = (integers @ self.values[: self.count].T.astype(np.float64)).astype(F)
            return sums * step * self.scales[: self.count, 0] + self.bias
        parts = []
        for b, at in enumerate(range(0, self.count, self.block)):
            integers, step = to_operand(rows * self.scales[b])
            values = self.values[at : min(at + self.block, self.count)]
            parts.append((integers @ values.T.astype(np.float64)).astype(F) * step)
        return np.concatenate(parts, axis=1) + self.bias


def normalise(rows, *, scale, bias, epsilon):
    """LayerNorm of rows `[n d]`."""
    n = F(rows.shape[1])
    rows = rows - (last_sum(rows) / n)[:, None]
    inverse = F(1) / np.sqrt(last_sum(rows * rows) / n + F(epsilon))
    return rows * inverse[:, None] * scale + bias


def last_sum(x, axis=-1):
    """The sum over an axis, one number after the other."""
    return np.take(np.cumsum(x, axis=axis, dtype=F), -1, axis=axis)


def exponential(x):
    """e^x."""
    bounded = np.clip(x, F(-87), F(88))
    n = np.trunc(bounded * F(1.44269504) + np.where(bounded < 0, F(-0.5), F(0.5))).astype(np.int32)
    r = bounded - n.astype(F) * F(0.693145752) - n.astype(F) * F(1.42860677e-6)
    series = F(1) / F(120) + r / F(720)
    for factor in (F(1) / F(24), F(1) / F(6), F(0.5), F(1), F(1)):
        series = factor + r * series
    power = ((n + 127).astype(np.uint32) << np.uint32(23)).view(F)
    return np.where(x < F(-87), F(0), series * power)


def sigmoid(x):
    """1 / (1 + e^-x)."""
    return F(1) / (F(1) + exponential(-x))


def error_function(x):
    """erf x."""
    size = np.abs(x)
    t = F(1) / (F(1) + F(0.3275911) * size)
    series = F(-1.453152027) + t * F(1.061405429)
    for factor in (1.421413741, -0.284496736, 0.254829592):
        series = F(factor) + t * series
    y = F(1) - t * series * exponential(-size * size)
    return np.where(x < 0, -y, y)


ACTIVATIONS = {
    "relu": lambda x: np.where(x > 0, x, F(0)),
    "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: F(0.5) * x * (F(1) + error_function(x * F(0.707106781))),
    "gelu_tanh": lambda x: x * sigmoid(F(1.59576912) * (x + F(0.044715) * x * x * x)),
}


def logarithm(x):
    """log x, of positive numbers."""
    bits = x.astype(F).view(np.uint32) + np.uint32(0x3F800000 - 0x3F3504F3)
    n = (bits >> np.uint32(23)).astype(np.int32) - 127
    m = ((bits & np.uint32(0x7FFFFF)) + np.uint32(0x3F3504F3)).view(F)
    s = (m - F(1)) / (m + F(1))
    q = s * s
    series = F(1) / F(7) + q / F(9)
    for factor in (F(1) / F(5), F(1) / F(3), F(1)):
        series = factor + q * series
    return n.astype(F) * F(0.693147181) + F(2) * s * series


def sine(x, quarters):
    """sin(x + quarters · π/2), of x >= 0."""
    half = F(0.5) * F(quarters)
    n = np.trunc(x * F(0.318309886) + half + F(0.5))
    k = n - half
    r = x - k * F(3.140625) - k * F(9.67653590e-4)
    q = r * r
    series = F(1) / F(120) - q * (F(1) / F(5040) - q * (F(1) / F(362880) - q / F(39916800)))
    y = r * (F(1) - q * (F(1) / F(6) - q * series))
    return np.where(n.astype(np.int32) & 1, -y, y)


def log_total(logits, part):
    """log Σ exp of logits `[n v]`, added in parts of `part`."""
    largest, total = np.full(len(logits), F(-3e38)), np.zeros(len(logits), F)
    for at in range(0, logits.shape[1], part):
        own = logits[:, at : at + part].max(1)
        sums = last_sum(exponential(logits[:, at : at + part] - own[:, None]))
        both = np.maximum(own, largest)
        total = total * exponential(largest - both) + sums * exponential(own - both)
        largest = both
    return largest + logarithm(total)


class HalfStates:
    """States in half precision: an array `[n s d]`."""

    def __init__(self, count, length, width):
        self.cells = np.zeros((count, length, width), F)

    def store(self, t, rows):
        """Stores rows `[n d]` as position t, or `[n s d]` with a slice."""
        self.cells[:, t, : rows.shape[-1]] = np.clip(rows, F(-65504), F(65504)).astype(np.float16).astype(F)

    def read(self):
        """All rows `[n s d]`."""
        return self.cells

    def select(self, order):
        """These rows of the batch."""
        self.cells = self.cells[order]

    def attend(self, values, *, q, seen):
        """Attention of queries `[n t h k]` to keys (these states) and values where `seen` `[n 1 1 s]`: `[n t h k]`."""
        h, k = q.shape[2:]
        keys, values = (_heads(x.cells, h, k) for x in (self, values))
        products = last_sum(q[:, :, :, None] * keys[:, None])
        weights = softmax(products * (F(1) / np.sqrt(F(k))), seen)
        return last_sum(weights[..., None] * values[:, None], axis=3)


class IntegerStates:
    """States in int8 with a step a row."""

    def __init__(self, count, length, width):
        self.cells, self.steps = np.zeros((count, length, width)), np.zeros((count, length), F)
        largest = 0x7FFFFFFF // 127 // length
        self.units = F(min(largest, MOST))

    def store(self, t, rows):
        """As in `HalfStates`."""
        largest = np.abs(rows).max(-1, keepdims=True)
        units = np.divide(F(127), largest, out=np.zeros_like(largest), where=largest > 0)
        self.cells[:, t, : rows.shape[-1]] = rounded(rows * units)
        self.steps[:, t] = (largest / F(127))[..., 0]

    def read(self):
        """As in `HalfStates`."""
        return self.cells.astype(F) * self.steps[..., None]

    def select(self, order):
        """As in `HalfStates`."""
        self.cells, self.steps = self.cells[order], self.steps[order]

    def attend(self, values, *, q, seen):
        """As in `HalfStates`."""
        n, t, h, k = q.shape
        integers, step = to_operand(q.reshape(-1, k))
        integers, step = integers.reshape(n, t, h, k), step.reshape(n, t, h)
        keys, mixed = (_heads(x.cells, h, k) for x in (self, values))
        sums = np.einsum("nthk,nhsk->nths", integers, keys).astype(F)
        scores = sums * ((step / np.sqrt(F(k)))[..., None] * self.steps[:, None, None])
        weights = softmax(scores, seen) * values.steps[:, None, None]
        largest = weights.max(-1, keepdims=True)
        units = np.divide(self.units, largest, out=np.zeros_like(largest), where=largest > 0)
        whole = np.trunc(weights * units + F(0.5)).astype(np.float64)
        return np.einsum("nths,nhsk->nthk", whole, mixed).astype(F) * (largest / self.units)


STATES = {"fp16": HalfStates, "int8": IntegerStates}


def softmax(scores, seen):
    """Softmax over the last axis of scores `[n t h s]` where `seen`, and 0 elsewhere."""
    largest = np.where(seen, scores, F(-3e38)).max(-1, keepdims=True)
    powers = np.where(seen, exponential(scores - largest), F(0))
    return powers / last_sum(powers)[..., None]


def _heads(cells, h, k):
    """`[n s d]` -> `[n h s k]`."""
    return np.swapaxes(cells[..., : h * k].reshape(*cells.shape[:2], h, k), 1, 2)
