"""The look of all pictures: colours, fonts, axes, and how they are saved.

Figures are made without pyplot: there is no global state, nothing to close, and no window is needed.
"""

import contextlib
import io

import matplotlib
from matplotlib import figure as figures
from matplotlib import ticker
from PIL import Image

from lwt import files

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5f5f5f", "#8c510a")  # after Okabe and Ito
MARKERS = "osD^vPX*"  # told apart without colours, too
DPI = 150
SHADES = 128  # colours of a PNG
STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
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
    "legend.fontsize": 9,
}


@contextlib.contextmanager
def drawing(path, title, *, panels=1, width=None, height=4.0, share_y=True):
    """A figure in the house style, saved at the end: ``(Figure, axes)``.

    Args:
        path: of the PNG.
        title: of the first panel.
        panels: side by side; `axes` is an array of them if there are several.
        width, height: in inches; None for the width that suits the panels.
        share_y: whether the panels have one vertical axis.
    """
    with matplotlib.rc_context(STYLE):
        size = (width or (6.4 if panels == 1 else 9.6), height)
        drawn = figures.Figure(figsize=size, layout="constrained")
        axes = drawn.subplots(1, panels, sharey=share_y)
        first = axes if panels == 1 else axes[0]
        first.set_title(title)
        yield drawn, axes
        save(drawn, path)


def save(drawn, path):
    """Saves a Figure as a PNG with a palette, a quarter of the size of one without."""
    full = io.BytesIO()
    drawn.savefig(full, dpi=DPI, format="png")
    with Image.open(full) as image:
        small = image.convert("RGB").quantize(SHADES, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    content = io.BytesIO()
    small.save(content, "PNG", optimize=True, dpi=(DPI, DPI))
    files.write_bytes(path, content.getvalue())


def look(i):
    """Colour and mark of the i-th series."""
    return {"color": COLORS[i % len(COLORS)], "marker": MARKERS[i % len(MARKERS)]}


def log_x(axes, label):
    """Makes the horizontal axis logarithmic, with ticks at 1, 2 and 5 that do not run into each other."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 2, 5)))
    short = ticker.EngFormatter(sep="")  # 200k
    axes.xaxis.set_major_formatter(lambda x, place: f"{x:g}" if x < 1000 else short(x, place))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.tick_params(axis="x", rotation=30)
    axes.set_xlabel(f"{label} (logarithmic)")


def thousands(value, _):
    """A tick's number, 147456 as 147k."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
