"""Two rules for the rank beyond which more rank does not pay, on ``{rank: accuracy}``."""


def farthest(points):
    """The rank whose point lies farthest above the chord from the first to the last point, axes scaled to [0, 1].

    Args:
        points: ``{rank: accuracy}``.

    Returns:
        None if accuracy does not rise from end to end, or no point lies above the chord.
    """
    order = sorted(points)
    first, last = order[0], order[-1]
    rise = points[last] - points[first]
    if len(order) < 3 or rise <= 0:
        return None
    above = {r: (points[r] - points[first]) / rise - (r - first) / (last - first) for r in order[1:-1]}
    best = max(above, key=above.get)
    return best if above[best] > 1e-9 else None


def enough(points, *, margin=0.01):
    """The smallest rank within `margin` of the best accuracy."""
    best = max(points.values())
    return min(rank for rank, accuracy in points.items() if accuracy >= best - margin - 1e-9)
