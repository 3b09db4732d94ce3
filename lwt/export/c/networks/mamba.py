"""Writes MAMBA in C: its constants, shape and cost."""

import math

import numpy as np

from lwt.export.c import parts


def network(model, source):
    """The `parts.Network` of a `mamba.Mamba`."""
    width, channels, state = model.width, model.width * model.expansion, model.state
    rank = model.time_rank or math.ceil(width / 16)
    blocks = [_block(source, f"block_{i}") for i in range(model.layers)]
    body = parts.embedder(source) + f"const lwt_block lwt_blocks[LWT_LAYERS] = {{\n{''.join(blocks)}}};\n"
    shape = {
        "layers": model.layers,
        "channels": channels,
        "state": state,
        "time_rank": rank,
        "rows": model.kernel_size,
        "taps": model.kernel_size,
        "inner": 2 * channels,
        "epsilon": 1e-5,
    }

    def macs(tokens):
        """Multiplications of weights and activations for a text of `tokens` tokens, and of the scan's states."""
        selected = rank + 2 * state
        row = channels * (3 * width + model.kernel_size + selected + rank + 3 * state)
        return row * model.layers * (1 if model.pool == "first" else tokens) + model.features * model.outputs

    return parts.Network("mamba", body, shape, macs)


def _block(source, name):
    mixer = f"{name}/mixer"
    rates = -np.exp(source.value(f"{mixer}/a_log")).T  # the states of a channel side by side
    fields = [
        source.norm(f"{name}/norm"),
        *(source.linear(f"{mixer}/{part}") for part in ("in", "select", "time", "out")),
        source.conv(f"{mixer}/conv"),
        source.array(f"{mixer}/rates", rates, part="weights"),
        *(source.vector(f"{mixer}/{part}") for part in ("time_bias", "skip")),
    ]
    return parts.struct(fields)
