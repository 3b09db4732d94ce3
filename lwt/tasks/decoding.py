"""Decoding: greedy, sampled and beam search, as pure functions of ``step`` and a cache.

``step(tokens [b], cache) -> (logits [b v], cache)`` is a model's one step of decoding. The cache is
``{"self": ..., "cross": ...}``: every array leaf has the batch as its first axis, "self" changes with each step (its
scalars, such as the index, are shared by the rows) and "cross" stays the same. The searches run inside `jax.jit`,
together with the encoder. Their loops stop when every row has ended, and return tokens and scores. A row of tokens ends
with `eos` (unless cut off at `length`) and is filled with pad. Pad, begin and ids from `vocabulary` on (the padding of
a table) are never chosen. Common arguments:

    batch: number of rows b.
    length: maximum tokens of an answer, eos included.
    vocabulary: number of real ids, or None for all of v.
    done: `[b]` bool, True for filler rows, which come out as pad and do not keep the loop running; or None.
    eos: the id that ends an answer.
    fewer: below b; when no more rows than these still run, the others leave the batch. 0: they stay. This saves the
        products of rows that have ended, but compiles a second loop. Answers are the same.
    force_end: whether `eos` is the only choice for the last of `length` tokens, as transformers' forced_eos_token_id.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.data import tokenizer
from lwt.layers import top_k as largest

STRIDE = 8  # steps between two checks whether a search has ended, for which an accelerator waits for the host
PENALTIES = {  # of an answer's length, by which its log-probability is divided
    "wu": lambda tokens, alpha: ((5.0 + tokens) / 6.0) ** alpha,
    "power": lambda tokens, alpha: jnp.asarray(tokens, jnp.float32) ** alpha,
}


def greedy(
    step,
    cache,
    *,
    batch,
    length,
    vocabulary=None,
    done=None,
    with_scores=False,
    eos=tokenizer.EOS,
    force_end=False,
    fewer=0,
):
    """Chooses the likeliest token at every step.

    Returns:
        Tokens `[b length]` int32 and, if `with_scores`, the log-probabilities `[b]` of the answers, else None.
    """

    def choose(logits, i):
        best = largest.top_k(logits, 1, allowed=_allowed(logits, vocabulary))[1][:, 0]
        return jnp.where(force_end & (i == length - 1), eos, best)

    return _run(
        step, cache, choose, batch=batch, length=length, done=done, with_scores=with_scores, eos=eos, fewer=fewer
    )


def sample(step, cache, *, key, batch, length, temperature=1.0, top_k=0, top_p=1.0, vocabulary=None, done=None):
    """Draws tokens from ``softmax(logits / temperature)``, truncated to its likeliest tokens.

    Args:
        key: a random key.
        temperature: above 0; small values approach greedy search.
        top_k: keep the k likeliest tokens; 0 keeps all.
        top_p: then keep the likeliest that together reach this share of the rest (nucleus sampling, Holtzman et al.
            2020, section 3.1), and tokens as likely as the last of these. 1 keeps all.

    Returns tokens `[b length]` int32, and None, as `greedy` does. A temperature, top_k or top_p out of range raises
    `lwt.errors.ConfigError`.
    """
    if not temperature > 0:
        raise errors.ConfigError(f"temperature={temperature} must be above 0 (greedy search is the limit at 0)")
    if top_k < 0 or not 0 < top_p <= 1:
        raise errors.ConfigError(f"top_k={top_k}, top_p={top_p}: top_k must be at least 0, top_p in (0, 1]")

    def choose(logits, i):
        allowed = _allowed(logits, vocabulary)
        if top_k:
            kept, ids = largest.top_k(logits, min(top_k, logits.shape[-1]), allowed=allowed)
        else:
            kept, ids = jnp.where(allowed, logits, -jnp.inf), None
        shares = jnp.exp((kept - kept.max(-1, keepdims=True)) / temperature)
        if top_p < 1:
            shares = _nucleus(shares, top_p)
        place = _draw(jax.random.fold_in(key, i), shares)
        return place if ids is None else jnp.take_along_axis(ids, place[:, None], axis=1)[:, 0]

    return _run(step, cache, choose, batch=batch, length=length, done=done)


def beam(
    step, cache, *, batch, length, beams, alpha=0.6, vocabulary=None, done=None, penalty="wu", force_end=False, fewer=0
):
    """Beam search for the largest ``log p(y) / penalty(|y|)``, with finished answers kept apart.

    Of the best ``2 · beams`` continuations, those that end and are among the first `beams` become finished answers, of
    which the best `beams` are kept; the best `beams` of the others keep running. A row is done when its running beams
    can no longer beat its worst finished answer, even at the full length; with "power", at their present length, which
    transformers assumes. One beam is greedy search.

    Args:
        beams: running beams, and finished answers, of a row.
        alpha: α of the penalty. 0 for none.
        penalty: "wu", ``((5 + |y|) / 6)^α`` (Wu et al. 2016, equation 14), or "power", ``|y|^α``; |y| counts eos.

    Returns:
        Tokens `[b length]` int32 of the best answer (an unfinished one only if none finished) and its penalised score
        `[b]`.

    Raises:
        lwt.errors.ConfigError: beams < 1 or alpha < 0.
    """
    if beams < 1 or alpha < 0:
        raise errors.ConfigError(f"beams={beams}, alpha={alpha}: beams must be at least 1, alpha at least 0")
    filler = _rows_done(done, batch)
    past, cross = (
        jax.tree.map(lambda x: jnp.repeat(x, beams, axis=0) if x.ndim else x, cache[part]) for part in ("self", "cross")
    )
    start = {
        "i": jnp.zeros((), jnp.int32),
        "done": filler,
        "past": past,
        "running": jnp.full((batch, beams), -jnp.inf).at[:, 0].set(0.0),  # the beams start equal, so only one counts
        "tokens": jnp.full((batch, beams, length), tokenizer.PAD, jnp.int32),
        "last": jnp.full((batch, beams), tokenizer.BOS, jnp.int32),
        "finished": jnp.full((batch, beams), -jnp.inf),
        "answers": jnp.full((batch, beams, length), tokenizer.PAD, jnp.int32),
    }

    divide = functools.partial(PENALTIES[penalty], alpha=alpha)

    def body(s, cross):
        logits, new = step(s["last"].reshape(-1), {"self": s["past"], "cross": cross})
        if force_end:  # the end mark, whose probability is then 1
            only = jnp.where(jnp.arange(logits.shape[-1]) == tokenizer.EOS, 0.0, -jnp.inf)
            logits = jnp.where(s["i"] == length - 1, only, logits)
        scores, parents, ids = _continuations(logits, s["running"], _allowed(logits, vocabulary))
        tokens = _rows(s["tokens"], parents)
        tokens = jax.lax.dynamic_update_slice_in_dim(tokens, ids[:, :, None], s["i"], axis=2)

        ends = ids == tokenizer.EOS
        ended = ends & (jnp.arange(ids.shape[1]) < beams) & ~s["done"][:, None]
        ended = jnp.where(ended, scores / divide(s["i"] + 1), -jnp.inf)
        finished, order = jax.lax.top_k(jnp.concatenate([s["finished"], ended], axis=1), beams)
        answers = _rows(jnp.concatenate([s["answers"], tokens], axis=1), order)

        running, order = jax.lax.top_k(jnp.where(ends, -jnp.inf, scores), beams)
        parents = _rows(parents, order) + beams * jnp.arange(len(order))[:, None]
        past = jax.tree.map(lambda x: x[parents.reshape(-1)] if x.ndim else x, new["self"])
        longest = s["i"] + 1 if penalty == "power" else length  # scores only fall, and no penalty is milder
        hopeless = running[:, 0] / divide(longest) <= finished[:, -1]
        if beams == 1:
            hopeless = finished[:, 0] > -jnp.inf
        return {
            "i": s["i"] + 1,
            "done": s["done"] | hopeless,
            "past": past,
            "running": running,
            "tokens": _rows(tokens, order),
            "last": _rows(ids, order),
            "finished": finished,
            "answers": answers,
        }

    s = _search(body, start, cross, length=length, fewer=fewer, want=("tokens", "running", "answers", "finished"))
    any_finished = s["finished"][:, 0] > -jnp.inf
    tokens = jnp.where(any_finished[:, None], s["answers"][:, 0], s["tokens"][:, 0])
    scores = jnp.where(any_finished, s["finished"][:, 0], s["running"][:, 0] / divide(length))
    return jnp.where(filler[:, None], tokenizer.PAD, tokens), jnp.where(filler, 0.0, scores)


def _run(step, cache, choose, *, batch, length, done, with_scores=False, eos=tokenizer.EOS, fewer=0):
    """The loop of greedy search and sampling, with ``choose(logits [b v], i) -> [b]``."""

    def body(s, cross):
        logits, new = step(s["last"], {"self": s["past"], "cross": cross})
        last = jnp.where(s["done"], tokenizer.PAD, choose(logits, s["i"])).astype(jnp.int32)
        scores = s["scores"]
        if with_scores:
            at_last = jnp.take_along_axis(logits, last[:, None], axis=1)[:, 0]
            scores = scores + jnp.where(s["done"], 0.0, at_last - jax.nn.logsumexp(logits, axis=-1))
        return {
            "i": s["i"] + 1,
            "done": s["done"] | (last == eos),
            "past": new["self"],
            "tokens": jax.lax.dynamic_update_slice_in_dim(s["tokens"], last[:, None], s["i"], axis=1),
            "last": last,
            "scores": scores,
        }

    start = {
        "i": jnp.zeros((), jnp.int32),
        "done": _rows_done(done, batch),
        "past": cache["self"],
        "tokens": jnp.full((batch, length), tokenizer.PAD, jnp.int32),
        "last": jnp.full((batch,), tokenizer.BOS, jnp.int32),
        "scores": jnp.zeros((batch,)) if with_scores else None,
    }
    found = _search(body, start, cache["cross"], length=length, fewer=fewer, want=("tokens", "scores"))
    return found["tokens"], found["scores"]


def _search(body, state, cross, *, length, fewer, want):
    """``state = body(state, cross)`` until all rows are done or `length` steps are made; a dict of what is in `want`.

    As soon as at most `fewer` rows run, a second loop goes on with these alone.

    Args:
        state: "i", the steps made; "done" `[b]`; and arrays with the rows, or all beams of all rows, as first axis.
    """
    batch = len(state["done"])

    def unless_over(s, cross):
        keep, new = functools.partial(jnp.where, s["i"] >= length), body(s, cross).items()
        return {name: x if name == "past" else jax.tree.map(keep, s[name], x) for name, x in new}

    def loop(state, cross, *, until):
        one = functools.partial(body, cross=cross)
        if jax.default_backend() != "cpu":
            one = functools.partial(jax.lax.fori_loop, 0, STRIDE, lambda _, s: unless_over(s, cross))
        return jax.lax.while_loop(lambda s: (s["i"] < length) & ((~s["done"]).sum() > until), one, state)

    def running(x):
        return x.reshape(batch, -1, *x.shape[1:])[kept].reshape(-1, *x.shape[1:]) if x.ndim else x

    state = loop(state, cross, until=fewer)
    found = {name: state[name] for name in want}
    if not fewer:
        return found
    kept = jnp.argsort(state["done"], stable=True)[:fewer]
    state = loop(*jax.tree.map(running, (state, cross)), until=0)
    return jax.tree.map(lambda all_, some: all_.at[kept].set(some), found, {name: state[name] for name in want})


def _rows_done(done, batch):
    return jnp.zeros((batch,), bool) if done is None else jnp.asarray(done, bool)


def _allowed(logits, vocabulary):
    """The ids that may be produced, `[v]` numpy bools."""
    allowed = np.arange(logits.shape[-1]) < (vocabulary or logits.shape[-1])
    allowed[[tokenizer.PAD, tokenizer.BOS]] = False
    return allowed


def _rows(x, order):
    """``x[row, order[row]]`` for every row: `[b n ...]` by `[b m]` -> `[b m ...]`."""
    return x[jnp.arange(x.shape[0])[:, None], order]


def _continuations(logits, running, allowed):
    """The best ``2 · beams`` continuations of a row: scores, parent beams and token ids, each `[b 2·beams]`.

    One continuation of a beam ends, so its best ``beams + 1`` hold all the others that can matter, and at least `beams`
    of the result do not end.
    """
    batch, beams = running.shape
    values, ids = largest.top_k(logits, min(beams + 1, logits.shape[-1]), allowed=allowed)
    each = values.shape[-1]
    scores = running[:, :, None] + (values - jax.nn.logsumexp(logits, axis=-1)[:, None]).reshape(batch, beams, each)
    scores, places = jax.lax.top_k(scores.reshape(batch, -1), min(2 * beams, beams * each))
    return scores, places // each, _rows(ids.reshape(batch, -1), places)


def _nucleus(shares, top_p):
    """Sets to 0 all but the largest shares `[b n]` that together reach ``top_p`` of a row's sum.

    It bisects for the smallest share kept. Non-negative floats have the order of their bit patterns, so 31 halvings are
    exact. (Sorting 50,000 shares of a row would take thirty times as long.)
    """
    bits = jax.lax.bitcast_convert_type(shares, jnp.int32)
    enough = top_p * shares.sum(-1)

    def halve(_, bounds):
        low, high = bounds  # shares of at least `low` reach the sum, of at least `high` do not
        middle = low + (high - low) // 2
        reach = jnp.where(bits >= middle[:, None], shares, 0).sum(-1) >= enough
        return jnp.where(reach, middle, low), jnp.where(reach, high, middle)

    low, _ = jax.lax.fori_loop(0, 31, halve, (jnp.zeros_like(bits[:, 0]), bits.max(-1) + 1))
    return jnp.where(bits >= low[:, None], shares, 0)


def _draw(key, shares):
    """Draws one place per row in proportion to the shares `[b n]`: first a block of places, then one in it."""
    batch, size = shares.shape
    if size % largest.BLOCK:
        return jax.random.categorical(key, jnp.log(shares))
    blocks = shares.reshape(batch, -1, largest.BLOCK)
    outer, inner = jax.random.split(key)
    block = jax.random.categorical(outer, jnp.log(blocks.sum(-1)))
    place = jax.random.categorical(inner, jnp.log(blocks[jnp.arange(batch), block]))
    return block * largest.BLOCK + place
