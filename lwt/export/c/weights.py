"""Writes the weights of a run as C arrays: the integers and scales that ``lwt.export.quantize`` writes."""

import numpy as np

from lwt import errors
from lwt.export import quantize
from lwt.export.c import literals
from lwt.layers import linear, quantized_weight
from lwt.runs import integer_file

LARGEST_BLOCK = 512  # beyond it, sums of products of 8 and 16 bits would not fit into 32
BITS = {"int8": 8, "int4": 4}
GROUP = 16  # weights of 4 bits that are packed together
HALF = "float16"


def of(experiment):
    """The weights of a run as ``lwt.export.quantize`` writes them, and the `Quantize` that made them.

    Raises:
        lwt.errors.ConfigError: the engine in C does not support the quantization.
    """
    used = quantize.quantization_of(experiment)
    wanted = {"format": [*BITS], "outliers": [0], "activations": [""]}
    for key, values in wanted.items():
        if getattr(used, key) not in values:
            names = " or ".join(map(repr, values))
            raise errors.ConfigError(f"reparam.{key}={getattr(used, key)!r} must be {names} for the engine in C")
    step = GROUP if used.format == "int4" else 4
    if used.block % step or used.block > LARGEST_BLOCK:
        raise errors.ConfigError(
            f"reparam.block={used.block} must be 0 or a multiple of {step} up to {LARGEST_BLOCK} for the engine in C"
        )
    found = {name: smaller(weight) for name, weight in quantize.weights(experiment, used).items()}
    return integer_file.as_stored(found, rest=HALF), used


def smaller(weight):
    """A weight; factors that take no fewer bytes than their product are multiplied out and rounded anew."""
    if not _factorised(weight):
        return weight
    product = _product(weight)
    return weight if sum(map(nbytes, (weight.a, weight.b))) < nbytes(product) else product


def nbytes(node):
    """Bytes of a quantized kernel `[in out]` in C."""
    inputs, outputs = node.shape
    row = inputs if node.format == "int8" else -(-inputs // GROUP) * GROUP // 2
    return outputs * row + 2 * node.scales.size


def _factorised(weight):
    return isinstance(weight, linear.Factors) and isinstance(weight.a, quantized_weight.Quantized)


def _product(factors):
    return quantized_weight.quantize(factors.dense(), format=factors.a.format, block=factors.a.block)


class Source:
    """Collects the definitions of constant arrays, and writes initialisers of the engine's structs with their names.

    Attributes:
        text: the C definitions so far.
        used: names of the weights in the initialisers.
        places: ``{name of a linear layer: its number}``, counted from 1, of those that a task may change.
        factors: ``{name of a linear layer: linear.Factors}`` of the kernels that are two products in a row.
    """

    def __init__(self, weights, *, numbered=False):
        self._weights, self.text, self.used = dict(weights), "", set()
        self.places, self._numbered = {}, numbered
        self.factors = {
            n.removesuffix("/kernel"): w for n, w in weights.items() if n.endswith("/kernel") and _factorised(w)
        }
        for name, factors in self.factors.items():
            self._weights |= {f"{name}/first_kernel": factors.a, f"{name}/kernel": factors.b}

    def __contains__(self, name):
        return name in self._weights

    def require_all_used(self):
        """Raises `lwt.errors.ConfigError` if a weight is in no initialiser."""
        unused = self._weights.keys() - self.used
        if unused:
            raise errors.ConfigError(f"the engine in C does not use the weights {sorted(unused)}")

    def leave_out(self, *names):
        """Marks weights that no result depends on."""
        self.used.update(names)

    def value(self, name):
        """A weight that is not quantized, as float32 values that float16 can hold."""
        self.used.add(name)
        return np.asarray(self._weights[name], np.float32)

    @property
    def rank(self):
        """The most numbers between two factors, as a multiple of `GROUP`; 0 without factors."""
        return max((-(-factors.a.shape[1] // GROUP) * GROUP for factors in self.factors.values()), default=0)

    def about_factors(self):
        """What the report says of factors: how many kernels have them, their bytes, and those of their products."""
        if not self.factors:
            return {}
        taken = sum(nbytes(part) for factors in self.factors.values() for part in (factors.a, factors.b))
        product = sum(nbytes(_product(factors)) for factors in self.factors.values())
        return {"factors": {"kernels": len(self.factors), "bytes": taken, "product_bytes": product}}

    def linear(self, name):
        """``lwt_linear`` of a module with a kernel, or two factors of it, and an optional bias."""
        if not self.factors:
            return f"{{{self._linear(name, 'kernel')}}}"
        first = "0"
        if name in self.factors:
            symbol, fields = f"w_{name}_factor".replace("/", "_"), self._linear(name, "first_kernel")
            self.text += f"static const lwt_linear {symbol} = {{{fields}, 0}};\n"
            first = f"&{symbol}"
        return f"{{{self._linear(name, 'kernel')}, {first}}}"

    def _linear(self, name, leaf):
        kernel = self.node(f"{name}/{leaf}")
        inputs, outputs = kernel.shape
        if kernel.block > LARGEST_BLOCK:
            raise errors.ConfigError(
                f"{name}/kernel has {kernel.block} inputs per scale, and the engine in C at most {LARGEST_BLOCK}: "
                "quantize it in blocks"
            )
        bits, values, scales = BITS[kernel.format], np.asarray(kernel.values).T, np.asarray(kernel.scales).T
        first = leaf == "first_kernel"
        if self._numbered and not first:
            self.places[name] = len(self.places) + 1
        sizes = f"{inputs}, {outputs}, {kernel.block}, {bits}, {0 if first else self.places.get(name, 0)}"
        bias = "0" if first else self.vector(f"{name}/bias")
        return f"{self._pair(f'{name}/first' if first else name, values, scales, bits)}, {bias}, {sizes}"

    def table(self, name):
        """``lwt_table`` of an embedding; scales belong to blocks of rows, or to each row."""
        table = self.node(name)
        width, bits, by_row = table.shape[1], BITS[table.format], table.axis != 0
        if by_row and table.scales.shape[1] > 1:
            raise errors.ConfigError(f"{name!r} has {table.block} entries per scale; the engine in C takes whole rows")
        pair = self._pair(name, np.asarray(table.values), np.asarray(table.scales), bits)
        return f"{{{pair}, {width}, {0 if by_row else table.block}, {bits}}}"

    def norm(self, name):
        """``lwt_norm`` of a norm."""
        return f"{{{self.vector(f'{name}/scale')}, {self.vector(f'{name}/bias')}}}"

    def conv(self, name):
        """``lwt_conv`` of a depthwise convolution.

        Raises:
            lwt.errors.ConfigError: its taps have more than one scale per channel.
        """
        kernel = self.node(f"{name}/kernel")
        if kernel.scales.shape[0] > 1:
            raise errors.ConfigError(
                f"model.kernel_size={kernel.shape[0]} must be at most reparam.block={kernel.block} for the engine in C"
            )
        pair = self._pair(name, np.asarray(kernel.values), np.asarray(kernel.scales))
        return f"{{{pair}, {self.vector(f'{name}/bias')}}}"

    def node(self, name):
        """A quantized weight.

        Raises:
            lwt.errors.ConfigError: it is not quantized, or in a form that the engine in C does not support.
        """
        node = self._weights[name]
        if isinstance(node, linear.Factors):
            raise errors.ConfigError(
                f"{name!r} is stored as factors, which the engine in C has of quantized kernels only: export a bundle, "
                "which multiplies them out"
            )
        if not isinstance(node, quantized_weight.Quantized):
            raise errors.ConfigError(f"{name!r} is not quantized: reparam.targets must match it for the engine in C")
        if node.format not in BITS or node.outliers is not None:
            raise errors.ConfigError(f"{name!r} must be quantized to {' or '.join(BITS)} without outliers for C")
        several = name.endswith("kernel") and node.scales.shape[0] > 1
        if node.format == "int4" and several and node.block % GROUP:
            raise errors.ConfigError(
                f"{name!r} has {node.block} inputs per scale; for the engine in C it must be a multiple of {GROUP}"
            )
        self.used.add(name)
        return node

    def _pair(self, name, values, scales, bits=8):
        values = values if bits == 8 else packed(values)
        return f"{self.array(name, values, part='weights')}, {self.array(f'{name}/scales', scales, part='scales')}"

    def vector(self, name):
        """The name of an array of half-precision floats; "0" if there is no such weight."""
        return self.array(name, self.value(name).astype(np.float16), part="weights") if name in self else "0"

    def array(self, name, values, *, part):
        """The name of an array of constants, which the report counts under `part`; see `literals.array`."""
        symbol = "w_" + name.replace("/", "_")
        self.text += "static " + literals.array(symbol, values, part=part)
        return symbol


def packed(values):
    """Packs rows of integers from -7 to 7 two per byte: byte k of 8 has values k and k + 8 of a group of `GROUP`."""
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % GROUP)))
    low, high = np.moveaxis(padded.reshape(len(values), -1, 2, GROUP // 2), 2, 0)
    return ((low & 15) | high << 4).astype(np.int8)
