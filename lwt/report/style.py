"""The look of all pictures: colours, fonts, axes, and how they are saved.

Figures are made without pyplot: there is no global state, nothing to close, and no window is needed.
"""

import contextlib
import io
import math
import textwrap

import matplotlib
import numpy as np
from matplotlib import figure as figures
from matplotlib import ticker
from PIL import Image

from lwt import files

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5f5f5f", "#8c510a")  # after Okabe and Ito
MARKERS = "osD^vPX*"  # told apart without colours, too
DPI = 150
SHADES = 128  # colours of a PNG
WIDTH = 7.2  # inches
LETTERS = 8.9  # of a title, per inch
BAR = "<colorbar>"  # matplotlib's label of the axes of one
STYLE = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": "#333333",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.8,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.fontsize": 10,
}


@contextlib.contextmanager
def drawing(path, title, *, panels=1, across=None, width=WIDTH, height=4.2, share_x=False, share_y=True):
    """A figure in the house style, saved at the end: ``(Figure, axes)``.

    A linear axis that does not begin at zero gets the mark of a break at its lower end.

    Args:
        path: of the PNG.
        title: what the picture shows, above all panels.
        panels: `axes` is an array of them if there are several.
        across: how many of them are side by side; None for all.
        width, height: in inches; wider pictures are unreadable on a phone.
        share_x, share_y: whether the panels have one horizontal, and one vertical axis.
    """
    across = across or panels
    with matplotlib.rc_context(STYLE):
        drawn = figures.Figure(figsize=(width, height), layout="constrained")
        axes = drawn.subplots(math.ceil(panels / across), across, squeeze=False, sharex=share_x, sharey=share_y).flat
        for place in axes[panels:]:
            place.remove()
        entitle(drawn, title)
        yield drawn, axes[0] if panels == 1 else axes[:panels]
        for place in drawn.axes:
            from_zero(place)
            _mark_breaks(place)
        save(drawn, path)


def entitle(drawn, title):
    """Writes a title above all axes of a Figure, on the left, in as many lines as it needs."""
    if title:
        wrapped = textwrap.fill(title, int(LETTERS * drawn.get_figwidth()))
        drawn.suptitle(wrapped, x=0.01, ha="left", fontsize=12.5, fontweight="bold")


def from_zero(axes):
    """Lets a linear axis begin at zero if its figures begin below four tenths of the largest one."""
    if axes.get_label() == BAR:
        return
    for scale, limits, begin in (
        (axes.get_xscale(), axes.get_xlim(), axes.set_xlim),
        (axes.get_yscale(), axes.get_ylim(), axes.set_ylim),
    ):
        if scale == "linear" and 0 < limits[0] < 0.4 * limits[1]:
            begin(0, limits[1])


def _mark_breaks(axes):
    """Two strokes across the lower end of each visible linear axis that begins above zero."""
    if axes.images or axes.get_label() == BAR:
        return
    strokes = dict(marker=[(-1, -0.6), (1, 0.6)], markersize=9, linestyle="none", color="#333333", mew=1.3)
    strokes |= dict(transform=axes.transAxes, clip_on=False, zorder=5)
    if axes.yaxis.get_visible() and axes.get_yscale() == "linear" and min(axes.get_ylim()) > 0:
        axes.plot([0, 0], [0.015, 0.035], **strokes)
    if axes.xaxis.get_visible() and axes.get_xscale() == "linear" and min(axes.get_xlim()) > 0:
        axes.plot([0.015, 0.03], [0, 0], **(strokes | dict(marker=[(-0.6, -1), (0.6, 1)])))


def save(drawn, path):
    """Saves a Figure as a PNG with a palette, its commonest colours and some from all others: a quarter of the size."""
    full, content = io.BytesIO(), io.BytesIO()
    drawn.savefig(full, dpi=DPI, format="png")
    with Image.open(full) as image:
        plain = image.convert("RGB")
    pixels = np.asarray(plain, np.int64)
    codes, places, counts = np.unique(pixels @ (65536, 256, 1), return_inverse=True, return_counts=True)
    colors = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=-1)
    common = colors[np.argsort(-counts, kind="stable")[: SHADES // 2]]
    others = plain.quantize(SHADES // 2, method=Image.Quantize.MAXCOVERAGE).getpalette()
    palette = np.concatenate([common, np.reshape(others, (-1, 3))])
    nearest = np.square(colors[:, None] - palette).sum(-1).argmin(1)
    small = Image.fromarray(nearest[places].reshape(pixels.shape[:2]).astype(np.uint8))
    small.putpalette(palette.astype(np.uint8).tobytes())
    small.save(content, "PNG", optimize=True, dpi=(DPI, DPI))
    files.write_bytes(path, content.getvalue())


def look(i):
    """Colour and mark of the i-th series."""
    return {"color": COLORS[i % len(COLORS)], "marker": MARKERS[i % len(MARKERS)]}


def log_x(axes, label):
    """Makes the horizontal axis logarithmic, with ticks at 1 and 3 times the powers of ten."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 3)))
    short = ticker.EngFormatter(sep="")  # 200k
    axes.xaxis.set_major_formatter(lambda x, place: f"{x:g}" if x < 1000 else short(x, place))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlabel(label)


def thousands(value, _):
    """A tick's number, 147456 as 147k."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
