"""Draws what happened inside a model: figures of attention to tokens and images, tables of memories."""

import html
import math

import matplotlib
import numpy as np
from matplotlib import colors
from matplotlib import figure as figures

from lwt.data.images import decoding
from lwt.report import style

ACROSS = 4  # heads side by side
NAMED = 28  # most tokens whose names fit beside a small picture
COUNTED = 20  # most tokens for which a large picture shows the weights as numbers
COLORS = "Blues"
BLACK, SHADE = colors.ListedColormap(["black"]), 0.85  # covers the parts of an image without attention
BLANK = "␣"  # shown for a token of white space
LARGEST = 512  # side of an image, in pixels


def attention(found, head=None):
    """Draws a heatmap of one head of an `insight.Attention`, or one per head: a `matplotlib.figure.Figure`."""
    heads = range(len(found.weights)) if head is None else [head]
    queries, keys = ([token or BLANK for token in side] for side in (found.queries, found.keys))
    if len(heads) == 1:
        size = 1.8 + 0.27 * max(len(keys), 8), 1.5 + 0.25 * max(len(queries), 3)
        written = max(len(queries), len(keys)) <= COUNTED
        return _grid(
            heads, size, lambda axes, i: _heatmap(axes, found.weights[i], queries, keys, written=written), across=1
        )
    named = max(len(queries), len(keys)) <= NAMED
    each = 0.9 + 0.13 * max(len(keys), 12), 0.9 + 0.13 * max(len(queries), 4)
    across = min(ACROSS, len(heads))
    size = across * each[0], -(-len(heads) // across) * each[1]
    labels = (queries, keys) if named else (None, None)
    return _grid(heads, size, lambda axes, i: _heatmap(axes, found.weights[i], *labels, size=6.5), across=across)


def attention_to_image(found, path, *, head=None):
    """Draws the image once per head (or for one), darker where the head attends less.

    It shows the attention of the class token, or without one the mean over all positions.
    """
    image = decoding.load(path)
    image = decoding.fit(image, size=min(*image.shape[:2], LARGEST), channels=3)
    side = math.isqrt(found.weights.shape[-1])
    has_token = side**2 < found.weights.shape[-1]
    maps = found.weights[:, 0, 1:] if has_token else found.weights.mean(axis=1)

    def draw(axes, i):
        axes.imshow(image, extent=(0, side, side, 0))
        shown = maps[i].reshape(side, side)
        hidden = SHADE * (1 - np.clip(shown / shown.max(), 0, 1))
        axes.imshow(shown, cmap=BLACK, alpha=hidden, extent=(0, side, side, 0), interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])

    heads = range(len(maps)) if head is None else [head]
    across = min(ACROSS, len(heads))
    width = 5.0 if len(heads) == 1 else 2.6
    return _grid(heads, (across * width, -(-len(heads) // across) * (width + 0.3)), draw, across=across)


def memories(found, through):
    """An HTML table of the keys that responded, a list of `insight.Memory`, with all text escaped."""
    if not found:
        return "<p>No key of this layer responds to this text.</p>"
    largest = found[0].coefficient
    rows = "\n".join(_memory(memory, memory.coefficient / largest) for memory in found)
    head = "".join(
        f"<th>{name}</th>" for name in ("key", "response", "most at", f"tokens of its value, through the {through}")
    )
    return f'<table class="memories">\n<tr>{head}</tr>\n{rows}\n</table>'


def _memory(memory, share):
    before, here, after = (html.escape(part) for part in memory.context)
    words = " ".join(
        f'<span class="word">{html.escape(token) or BLANK} <small>{times:.1f}</small></span>'
        for token, times in memory.value
    )
    bar = f'{memory.coefficient:.2f}<div class="bar" style="width: {100 * share:.0f}%"></div>'
    text = f"{before} <mark>{here or BLANK}</mark> {after}"
    return f"<tr><td>{memory.key}</td><td>{bar}</td><td>{text}</td><td>{words}</td></tr>"


def _grid(heads, size, draw, *, across):
    """A figure with one picture per head, drawn by ``draw(axes, head)``."""
    with matplotlib.rc_context({**style.STYLE, "axes.grid": False}):
        drawn = figures.Figure(figsize=size, layout="constrained")
        places = drawn.subplots(-(-len(heads) // across), across, squeeze=False, sharex=True, sharey=True)
        for axes in places.flat[len(heads) :]:
            axes.remove()
        for axes, i in zip(places.flat, heads):
            draw(axes, i)
            axes.set_title(f"head {i}", fontsize=9)
    return drawn


def _heatmap(axes, weights, queries, keys, *, size=9, written=False):
    """Draws weights `[t s]` as an image, with the names of tokens or None, and with the larger weights as numbers."""
    most = max(float(np.max(weights)), 1e-9)
    axes.imshow(weights, cmap=COLORS, vmin=0, vmax=most, aspect="auto")
    for t, s in np.argwhere(weights >= 0.1) if written else ():
        color = "white" if weights[t, s] > most / 2 else "#333333"
        axes.text(s, t, f"{weights[t, s]:.1f}", color=color, fontsize=7, ha="center", va="center")
    for axis, names, turn in ((axes.xaxis, keys, {"rotation": 90}), (axes.yaxis, queries, {})):
        axis.set_ticks(range(len(names)) if names else [], names or [], fontsize=size, parse_math=False, **turn)
        axis.set_tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
