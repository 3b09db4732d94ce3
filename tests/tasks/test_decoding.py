"""Searches equal enumeration, Python loops and exact distributions on a small recurrent function."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lwt import errors
from lwt.tasks import decoding

PAD, UNKNOWN, BOS, EOS = 0, 1, 2, 3
VOCABULARY, TABLE, WIDTH = 6, 8, 5  # ids 6 and 7 only fill the table; allowed: 1, 3, 4, 5


def toy(seed, rows, *, eos=0.0):
    """A random recurrent model: (step, cache, log_p), where log_p(row, tokens) scores tokens by a numpy loop."""
    rng = np.random.default_rng(seed)
    embedding, mix = rng.normal(size=(TABLE, WIDTH)), rng.normal(size=(WIDTH, WIDTH))
    out, bias = 2 * rng.normal(size=(WIDTH, TABLE)), rng.normal(size=(rows, TABLE))
    bias[:, [PAD, BOS, 6, 7]] += 2.0  # likely, but never allowed
    bias[:, EOS] += eos
    embedding, mix, out, bias = (x.astype(np.float32) for x in (embedding, mix, out, bias))

    def step(tokens, cache):
        state = jnp.tanh(cache["self"]["state"] @ mix + jnp.asarray(embedding)[tokens])
        past = {"index": cache["self"]["index"] + 1, "state": state}
        return state @ out + cache["cross"]["bias"], {"self": past, "cross": cache["cross"]}

    def next_log_p(row, tokens):
        state = np.zeros(WIDTH)
        for token in [BOS, *tokens]:
            state = np.tanh(state @ mix + embedding[token])
        logits = state @ out + bias[row]
        return logits - np.log(np.exp(logits).sum())

    cache = {
        "self": {"index": jnp.zeros((), jnp.int32), "state": jnp.zeros((rows, WIDTH))},
        "cross": {"bias": jnp.asarray(bias)},
    }
    return step, cache, next_log_p


def log_p(next_log_p, row, tokens):
    return sum(next_log_p(row, tokens[:i])[token] for i, token in enumerate(tokens))


def answers(tokens):
    """Rows of ids up to and including eos."""
    return [row[: row.index(EOS) + 1] if EOS in row else row for row in np.asarray(tokens).tolist()]


def counted(step):
    """The step, and a list that gets one entry per executed call."""
    calls = []

    def counting(tokens, cache):
        jax.debug.callback(lambda: calls.append(1))
        return step(tokens, cache)

    return counting, calls


def test_greedy_equals_a_python_loop():
    step, cache, next_log_p = toy(0, 40)
    run = functools.partial(decoding.greedy, batch=40, length=9, vocabulary=VOCABULARY, with_scores=True)
    tokens, scores = jax.jit(run, static_argnums=0)(step, cache)
    lengths = set()
    for row, answer in enumerate(answers(tokens)):
        expected = []
        while len(expected) < 9 and EOS not in expected:
            now = next_log_p(row, expected)
            expected.append(max((UNKNOWN, EOS, 4, 5), key=lambda token: now[token]))
        assert answer == expected
        assert set(tokens[row, len(answer) :].tolist()) <= {PAD}
        assert scores[row] == pytest.approx(log_p(next_log_p, row, answer), abs=1e-4)
        lengths.add(len(answer))
    assert len(lengths) > 3 and 9 in lengths  # ended early, late and never
    assert tokens.dtype == jnp.int32


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_beam_with_room_for_everything_finds_the_best_answer(alpha):
    step, cache, next_log_p = toy(1, 6, eos=-1.0)
    run = functools.partial(decoding.beam, batch=6, length=4, beams=108, alpha=alpha, vocabulary=VOCABULARY)
    tokens, scores = jax.jit(run, static_argnums=0)(step, cache)
    every = [(*body, EOS) for n in range(4) for body in itertools.product((UNKNOWN, 4, 5), repeat=n)]
    for row, answer in enumerate(answers(tokens)):
        value = {y: log_p(next_log_p, row, y) / ((5 + len(y)) / 6) ** alpha for y in every}
        assert tuple(answer) == max(value, key=value.get)
        assert scores[row] == pytest.approx(max(value.values()), abs=1e-4)


def slow_beam(next_log_p, row, length, *, beams, divide, stop=None, force_end=False):
    """Beam search with lists; a row stops when its best beam cannot win with `stop` tokens (None: those it has)."""
    running, finished = [(0.0, [])], []
    for n in range(1, length + 1):
        longer = [(p + q, [*y, t]) for p, y in running for t, q in enumerate(next_log_p(row, y)) if t in (1, 3, 4, 5)]
        if force_end and n == length:
            longer = [(p, [*y, EOS]) for p, y in running]
        longer.sort(key=lambda item: -item[0])
        finished += [(p / divide(n), y) for p, y in longer[:beams] if y[-1] == EOS]
        finished = sorted(finished, key=lambda item: -item[0])[:beams]
        running = [(p, y) for p, y in longer if y[-1] != EOS][:beams]
        if len(finished) == beams and (not running or running[0][0] / divide(stop or n) <= finished[-1][0]):
            break
    return finished[0] if finished else (running[0][0] / divide(length), running[0][1])


@pytest.mark.parametrize("length", [3, 9, 16])
@pytest.mark.parametrize("search", ["greedy", "beam", "sample"])
def test_an_accelerator_checks_after_several_steps_and_finds_the_same(search, length, monkeypatch):
    step, cache, _ = toy(3, 12, eos=-2.0)  # some answers reach the length
    more = {"greedy": {"with_scores": True, "fewer": 4}, "beam": {"beams": 3}, "sample": {"key": jax.random.key(0)}}
    run = functools.partial(getattr(decoding, search), batch=12, length=length, vocabulary=VOCABULARY, **more[search])
    expected = jax.jit(lambda cache: run(step, cache))(cache)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    found = jax.jit(lambda cache: run(step, cache))(cache)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert length > 3 or (found[0][:, -1] != PAD).any()


@pytest.mark.parametrize("beams, alpha", [(2, 1.0), (3, 0.6), (4, 0.0)])
def test_beam_equals_the_slow_beam(beams, alpha):
    step, cache, next_log_p = toy(2, 20, eos=-1.5)
    tokens, scores = decoding.beam(step, cache, batch=20, length=7, beams=beams, alpha=alpha, vocabulary=VOCABULARY)
    found = answers(tokens)

    def divide(length):
        return ((5 + length) / 6) ** alpha

    for row in range(20):
        score, answer = slow_beam(next_log_p, row, 7, beams=beams, divide=divide, stop=7)
        assert found[row] == answer
        assert scores[row] == pytest.approx(score, abs=1e-4)
        truth = log_p(next_log_p, row, answer)
        length = len(answer) if answer[-1] == EOS else 7
        assert scores[row] == pytest.approx(truth / divide(length), abs=1e-4)


@pytest.mark.parametrize("beams, alpha", [(2, 1.0), (3, 1.0), (4, 1.5)])
def test_beam_with_a_forced_end_and_the_mean_as_score(beams, alpha):
    step, cache, next_log_p = toy(2, 20, eos=-1.5)
    options = dict(batch=20, length=7, vocabulary=VOCABULARY, beams=beams, alpha=alpha)
    tokens, scores = decoding.beam(step, cache, penalty="power", force_end=True, **options)
    found, lengths = answers(tokens), set()
    for row in range(20):
        score, answer = slow_beam(next_log_p, row, 7, beams=beams, divide=lambda n: n**alpha, force_end=True)
        assert found[row] == answer and answer[-1] == EOS
        assert scores[row] == pytest.approx(score, abs=1e-4)
        lengths.add(len(answer))
    assert len(lengths) > 1


def test_greedy_with_a_forced_end():
    step, cache, _ = toy(0, 40)
    settings = {"batch": 40, "length": 5, "vocabulary": VOCABULARY}
    free, forced = (np.array(decoding.greedy(step, cache, force_end=end, **settings)[0]) for end in (False, True))
    full = free[:, -1] > 0
    assert 0 < full.sum() < 40
    free[full, -1] = EOS
    np.testing.assert_array_equal(forced, free)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_one_beam_equals_greedy(alpha):
    step, cache, _ = toy(3, 40)
    settings = {"batch": 40, "length": 9, "vocabulary": VOCABULARY}
    greedy, _ = decoding.greedy(step, cache, **settings)
    beam, _ = decoding.beam(step, cache, beams=1, alpha=alpha, **settings)
    np.testing.assert_array_equal(beam, greedy)


@pytest.mark.parametrize("search", ["greedy", "sample", "beam"])
def test_filler_rows_are_empty_and_do_not_keep_the_loop_running(search):
    step, cache, _ = toy(4, 3, eos=20.0)  # rows end at once ...
    cache["cross"]["bias"] = cache["cross"]["bias"].at[1, EOS].add(-60.0)  # ... and row 1 never would
    arguments = {"greedy": {}, "sample": {"key": jax.random.key(0)}, "beam": {"beams": 2, "alpha": 0.0}}[search]
    arguments |= {"batch": 3, "length": 30, "vocabulary": VOCABULARY}
    counting, calls = counted(step)
    done = jnp.asarray([False, True, False])
    tokens, _ = getattr(decoding, search)(counting, cache, done=done, **arguments)
    jax.effects_barrier()
    assert len(calls) == (2 if search == "beam" else 1)  # the second beam ends a step later
    assert tokens[:, 0].tolist() == [EOS, PAD, EOS] and not np.asarray(tokens[:, 1:]).any()

    calls.clear()
    getattr(decoding, search)(counting, cache, **arguments)
    jax.effects_barrier()
    assert len(calls) == 30


def test_an_answer_does_not_depend_on_its_neighbours():
    step, cache, _ = toy(5, 12, eos=-1.0)
    run = functools.partial(decoding.beam, step, length=12, beams=3, vocabulary=VOCABULARY)
    together, _ = run(cache, batch=12)
    alone = jax.jit(functools.partial(run, batch=1))
    for row in range(12):
        past = cache["self"] | {"state": cache["self"]["state"][:1]}
        tokens, _ = alone({"self": past, "cross": {"bias": cache["cross"]["bias"][row : row + 1]}})
        np.testing.assert_array_equal(tokens[0], together[row])


@pytest.mark.parametrize("rows, fewer", [(40, 10), (13, 3)])
@pytest.mark.parametrize("search", [{}, {"beams": 4}, {"beams": 3, "penalty": "power", "force_end": True}])
def test_rows_that_have_ended_leave_the_batch_and_change_nothing(search, rows, fewer):
    step, cache, _ = toy(7, rows, eos=1.0)
    cache["cross"]["bias"] = cache["cross"]["bias"].at[5, EOS].add(-60.0)  # row 5 never ends
    sizes = []

    def watched(tokens, cache):
        jax.debug.callback(lambda: sizes.append(len(tokens)))
        return step(tokens, cache)

    settings = {"batch": rows, "length": 14, "vocabulary": VOCABULARY, **search}
    settings |= {} if search else {"with_scores": True}
    done = jnp.arange(rows) == 1
    run = decoding.beam if search else decoding.greedy
    whole = jax.jit(lambda: run(step, cache, done=done, **settings))()
    shrunk = jax.jit(lambda: run(watched, cache, done=done, fewer=fewer, **settings))()
    jax.effects_barrier()
    beams = search.get("beams", 1)
    assert len(sizes) == 14 and set(sizes) == {rows * beams, fewer * beams}
    (tokens, scores), (same, close) = whole, shrunk
    np.testing.assert_array_equal(tokens, same)
    np.testing.assert_allclose(scores, close, rtol=1e-6)  # products of fewer rows may be summed in another order
    forever = {"bias": cache["cross"]["bias"].at[:, EOS].add(-60.0)}  # no row ever ends
    endless = [run(step, cache | {"cross": forever}, fewer=n, **settings)[0] for n in (0, fewer)]
    np.testing.assert_array_equal(*endless)


def draws(logits, **settings):
    """20,000 first tokens under fixed logits, as counts."""
    rows = 20_000

    def step(tokens, cache):
        return jnp.broadcast_to(logits, (rows, len(logits))), cache

    arguments = {"key": jax.random.key(1), "batch": rows, "length": 1} | settings
    tokens, _ = jax.jit(lambda: decoding.sample(step, {"self": {}, "cross": {}}, **arguments))()
    return np.bincount(np.asarray(tokens)[:, 0], minlength=len(logits))


def softmax(logits, kept):
    weights = np.where(np.isin(np.arange(len(logits)), kept), np.exp(logits.astype(np.float64)), 0)
    return weights / weights.sum()


@pytest.mark.parametrize("size", [9, 128])  # drawn at once, and by blocks of 64
@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.5}, {"top_k": 4}, {"top_p": 0.7}, {"top_k": 5, "top_p": 0.8}]
)
def test_samples_follow_the_distribution(size, settings):
    logits = np.random.default_rng(6).normal(size=size).astype(np.float32)
    kept = np.array([i for i in range(size - 1) if i not in (PAD, BOS)])  # the last id is forbidden
    scaled = logits / settings.get("temperature", 1.0)
    kept = kept[np.argsort(-scaled[kept])][: settings.get("top_k") or None]
    mass_before = np.cumsum(softmax(scaled, kept)[kept]) - softmax(scaled, kept)[kept]
    kept = kept[mass_before < settings.get("top_p", 1.0)]
    expected = 20_000 * softmax(scaled, kept)
    counts = draws(jnp.asarray(logits), vocabulary=size - 1, **settings)
    if size == 9:
        assert set(np.flatnonzero(counts)) == set(kept)
    assert set(np.flatnonzero(counts)) <= set(kept)
    assert scipy.stats.chisquare(counts[kept], expected[kept]).pvalue > 0.001


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_wrong_sampling_settings(wrong):
    with pytest.raises(errors.ConfigError, match=next(iter(wrong))):
        decoding.sample(None, None, key=None, batch=1, length=1, **wrong)


@pytest.mark.parametrize("wrong", [{"beams": 0}, {"beams": 2, "alpha": -1.0}])
def test_wrong_beam_settings(wrong):
    with pytest.raises(errors.ConfigError, match="beams must be at least"):
        decoding.beam(None, None, batch=1, length=1, **wrong)
