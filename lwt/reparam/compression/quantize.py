"""Quantization rounds weights to eight (or four) bits, after or during training."""

import dataclasses

from lwt import errors
from lwt.layers import linear, quantized_weight
from lwt.reparam.parts import targets

ACTIVATIONS = ("", "dynamic", "static")


@dataclasses.dataclass(frozen=True)
class Quantize:
    """``W -> round(W / scale) · scale`` with one scale per block of weights; see `layers/quantized_weight.py`.

    The weights are `quantized_weight.Quantized` nodes, multiplied from their integers; nothing is stored. With
    ``aware=True`` the base's float weights train (``optimizer.trainable = ("base/.*",)``): in training steps the model
    sees rounded arrays whose gradient passes straight through to the base. In a chain (`compose.Compose`) an adapter
    after it tunes a frozen quantized base; one before it is rounded in.

    EmbBERT-Q (section 3.1.3) as printed is ``format="fp8", outliers=0.08, threshold=6.0``; its code rounds only the
    kernels of the linear layers, row-wise: ``block=0`` and ``targets`` without tables and convolutions.

    Attributes:
        format: "int8" (absmax), "fp8" (e4m3) or "int4".
        block: weights that share a scale, along the input axis; 0 is row-wise: a scale per output of a kernel, and per
            row of a table.
        outliers: the largest entries of each weight that may stay in float16, as a share; 0 for none.
        threshold: only entries above it in magnitude stay in float16; 0 for all of the share (then it is a percentile).
        aware: train with rounded weights, and with rounded activations if there are any.
        activations: "": inputs stay float. "dynamic": inputs are rounded to int8 by each row's maximum at run time, so
            that integers multiply integers (`quantized_weight.multiply_integers`); requires integer weights with
            ``block=0`` and no outliers. "static": inputs are rounded to calibrated ranges; these ranges are the
            adapter, leaves ``NAME/limit``, and exist only in files (`lwt/export/quantize.py`). Weights without a range,
            and tables, take floats.
        targets: which kernels and tables to round, see `targets.matching`.
    """

    format: str = "int8"
    block: int = 64
    outliers: float = 0.0
    threshold: float = 0.0
    aware: bool = False
    activations: str = ""
    targets: str | tuple[str, ...] = r".*(kernel|embedding|embed/\w+)"

    identity_at_start = False

    def __post_init__(self):
        targets.check(self, format=quantized_weight.FORMATS, activations=ACTIVATIONS)
        if self.threshold and not self.outliers:
            raise errors.ConfigError(
                f"reparam.threshold is {self.threshold!r}, but reparam.outliers is 0: set it to the largest share "
                "of weights that may stay in float16, such as 0.08"
            )
        if self.activations and (self.format == "fp8" or self.block or self.outliers):
            raise errors.ConfigError(
                f"reparam.activations is {self.activations!r}: integer products need one scale per output, so "
                f"format={self.format!r}, block={self.block} and outliers={self.outliers} must be 'int8' or 'int4', "
                "0 and 0"
            )

    def init(self, key, base):
        """An adapter without leaves; static activations are refused, since their ranges come from a trained model."""
        del key
        if self.activations == "static":
            raise errors.ConfigError(
                "reparam.activations is 'static', but a run has no calibrated ranges; it must be 'dynamic', or see "
                "lwt.export.quantize --activations=static"
            )
        self.select(base)
        return {}

    def expand(self, base, adapter, step, *, key=None):
        """The weights: a node for every target; in aware training (`key` is given) an array or a `RoundedInputs`.

        A target that is already quantized keeps its integers; a factorised one has both factors rounded; any other node
        is rounded as a whole.
        """
        del step
        training = self.aware and key is not None
        rounded = {n: self._rounded(n, base[n], adapter.get(f"{n}/limit"), training) for n in self.select(base)}
        return {**base, **rounded}

    def _rounded(self, name, w, limit, training):
        """Rounds the weight `name`; in `training`, to an array that passes the gradient on."""
        if isinstance(w, linear.Factors):  # the range between the factors is not calibrated
            if self.activations == "static":
                raise errors.ConfigError(
                    f"reparam.activations is 'static', but {name!r} is factorised: no range is known between its "
                    "factors; it must be 'dynamic'"
                )
            return linear.Factors(*(self._rounded(name, part, limit, training) for part in (w.a, w.b)))
        options = self.options(name)
        multiplied = options["axis"] == 0 and (self.activations == "dynamic" or limit is not None)
        if training and not isinstance(w, quantized_weight.Quantized):
            array = quantized_weight.straight_through(linear.dense(w), **options)
            return quantized_weight.RoundedInputs(array) if multiplied else array
        node = w if isinstance(w, quantized_weight.Quantized) else quantized_weight.quantize(linear.dense(w), **options)
        return _with_integer_inputs(name, node, limit) if multiplied else node

    def labels(self, adapter):
        """Calibrated ranges, the only leaves, are not trained."""
        return dict.fromkeys(adapter, "constant")

    def select(self, base):
        """The names of the targets, at least one."""
        names = targets.matching(base, self.targets)
        found = [name for name in names if len(base[name].shape) > 1]
        if not found:
            what = f"vectors only, such as {names[0]!r}" if names else "nothing"
            raise errors.ConfigError(
                f"reparam.targets {self.targets!r} matches {what}; only kernels and tables are quantized"
            )
        return found

    def options(self, name):
        """The arguments of `quantized_weight.quantize` for the weight `name`."""
        return {
            "format": self.format,
            "block": self.block,
            "axis": -1 if self.block == 0 and targets.is_embedding(name) else 0,
            "outliers": self.outliers,
            "threshold": self.threshold,
        }


def _with_integer_inputs(name, node, limit):
    if node.format == "fp8" or node.scales.shape[0] > 1 or node.outliers is not None:
        raise errors.ConfigError(
            f"reparam.activations: {name!r} is already quantized to {node.format} with a scale per {node.block} "
            "weights; integer products need one per output and no outliers"
        )
    return node.replace(integer_inputs=True, limit=limit)
