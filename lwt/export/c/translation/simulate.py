"""The translator in C as a NumPy program: the same ids, since each number is rounded as in C.

``source/seq2seq.c`` and ``source/search.c``, for many sentences at a time.
"""

import dataclasses

import numpy as np

from lwt.data import tokenizer
from lwt.export.c.translation import arithmetic, network

F = np.float32
LEAST = F(-3e38)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the program is compiled with.

    Attributes:
        activations: "fp16" or "int8", the type of the states.
        length: most ids of a source and of an answer, end mark included.
        pieces: number of real ids.
        beams: 1: greedy search.
        penalties: `[length + 1]`, of answers by their length.
        power: whether running answers are compared at their present length.
    """

    activations: str
    length: int
    pieces: int
    beams: int = 1
    penalties: tuple = ()
    power: bool = False


class Attention:
    """One attention: key and value of inputs, and the output for inputs and a cache."""

    def __init__(self, net, name):
        self.heads = net.model.sublayers()[name].size
        if self.heads:
            self.query, self.key, self.value = (net.linear(f"{name}/{part}") for part in ("query", "key", "value"))
        self.out = net.linear(f"{name}/out")

    def remember(self, rows, cache, *, t):
        """Stores the key and the value of rows `[n d]` or `[n s d]` as position t of a pair of states."""
        if self.heads:
            flat = rows.reshape(-1, rows.shape[-1])
            for part, states in zip((self.key, self.value), cache, strict=True):
                states.store(t, part(flat).reshape(*rows.shape[:-1], -1))

    def __call__(self, rows, cache, *, seen):
        """Rows `[n t d]` and a cache -> `[n t d]`."""
        n, t, d = rows.shape
        if not self.heads:
            return np.broadcast_to(self.out.bias, rows.shape)
        q = self.query(rows.reshape(n * t, d)).reshape(n, t, self.heads, -1)
        mixed = cache[0].attend(cache[1], q=q, seen=seen)
        return self.out(mixed.reshape(n * t, -1)).reshape(n, t, d)


class Network:
    """The network of a `seq2seq.Seq2Seq`, from the weights that are written in C."""

    def __init__(self, model, weights, *, settings):
        self.model, self._weights, self.settings = model, weights, settings
        self.states = arithmetic.STATES[settings.activations]
        bias = weights.get("logits_bias")
        self.target = self._table("embed")
        self.source = self._table("source_embed") if model.source_vocabulary else self.target
        self.output = self._table("embed" if model.tied_output else "output", bias=bias)
        self.frequencies = network.frequencies(model.width)
        self.factor = F(model.width**0.5 if model.scale_embedding else 1)
        encoder, decoder = (
            [f"{stack}/layer_{i}" for i in range(count)]
            for stack, count in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers))
        )
        self.attentions = {name: Attention(self, name) for name in model.sublayers() if not name.endswith("/mlp")}
        self.networks = {name: self._feed_forward(f"{name}/mlp") for name in encoder + decoder}
        self.encoder, self.decoder = encoder, decoder

    def linear(self, name):
        """The `arithmetic.Linear` of a module."""
        return arithmetic.Linear(self._weights.get(f"{name}/kernel"), self._weights.get(f"{name}/bias"))

    def _table(self, name, bias=None):
        return arithmetic.Table(self._weights[f"{name}/embedding"], bias=bias, count=self.settings.pieces)

    def _feed_forward(self, name):
        first, second = self.linear(f"{name}/fc1"), self.linear(f"{name}/fc2")
        activate = arithmetic.ACTIVATIONS[self.model.activation]

        def apply(rows):
            return second(activate(first(rows)) if first.blocks else np.zeros((len(rows), 0), F))

        return apply

    def norm(self, name, rows):
        """Normalises rows `[... d]`."""
        scale, bias = (np.asarray(self._weights[f"{name}/{part}"], F) for part in ("scale", "bias"))
        flat = arithmetic.normalise(rows.reshape(-1, rows.shape[-1]), scale=scale, bias=bias, epsilon=network.EPSILON)
        return flat.reshape(rows.shape)

    def add(self, rows, sublayer, *, name):
        """``rows + sublayer(rows)`` with the norm `name` before or after it."""
        if self.model.pre_norm:
            return rows + sublayer(self.norm(name, rows))
        return self.norm(name, rows + sublayer(rows))

    def embed(self, table, ids, *, positions):
        """Rows `[n d]` of ids and positions `[n]`."""
        angles = positions.astype(F)[:, None] * self.frequencies
        waves = np.stack([arithmetic.sine(angles, 0), arithmetic.sine(angles, 1)], axis=-1)
        return table.look_up(ids) * self.factor + waves.reshape(len(ids), -1)

    def feed(self, layer, rows):
        """The feed-forward network of a layer, with residual and norm, on `[n t d]`."""

        def apply(x):
            return self.networks[layer](x.reshape(-1, x.shape[-1])).reshape(x.shape)

        return self.add(rows, apply, name=f"{layer}/mlp_norm")

    def start(self, sources):
        """Encodes sources, lists of ids; returns the caches for `step`."""
        n, most, d = len(sources), self.settings.length, self.model.width
        longest = max(map(len, sources))
        ids = np.array([[*source, *[0] * (longest - len(source))] for source in sources])
        seen = (np.arange(most) < np.array([[len(source)] for source in sources]))[:, None, None]
        positions = np.broadcast_to(np.arange(longest), ids.shape)
        states, every = self.states(n, most, d), slice(0, longest)
        states.store(
            every, self.embed(self.source, ids.reshape(-1), positions=positions.reshape(-1)).reshape(n, longest, d)
        )
        for layer in self.encoder:
            attention, cache = (
                self.attentions[f"{layer}/self_attention"],
                (self.states(n, most, d), self.states(n, most, d)),
            )

            def attend(x, attention=attention, cache=cache):
                attention.remember(x, cache, t=every)
                return attention(x, cache, seen=seen)

            rows = self.add(states.read()[:, every], attend, name=f"{layer}/self_attention_norm")
            states.store(every, self.feed(layer, rows))
        memory = states.read()[:, every]
        memory = self.norm("encoder/norm", memory) if self.model.pre_norm else memory
        caches = {"seen": seen}
        for layer in self.decoder:
            caches[layer] = tuple((self.states(n, most, d), self.states(n, most, d)) for _ in range(2))
            self.attentions[f"{layer}/cross_attention"].remember(memory, caches[layer][1], t=every)
        return caches

    def step(self, ids, caches, *, t):
        """Logits `[n pieces]` of what follows ids `[n]` at position t; pad and begin have `LEAST`."""
        seen = (np.arange(self.settings.length) <= t)[None, None, None]
        x = self.embed(self.target, ids, positions=np.full(len(ids), t))[:, None]
        for layer in self.decoder:
            past, cross = caches[layer]
            own, other = (self.attentions[f"{layer}/{part}_attention"] for part in ("self", "cross"))

            def attend(y, own=own, past=past):
                own.remember(y[:, 0], past, t=t)
                return own(y, past, seen=seen)

            def attend_source(y, other=other, cross=cross):
                return other(y, cross, seen=caches["seen"])

            x = self.add(x, attend, name=f"{layer}/self_attention_norm")
            x = self.add(x, attend_source, name=f"{layer}/cross_attention_norm")
            x = self.feed(layer, x)
        x = self.norm("decoder/norm", x) if self.model.pre_norm else x
        return self.output.logits(x[:, 0])

    def translate(self, sources):
        """The answers to sources, both lists of lists of ids; a source ends with the end mark, an answer does not."""
        if self.settings.beams > 1:
            return [self._beam(source) for source in sources]
        caches, answers = self.start(sources), [[] for _ in sources]
        ids, running = np.full(len(sources), tokenizer.BOS), np.ones(len(sources), bool)
        for t in range(max(self._limit(source) for source in sources)):
            ids = _without_specials(self.step(ids, caches, t=t)).argmax(1)
            for i, source in enumerate(sources):
                running[i] &= t < self._limit(source) and ids[i] != tokenizer.EOS
                if running[i]:
                    answers[i].append(int(ids[i]))
            if not running.any():
                break
        return answers

    def _limit(self, source):
        return min(self.settings.length, len(source) * 3 // 2 + 16)

    def _beam(self, source):
        settings, most = self.settings, self._limit(source)
        caches, finished = self.start([source]), []
        running = [(F(0), [])]
        for t in range(most):
            last = np.array([answer[-1] if answer else tokenizer.BOS for _, answer in running])
            logits = self.step(last, caches, t=t)
            totals = arithmetic.log_total(logits, self.part)
            found = []
            for parent, (score, answer) in enumerate(running):
                row = _without_specials(logits[parent : parent + 1])[0]
                for i in np.argsort(-row, kind="stable")[: settings.beams + 1]:
                    found.append((score + (row[i] - totals[parent]), parent, int(i), answer))
            found = sorted(found, key=lambda branch: -branch[0])[: 2 * settings.beams]
            ended = [
                (s / F(settings.penalties[t + 1]), a) for s, _, i, a in found[: settings.beams] if i == tokenizer.EOS
            ]
            finished = sorted(finished + ended, key=lambda pair: -pair[0])[: settings.beams]
            kept = [branch for branch in found if branch[2] != tokenizer.EOS][: settings.beams]
            running = [(score, [*answer, i]) for score, _, i, answer in kept]
            self._select(caches, [parent for _, parent, _, _ in kept])
            penalty = F(settings.penalties[t + 1 if settings.power else most])
            if len(finished) == settings.beams and running[0][0] / penalty <= finished[-1][0]:
                break
        return (finished or running)[0][1]

    @property
    def part(self):
        """Logits that the program has at a time."""
        return self.output.block or network.PART

    def _select(self, caches, parents):
        """Lets the running answers be continuations of these."""
        for name, value in caches.items():
            if name == "seen":
                caches[name] = value[:1]
                continue
            for states in (state for pair in value for state in pair):
                states.select(parents)


def _without_specials(logits):
    logits = logits.copy()
    logits[:, [tokenizer.PAD, tokenizer.BOS]] = LEAST
    return logits
