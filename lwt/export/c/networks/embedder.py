"""Writes Embedder, with or without its convolution, in C."""

from lwt.export.c import parts


def network(model, source):
    """The `parts.Network` of an `embedder.Embedder`."""
    norm = source.norm("embed_norm") if model.norm != "none" else "{0}"
    conv = source.conv("conv") if model.kernel_size else "{0}"
    body = (
        parts.embedder(source)
        + f"const lwt_norm lwt_embed_norm = {norm};\n"
        + f"const lwt_conv lwt_convolution = {conv};\n"
    )
    shape = {
        "rows": max(2 * model.kernel_size, 1),
        "taps": model.kernel_size,
        "inner": max(model.width, model.reduced),
        "epsilon": 1e-6,
    }

    def macs(tokens):
        """Multiplications of weights and activations for a text of `tokens` tokens."""
        wanted = 1 if model.pool == "first" else tokens
        row = (2 * model.reduced + model.kernel_size) * model.width
        return row * wanted + model.features * model.outputs

    return parts.Network("embedder", body, shape, macs)
