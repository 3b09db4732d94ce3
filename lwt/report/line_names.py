"""Names beside lines, in place of a legend."""


def put(axes, ends, *, gap=0.055):
    """Names lines on the right of the axes, at the height of their last points, moved apart where they would touch.

    Args:
        axes: with its scales set; its limits stay as they are.
        ends: ``{name: (x, y, colour)}``, the last point of each line.
        gap: the least distance between two names, as a share of the height of the axes.
    """
    axes.figure.canvas.draw()
    to_axes = axes.transData + axes.transAxes.inverted()
    shares = {name: to_axes.transform(end[:2])[1] for name, end in ends.items()}
    order = sorted(ends, key=shares.get)
    for name, height in zip(order, _apart([shares[name] for name in order], gap)):
        *point, color = ends[name]
        axes.annotate(
            name,
            xy=point,
            xytext=(1.03, height),
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            color=color,
            arrowprops=dict(arrowstyle="-", relpos=(0, 0.5), color=color, linewidth=0.6, alpha=0.6),
            annotation_clip=False,
        )


def _apart(heights, gap):
    """Ascending heights in [0, 1], moved as little as needed so that neighbours are `gap` apart, if they have room."""
    moved = list(heights)
    for _ in range(200):
        for i in range(len(moved) - 1):
            missing = max(0.0, gap - (moved[i + 1] - moved[i])) / 2
            moved[i], moved[i + 1] = moved[i] - missing, moved[i + 1] + missing
        moved = [min(max(height, 0.0), 1.0) for height in moved]
    return moved
