"""Shared layers: all layers of a chunk multiply with the matrices of its first layer."""

import dataclasses

from lwt import errors
from lwt.reparam.parts import stacks, targets


@dataclasses.dataclass(frozen=True)
class Share:
    """``W_l = W_first`` in chunks of layers (Lan et al. 2019, "ALBERT", arXiv 1909.11942).

    ALBERT has one chunk and shares all weights. Here, each layer keeps what is outside the targets, such as its own
    biases and norms. The gradient of a shared matrix is the sum over its layers.

    Attributes:
        chunks: k, of every stack of layers; must divide its number of layers.
        targets: which matrices of layers to share, see `targets.matching`.
    """

    chunks: int = 1
    targets: str | tuple[str, ...] = stacks.MATRICES

    identity_at_start = False

    def __post_init__(self):
        targets.check(self)

    def init(self, key, base):
        """No leaves: ``{}``."""
        del key, base
        return {}

    def stored(self, base):
        """The weights of the full model `base` without the targets of all but the first layer of every chunk.

        Raises:
            lwt.errors.ConfigError: a target is outside the layers; `chunks` does not divide the layers of a stack; the
                layers of a chunk have other targets than its first one, or of other shapes; a layer keeps no weight.
        """
        first = self._first(base)
        odd = set(first) ^ set(targets.matching(base, self.targets))
        odd |= {name for name in {*first} - odd if base[name].shape != base[first[name]].shape}
        if odd:
            raise errors.ConfigError(
                f"reparam.targets {self.targets!r}: the layers of a chunk must have the same matrices to share them; "
                f"{min(odd)} differs"
            )
        own = {name: w for name, w in base.items() if first.get(name, name) == name}
        for stack, indices in stacks.layers(base).items():
            if bare := indices - stacks.layers(own)[stack]:
                raise errors.ConfigError(
                    f"reparam.targets {self.targets!r} leaves {stack}_{min(bare)} no weight of its own; its norms or "
                    "biases have to stay"
                )
        return own

    def expand(self, base, adapter, step, *, key=None):
        """The weights of the full model, from the stored ones."""
        del adapter, step, key
        return {**base, **{name: base[first] for name, first in self._first(base).items()}}

    def labels(self, adapter):
        """``{}``: there are no leaves."""
        del adapter
        return {}

    def _first(self, names):
        """``{target: that of the chunk's first layer}``, from the names of the full model or of what is stored."""
        layers, found = stacks.layers(names), {}
        for name in targets.matching(names, self.targets):
            match = stacks.matched(name, self.targets)
            stack, index = match["stack"], int(match["index"])
            length = stacks.length(stack, layers[stack], chunks=self.chunks)
            if index % length == 0:
                found |= {f"{stack}_{layer}/{match['rest']}": name for layer in range(index, index + length)}
        return found
