"""Finds the strongest triggers of the keys of feed-forward layers, and how coefficients change without a token.

A coefficient is what the second product of a feed-forward layer reads: ``act(x·k + b)`` for key k (a column of
``fc1/kernel``). Two passes over the same batches: the first keeps only the strongest positions of each key, the
second looks them up.
"""

import collections

import jax
import jax.numpy as jnp
import numpy as np

from lwt.layers import listen

FIELDS = ("batch", "row", "position", "last", "before", "answer")  # of a trigger, beside its coefficient


def strongest(model, weights, *, batches, names, top=50):
    """The positions where each key's coefficient is largest, over all tokens of all batches.

    Args:
        model: a linen module.
        weights: flat dict.
        batches: an iterable of numpy batches.
        names: the kernels `[f d]` that the coefficients are multiplied with.
        top: the number of positions for each key.

    Returns:
        ``{name: {"coefficient": [f top] float32, descending, and FIELDS: [f top] int32}}``: the number of the batch and
        its row and position; the ids of the token there and of the one before it (-1: none), and the `answers`. If
        there are fewer tokens, coefficients are -inf.
    """

    def largest(x, real):
        x = jnp.where(real[..., None], x, -jnp.inf).reshape(-1, x.shape[-1])
        return jax.lax.top_k(x.T, min(top, x.shape[0]))

    best = {}
    settings = {"names": names, "summary": largest, "method": _method(model)}
    summaries = listen.summaries(model, weights, batches=batches, **settings)
    for number, (batch, largest_of) in enumerate(summaries):
        for name, (values, places) in largest_of.items():
            ids = batch[listen.side(name, batch)[0]]
            before = np.concatenate([np.full((len(ids), 1), -1), ids[:, :-1]], axis=1)
            row, position = np.divmod(places, ids.shape[1])
            row %= len(ids)  # a layer that others share reads the rows several times
            looked_up = (array[row, position] for array in (ids, before, answers(name, batch)))
            own = {"coefficient": values, **dict(zip(FIELDS, (np.full_like(row, number), row, position, *looked_up)))}
            best[name] = _merged(best[name], own, top) if name in best else own
    return {name: best[name] for name in names}


def _method(model):
    """The method that computes all positions: a classifier's call may compute the first one alone in its last layer."""
    return "hidden_states" if hasattr(model, "hidden_states") else None


def _merged(first, second, top):
    both = {key: np.concatenate([first[key], second[key]], axis=1) for key in first}
    order = np.argsort(-both["coefficient"], axis=1, kind="stable")[:, :top]
    return {key: np.take_along_axis(values, order, axis=1) for key, values in both.items()}


def answers(name, batch):
    """The token `[b t]` that a value should predict at each position that the layer `name` reads.

    In a decoder, this is the next token. In an encoder, which predicts none, it is the token itself, or the one under
    the mask.
    """
    keys = listen.side(name, batch)
    if keys[0] == "inputs":
        return batch["targets"]
    ids = batch[keys[0]]
    if "masked_positions" not in batch:
        return ids
    ids, places = ids.copy(), batch["masked_positions"]
    there = np.take_along_axis(ids, places, axis=1)
    np.put_along_axis(ids, places, np.where(batch["masked_weights"] > 0, batch["masked_targets"], there), axis=1)
    return ids


def contexts(found, batches, *, wanted):
    """``{(name, key, place): (ids before, id, ids after)}`` of the first triggers of some keys.

    Args:
        found: from `strongest`; batches: the same ones.
        wanted: ``{name: (keys, number of their triggers)}``.
    """
    by_batch = collections.defaultdict(list)
    for name, (keys, count) in wanted.items():
        own = found[name]
        for key in keys:
            for place in range(min(count, own["coefficient"].shape[1])):
                if np.isfinite(own["coefficient"][key, place]):
                    by_batch[int(own["batch"][key, place])].append((name, int(key), place))
    texts = {}
    for number, batch in enumerate(batches):
        for name, key, place in by_batch[number]:
            ids_key, segments_key = listen.side(name, batch)
            row, position = (int(found[name][what][key, place]) for what in ("row", "position"))
            ids = batch[ids_key][row, batch[segments_key][row] > 0].tolist()
            texts[name, key, place] = ids[:position], ids[position], ids[position + 1 :]
    return texts


def without(name, batch, *, rows, drop):
    """Some rows of a batch, each without one token of the side that the layer `name` reads.

    Args:
        rows: `[n]`; drop: `[n]` positions of the removed tokens; later tokens move up.
    """
    taken = {key: array[rows] for key, array in batch.items()}
    for key in listen.side(name, batch):
        length = taken[key].shape[1]
        at = np.arange(length)[None] + (np.arange(length)[None] >= drop[:, None])
        shorter = np.take_along_axis(taken[key], np.minimum(at, length - 1), axis=1)
        taken[key] = np.where(at < length, shorter, 0)
    return taken


def removals(model, weights, *, batches, found, keys=32, top=10):
    """How a coefficient changes when a token of its trigger is removed (Geva et al., section 3.2 and figure 3).

    The token is the first one of the text, or the last one of the prefix, at whose position the coefficient was read;
    after the removal, it is read where the prefix now ends. In an encoder, the text after the prefix stays.

    Args:
        batches: those that `found` comes from.
        found: from `strongest`.
        keys: the number of keys of a layer, evenly spaced among those with triggers; top: that of triggers of each.

    Returns:
        ``{name: {"first": c'/c - 1, "last": ...}}``, means over triggers with at least two tokens; None without any.
    """
    read = jax.jit(
        lambda weights, batch, rows, positions, keys: {
            name: x[rows, positions, jnp.minimum(keys, x.shape[2] - 1)]
            for name, x in listen.inputs(model, weights, batch=batch, names=list(found), method=_method(model)).items()
        }
    )
    changes = {name: {"first": [], "last": []} for name in found}
    chosen = {name: _sample(own, keys, top) for name, own in found.items()}
    for number, batch in enumerate(batches):
        for name, places in chosen.items():
            own = {what: values[places] for what, values in found[name].items()}
            start = 0 if listen.side(name, batch)[0] == "source" else 1  # after [CLS], or the begin mark
            mine = np.flatnonzero((own["batch"] == number) & (own["position"] > start))
            size = len(batch["example"])
            for some in (mine[i : i + size] for i in range(0, len(mine), size)):
                filled = np.resize(some, size)  # one shape to compile: the first of them again
                row, position, key = own["row"][filled], own["position"][filled], places[0][filled]
                for which, drop in (("first", np.full_like(position, start)), ("last", position)):
                    changed = without(name, batch, rows=row, drop=drop)
                    values = np.asarray(read(weights, changed, np.arange(size), position - 1, key)[name])
                    before = own["coefficient"][some]
                    changes[name][which] += (values[: len(some)] / before - 1).tolist()
    return {
        name: {which: float(np.mean(values)) if values else None for which, values in own.items()}
        for name, own in changes.items()
    }


def _sample(own, keys, top):
    """``(keys, places)`` of positive coefficients: the first few of some keys that have any, evenly spaced."""
    alive = np.flatnonzero(own["coefficient"][:, 0] > 0)
    some = alive[np.unique(np.linspace(0, len(alive) - 1, min(keys, len(alive))).astype(int))]
    pairs = [(key, place) for key in some for place in np.flatnonzero(own["coefficient"][key, :top] > 0)]
    return tuple(np.array(pairs, int).reshape(-1, 2).T)
