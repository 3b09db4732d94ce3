"""Initial factors of low-rank methods from data: from the gradients or the inputs of a weight.

All are computed in float64 on the host, with NumPy. The moments of n inputs x are ``Σ [x 1]ᵀ [x 1]``, `[in+1 in+1]`.
"""

import numpy as np

GAMMA = 16.0  # γ of LoRA-GA
DAMPING = 0.01  # of CorDA's inverse, relative to the mean of the diagonal


def lora_ga(gradient, rank):
    """LoRA-GA's `a` `[in r]` and `b` `[r out]` (Wang et al. 2024, arXiv 2407.05000, section 3.4).

    The `gradient` `[in out]` has the singular vectors V (input side) and U: ``a = c V[:r]`` and ``b = c U[r:2r]``, with
    ``c = out^¼ / √γ``, so that the first step of LoRA moves the weight as the first of full tuning would. (PEFT 0.21
    scales b by the singular values and `c`, and leaves a as it is.)
    """
    left, _, right = np.linalg.svd(gradient, full_matrices=False)
    scale = gradient.shape[1] ** 0.25 / np.sqrt(GAMMA)
    return scale * left[:, :rank], scale * right[rank : 2 * rank]


def eva(moments, rank):
    """EVA's `a` `[in r]` (Paischer et al. 2024, arXiv 2410.07170, section 3.2): the principal axes of the inputs."""
    n, mean = moments[-1, -1], moments[:-1, -1] / moments[-1, -1]
    _, axes = np.linalg.eigh(moments[:-1, :-1] / n - np.outer(mean, mean))
    return axes[:, ::-1][:, :rank]


def corda(w, moments, *, rank):
    """CorDA's `a` `[in r]` and `b` `[r out]` (Yang et al. 2024, arXiv 2406.05223, section 3.2).

    They are the r largest singular triples of ``C W``, with C⁻¹ on the input side, where C is the inputs' second
    moment: the part of `w` `[in out]` that the task uses most (CorDA's instruction-previewed mode).
    """
    c = moments[:-1, :-1] / np.trace(moments[:-1, :-1]) * len(w)
    c = c + DAMPING * np.eye(len(w))
    left, values, right = np.linalg.svd(c @ np.asarray(w, np.float64), full_matrices=False)
    root = np.sqrt(values[:rank])
    return np.linalg.solve(c, left[:, :rank]) * root[None], root[:, None] * right[:rank]
