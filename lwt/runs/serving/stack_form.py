"""The one reparametrization in which the adapters of a stack, of one method or several, have leaves of one shape."""

import json
import re

import jax
import numpy as np

from lwt import errors, trees
from lwt.layers import linear
from lwt.reparam import adapters as artefacts
from lwt.reparam import compose


class Form:
    """The reparametrization of a stack: the one of all adapters, or a chain that has each of theirs as a part."""

    def __init__(self, found, base):
        sections = {_key(adapter): adapter for adapter in found}
        self._only = found[0].config if len(sections) == 1 and not _ramps(found[0].reparam) else None
        if self._only is not None:
            self.expand = found[0].reparam.expand
            return
        sections = {key: adapter for key, adapter in sections.items() if adapter.leaves}
        low = {key: leaves for key, adapter in sections.items() if (leaves := _as_lora(adapter, base))}
        self._parts = [key for key in sections if key not in low]
        for key in self._parts:
            if not _starts_as_identity(sections[key].reparam, base):
                raise errors.ConfigError(f"reparam {key}: the method does not stack with others; merge the adapter")
        parts, self._rank = [sections[key].config for key in self._parts], 0
        if low:
            names = [name.removesuffix("/a") for leaves in low.values() for name in leaves if name.endswith("/a")]
            targets, self._rank = "|".join(map(re.escape, sorted({*names}))), max(map(_rank, low.values()))
            parts.append({"name": "lora", "rank": self._rank, "scaling": "one", "targets": targets})
        chain = compose.build({"name": "compose", "parts": parts} if parts else {"name": "none"})
        self._start, self.expand = chain.init(jax.random.key(0), base), chain.expand

    def leaves(self, adapter, base, *, where):
        """The leaves of an adapter in this form, with those of the parts that it lacks as at their start."""
        if self._only is not None:
            found = adapter.leaves if adapter.config == self._only else None
        elif not adapter.leaves:
            found = self._start
        elif _key(adapter) in self._parts:
            prefix = f"{self._parts.index(_key(adapter))}_{adapter.config['name']}"
            found = self._start | trees.with_prefix(adapter.leaves, prefix)
        else:
            low = _as_lora(adapter, base) if self._rank else None
            found = low and self._start | trees.with_prefix(
                artefacts.pad_rank(low, max(self._rank, _rank(low))), f"{len(self._parts)}_lora"
            )
        if found is None:
            raise errors.ConfigError(f"{where} has another section reparam than the adapters of the stack")
        return found


def _key(adapter):
    return json.dumps(adapter.config, sort_keys=True)


def _ramps(reparam):
    """Whether the weights depend on the step, too."""
    return hasattr(reparam, "ramp_at") and reparam.ramp_at(0) != {}


def _starts_as_identity(reparam, base):
    """Whether the leaves at the start change no weights, those of another base included."""
    if hasattr(reparam, "stored") or _ramps(reparam):
        return False
    other = {name: 2 * w for name, w in base.items()}
    found = linear.merge(reparam.expand(other, reparam.init(jax.random.key(0), base), 0))
    return all(np.allclose(found[name], w, rtol=1e-6, atol=0) for name, w in other.items())


def _rank(leaves):
    """The rank of the leaves of plain LoRA."""
    return max(leaf.shape[1] for name, leaf in leaves.items() if name.endswith("/a"))


def _as_lora(adapter, base):
    """The leaves of an adapter as plain LoRA; None if it is not of low rank, or if these are far larger."""
    try:
        found = artefacts.low_rank(adapter, base).leaves
    except errors.ConfigError:
        return None
    return found if trees.count(found) <= 2 * trees.count(adapter.leaves) else None
