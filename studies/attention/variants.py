"""The attentions that are compared, with their settings: one table for the cost and the quality of them all.

A setting is a section of a config, ``{"name": file of lwt/attention/, ...}``. Its key is the variant's name in tables.
"""

import math

from lwt import registry

TITLES = {  # what people call them
    "softmax": "softmax",
    "softmax_block256": "softmax in blocks",
    "softmax_one": "softmax with an empty key",
    "kv_projection_half": "K/V projection, half",
    "kv_projection_half_folded": "K/V, half, folded",
    "kv_projection_quarter": "K/V projection, quarter",
    "kv_projection_quarter_folded": "K/V, quarter, folded",
    "efficient": "efficient",
    "linear_elu": "linear, ELU",
    "linear_random": "linear, random features",
    "local": "local window",
    "sparse_strided": "sparse, strided",
    "sparse_fixed": "sparse, fixed",
    "linformer": "Linformer",
    "nystrom": "Nyström",
    "folded": "folded query and key",
    "approximate1": "approximate, degree 1",
    "approximate1_exact_forward": "degree 1, exact forward",
    "sdpa": "softmax of PyTorch",
    "sdpa+compiled": "PyTorch, compiled",
}


def sections(head_width, *, length, reach):
    """``{name: section}`` of all variants.

    Args:
        head_width: d_k of the model's heads; the ranks of K/V projection are its half and its quarter.
        length: of the longest row. The stride of the sparse patterns is near its root, as in their paper.
        reach: keys for each query, whatever the length, of the variants that save on keys: the window of `local`, the
            rows to which `linformer` and `nystrom` reduce a sequence. A block of `sparse_fixed` has a sixteenth of it.
    """
    half, quarter = max(1, head_width // 2), max(1, head_width // 4)
    stride = min(reach, 2 ** round(math.log2(length) / 2))
    summary = min(stride, max(1, reach // 16))
    return {
        "softmax": {"name": "softmax"},
        "softmax_block256": {"name": "softmax", "block": 256},
        "softmax_one": {"name": "softmax_one"},
        "kv_projection_half": {"name": "kv_projection", "rank": half},
        "kv_projection_half_folded": {"name": "kv_projection", "rank": half, "folded": True},
        "kv_projection_quarter": {"name": "kv_projection", "rank": quarter},
        "kv_projection_quarter_folded": {"name": "kv_projection", "rank": quarter, "folded": True},
        "efficient": {"name": "efficient"},
        "linear_elu": {"name": "linear"},
        "linear_random": {"name": "linear", "features": "random"},
        "local": {"name": "local", "window": reach},
        "sparse_strided": {"name": "sparse", "stride": stride},
        "sparse_fixed": {"name": "sparse", "pattern": "fixed", "stride": stride, "summary": summary},
        "linformer": {"name": "linformer", "max_length": length, "rank": min(reach, length)},
        "nystrom": {"name": "nystrom", "landmarks": reach},
        "folded": {"name": "folded"},
        "approximate1": {"name": "approximate", "degree": 1, "norm": "clip", "exact_forward": False},
        "approximate1_exact_forward": {"name": "approximate", "degree": 1, "norm": "clip"},
    }


def names():
    """The names of all variants."""
    return tuple(sections(4, length=4, reach=4))


def maker(section):
    """A callable of ``width, heads, dropout, dtype`` that makes the attention of a section.

    Raises:
        lwt.errors.ConfigError: the section names an unknown attention or argument.
    """
    return registry.ATTENTIONS.partial(section, key="attention", taken=("width", "heads", "dropout", "dtype"))


def abilities(section):
    """The class of a section's attention, with ``has_causal``, ``crosses`` and ``keeps_texts_apart``."""
    return maker(section).func


def describe(section):
    """``"kv_projection, rank=16, folded=True"``."""
    return ", ".join([section["name"], *(f"{key}={value}" for key, value in section.items() if key != "name")])
