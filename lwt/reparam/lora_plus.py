"""LoRA+: the map is LoRA's; only the learning rates of its two matrices differ."""

import math

from lwt import errors


def lora_plus_labels(labels, *, ratio=16.0, embedding_rate=0.005):
    """A factor on the learning rate for every leaf of an adapter: λ = η_B/η_A (Hayou et al. 2024, arXiv 2402.12354).

    =============  =====================  ===================================================================
    label          factor                 reason
    =============  =====================  ===================================================================
    a              1
    b, vector      ratio                  starts at zero, or is a vector: features move when it moves
    embedding_b    embedding_rate         rows of a table are rarely seen, so that each step of Adam is large
    embedding_a    embedding_rate·ratio   the starts are swapped (a is zero), and so is the ratio
    constant       0                      never trained
    =============  =====================  ===================================================================

    Published ratios: the authors' scripts use 80, 10 and 1, depending on the task; PEFT's documentation and others 16.
    The ratio should be 1 or more, with a learning rate somewhat below that of plain LoRA. The authors' code gives
    embeddings an absolute rate of 1e-6 for both matrices, which is 0.005 of a usual 2e-4.

    The factors go into ``optax.partition`` or a config's ``optimizer.rate_rules``; no optimizer is built here.

    Args:
        labels: ``{leaf: label}`` of a reparametrization.
        ratio: λ, above 0; 1 is plain LoRA (but for embeddings).
        embedding_rate: factor for embeddings, above 0.

    Returns:
        ``{leaf: factor}``.

    Raises:
        lwt.errors.ConfigError: a number that is not above 0, or an unknown label.
    """
    for key, value in (("ratio", ratio), ("embedding_rate", embedding_rate)):
        if not 0 < value < math.inf:
            raise errors.ConfigError(f"lora_plus {key} is {value!r}; it has to be a number above 0")
    factors = {
        "a": 1.0,
        "b": ratio,
        "vector": ratio,
        "embedding_a": embedding_rate * ratio,
        "embedding_b": embedding_rate,
        "constant": 0.0,
    }
    unknown = [f"{leaf} ({label!r})" for leaf, label in labels.items() if label not in factors]
    if unknown:
        raise errors.ConfigError(f"lora_plus knows no label of {unknown[0]}; there is: {', '.join(factors)}")
    return {leaf: float(factors[label]) for leaf, label in labels.items()}
