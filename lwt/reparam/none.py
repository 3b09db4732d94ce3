"""No reparametrization: the model multiplies by the stored weights."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Unchanged:
    """``weights = base``; ``optimizer.trainable`` selects the trained weights.

    Full fine-tuning is ``(".*",)``; BitFit (Ben Zaken et al. 2022) trains the biases, ``(".*/bias",)``.
    """

    identity_at_start = True

    def init(self, key, base):
        """An adapter without leaves."""
        del key, base
        return {}

    def expand(self, base, adapter, step, *, key=None):
        """The weights: `base`."""
        del adapter, step, key
        return dict(base)

    def labels(self, adapter):
        """No labels, since there are no leaves."""
        return dict.fromkeys(adapter, "constant")
