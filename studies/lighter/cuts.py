"""The methods that `studies.lighter.compression` compares, each at several strengths."""

import dataclasses

SPARSITIES = (0.5, 0.7, 0.8, 0.9, 0.95)
SHARES = (0.25, 0.5, 0.75)
ENERGIES = (0.8, 0.6, 0.4, 0.2)
FINETUNE, ZEROS_STAY = dict(method="finetune"), dict(method="prune")  # zeros of the base stay zeros
AGAIN, FROM_SCRATCH = (1.25e-4, 5e-4, 2e-3), (2.5e-4, 1e-3, 4e-3)  # rates of the search


@dataclasses.dataclass(frozen=True)
class Method:
    """A compression method at several strengths.

    Attributes:
        title: its name on the page.
        argument: argument that is the strength: of `cut`, or of the config file if there is no cut.
        strengths: its values, the mildest first.
        cut: a key of `recipe.CUTS`, or "" for no cut before training.
        settings: other arguments of the cut.
        training: arguments of the config file.
        rates: learning rates of the search.
    """

    title: str
    argument: str
    strengths: tuple
    cut: str = ""
    settings: dict = dataclasses.field(default_factory=dict)
    training: dict = dataclasses.field(default_factory=lambda: FINETUNE)
    rates: tuple = AGAIN

    def labels(self):
        """The strengths as text: ``"0.5"``, ``"2:4"``."""
        return [":".join(map(str, one)) if isinstance(one, list) else f"{one:g}" for one in self.strengths]


METHODS = {
    "weights": Method("magnitude pruning, per layer", "sparsity", SPARSITIES, "sparsify", training=ZEROS_STAY),
    "global": Method(
        "magnitude pruning, whole model", "sparsity", SPARSITIES, "sparsify", dict(scope="global"), ZEROS_STAY
    ),
    "gradual": Method("gradual magnitude pruning", "sparsity", SPARSITIES, training=ZEROS_STAY),
    "pattern": Method("n:4 sparsity", "pattern", ([2, 4], [1, 4]), "sparsify", training=ZEROS_STAY),
    "units": Method("pruned hidden units", "units", (*SHARES, 0.9), "structured"),
    "heads": Method("pruned heads", "heads", SHARES, "structured"),
    "svd": Method("SVD", "energy", ENERGIES, "factorise"),
    "svd_calibrated": Method("calibrated SVD", "energy", ENERGIES, "factorise", dict(calibrate=256)),
    "student": Method("student", "width", (0.75, 0.5, 0.25), rates=FROM_SCRATCH),
    "taught": Method(
        "distilled student", "width", (0.75, 0.5, 0.25), training=dict(method="distill"), rates=FROM_SCRATCH
    ),
}
