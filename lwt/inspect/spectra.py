"""Singular values of a run's weights, and of its updates to the run it started from (such as a LoRA's)."""

import numpy as np

from lwt.layers import linear
from lwt.reparam.parts import targets

KERNELS = r".*(kernel|embedding|embed/\w+)"
UNCHANGED = 1e-5  # an update this small beside its weight is the rounding of a merge
FIGURES = {  # of a matrix -> digits after the point
    "norm": 3,
    "largest": 3,
    "effective_rank": 1,
    "stable_rank": 1,
    "rank_90": 0,
    "rank_99": 0,
    "elbow": 0,
}


def figures(values):
    """The `FIGURES` of a matrix, by its singular values `[k]`, descending, not all 0; the elbow may be None."""
    energy, shares = np.square(values), values / values.sum()
    kept = np.cumsum(energy) / energy.sum()
    entropy = -(shares[shares > 0] * np.log(shares[shares > 0])).sum()
    return {
        "norm": float(np.sqrt(energy.sum())),
        "largest": float(values[0]),
        "effective_rank": float(np.exp(entropy)),
        "stable_rank": float(energy.sum() / energy[0]),
        "rank_90": 1 + int(np.searchsorted(kept, 0.9 * (1 - 1e-12))),
        "rank_99": 1 + int(np.searchsorted(kept, 0.99 * (1 - 1e-12))),
        "elbow": elbow({0: 0.0, **{rank: float(share) for rank, share in enumerate(kept, 1)}}),
    }


def of_weights(weights, pattern=KERNELS):
    """``{name: singular values [k]}``, descending, float64, of the matrices of a flat dict that `pattern` matches."""
    names = targets.select(weights, pattern, key="--weights")
    dense = {name: np.asarray(linear.dense(weights[name]), np.float64) for name in names}
    return {name: np.linalg.svd(w, compute_uv=False) for name, w in dense.items() if np.any(w)}


def of_updates(weights, base, *, pattern=KERNELS):
    """The same for ``weights - base``, of the weights that have one shape in both and differ."""
    changed = {}
    for name in targets.select(weights, pattern, key="--weights"):
        if name in base and base[name].shape == weights[name].shape:
            new, old = (np.asarray(linear.dense(w[name]), np.float64) for w in (weights, base))
            if np.linalg.norm(new - old) > UNCHANGED * np.linalg.norm(old):
                changed[name] = new - old
    return of_weights(changed, pattern) if changed else {}


def elbow(points):
    """The rank whose point is farthest above the straight line from the first to the last point, axes scaled to [0, 1].

    Args:
        points: ``{rank: accuracy}``.

    Returns:
        None if accuracy does not rise from end to end, or no point is above the line.
    """
    order = sorted(points)
    first, last = order[0], order[-1]
    rise = points[last] - points[first]
    if len(order) < 3 or rise <= 0:
        return None
    above = {r: (points[r] - points[first]) / rise - (r - first) / (last - first) for r in order[1:-1]}
    best = max(above, key=above.get)
    return best if above[best] > 1e-9 else None
