"""Pictures of images by class: examples, and confusion matrices.

    python -m studies.radar.plots --data=generated:radar_har,difficulty=easy --out=maps.png
    python -m studies.radar.plots --data=folder:radar_parrad --split=fold0 --out=recorded.png

Draws an image of each class into one PNG.
"""

import math

import matplotlib
import numpy as np
from absl import flags
from matplotlib import figure as figures

from lwt.data import sources
from lwt.data.radar import maps as radar
from lwt.machine import command_line
from lwt.report import style

COLUMNS = 4
LEVELS = 24  # of the colours; more of them make a larger file


def main():
    """The program: draws one map of each class."""
    source = sources.load(flags.FLAGS.data, split=flags.FLAGS.split)
    if source.name.startswith("generated:radar_har"):
        edges = (0, radar.DURATION, -radar.FASTEST, radar.FASTEST)
        about = dict(extent=edges, xlabel="seconds", ylabel="m/s, towards the radar")
    else:
        about = dict(xlabel="columns", ylabel="rows")
    maps(examples(source), flags.FLAGS.out, title=source.name, **about)


def examples(source, *, each=1):
    """``{label: images}``: the first `each` images of every class, in the order of the source's classes."""
    found = {name: [] for name in source.classes}
    for record in source:
        images = found.setdefault(record["label"], [])
        if len(images) < each:
            images.append(record["image"])
    return found


def maps(images, path, *, title="", channel=0, extent=None, xlabel="", ylabel=""):
    """Draws a panel for each image, with one colour scale for all.

    Args:
        images: ``{label: [image [h w c], ...]}``.
        path: of the PNG.
        channel: that is shown.
        extent: (left, right, bottom, top) of an image in the units of the axes; None for pixels, row 0 at the bottom.
        xlabel, ylabel: with units.
    """
    panels = [(label, image[..., channel]) for label, some in images.items() for image in some]
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    least, most = (limit(image.min() if limit is min else image.max() for _, image in panels) for limit in (min, max))
    look = dict(cmap=matplotlib.colormaps["magma"].resampled(LEVELS), interpolation="nearest", vmin=least, vmax=most)
    with matplotlib.rc_context({**style.STYLE, "axes.grid": False}):
        drawn = figures.Figure(figsize=(1.8 * columns, 1.8 * rows + 0.7), layout="constrained")
        axes = drawn.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for place, (label, image) in zip(axes.flat, panels):
            place.imshow(image, origin="lower", aspect="auto", extent=extent, **look)
            place.set_title(label.replace("_", " "))
        for place in axes.flat[len(panels) :]:
            place.set_axis_off()
        style.entitle(drawn, title)
        drawn.supxlabel(xlabel, fontsize=10)
        drawn.supylabel(ylabel, fontsize=10)
        style.save(drawn, path)
    return drawn


def confusion(references, predictions, *, names, path, title=""):
    """Draws how many records of a class (rows) were taken for which (columns); shades are shares of the row.

    Args:
        references, predictions: `[n]` class ids of 0 to len(names) - 1.
        names: of the classes.
        path: of the PNG.
    """
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (np.asarray(references), np.asarray(predictions)), 1)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = 1.6 + 0.62 * len(names)
    with matplotlib.rc_context({**style.STYLE, "axes.grid": False}):
        drawn = figures.Figure(figsize=(side + 0.6, side), layout="constrained")
        axes = drawn.subplots()
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for (row, column), count in np.ndenumerate(counts):
            if count:
                color = "white" if shares[row, column] > 0.6 else "#333333"
                axes.text(column, row, count, ha="center", va="center", color=color)
        labels = [name.replace("_", " ") for name in names]
        axes.set_xticks(range(len(names)), labels, rotation=35, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(names)), labels)
        axes.set(xlabel="answer", ylabel="activity")
        style.entitle(drawn, title)
        style.save(drawn, path)
    return drawn


if __name__ == "__main__":
    flags.DEFINE_string("data", "generated:radar_har,difficulty=easy", "The images: KIND:NAME.")
    flags.DEFINE_string("split", "test", "Their split.")
    flags.DEFINE_string("out", "maps.png", "The PNG.")
    command_line.run(main, required=[])
