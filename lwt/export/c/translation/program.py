"""Writes a translator as C: what `lwt.export.c.export` puts into the folder."""

import copy
import functools
import logging

import numpy as np

from lwt import errors, trees
from lwt.attention import kv_projection
from lwt.data import text, tokenizer
from lwt.export.c import bytepair, costs, emulator, literals, parts, reference, weights
from lwt.export.c.translation import network, simulate
from lwt.tasks import decoding

LOG = logging.getLogger(__name__)
FILES = ("seq2seq", "search", "detokenize")  # .c and .h, besides those of every program
OWN = ("lwt.h", "lwt.c", "golden.h", "golden.c", "main.c", "README.md", "translate.ino")  # in source/translator
MEMORY = 4 << 20, 256 << 10  # bytes of flash and RAM that the emulated device has
CHARACTER_BYTES = 4
GOLDENS = 3
BUILT_IN = reference.TEXTS[:GOLDENS]  # where the test set is not there
RECORDS = 64  # translated at a time in NumPy


class Translator:
    """A translator as the program in C has it.

    Args:
        experiment: an `experiment.Experiment` of a `seq2seq.Seq2Seq`.
        activations: "fp16" or "int8".

    Attributes:
        model: the model, with K/V projections folded.
        values: flat dict of its weights as C has them.
        settings: `simulate.Settings`.

    Raises:
        lwt.errors.ConfigError: the engine in C does not support the model, the quantization or the decoding.
    """

    def __init__(self, experiment, activations):
        self._experiment = experiment = folded(experiment)
        _check(experiment)
        self.model, task = experiment.model, experiment.task
        self.values, _ = weights.of(experiment)
        self.cleaner = text.Cleaner(**experiment.config.data.clean)
        length = experiment.config.data.max_tokens + 1
        penalty = functools.partial(decoding.PENALTIES[task.penalty], alpha=task.length_penalty)
        penalties = [1.0, *(float(np.float32(penalty(float(n)))) for n in range(1, length + 1))]
        options = {"beams": task.beams, "penalties": tuple(penalties), "power": task.penalty == "power"}
        pieces = experiment.tokenizer.pieces
        self.settings = simulate.Settings(activations, length=length, pieces=pieces, **options)

    @functools.cached_property
    def network(self):
        """The `simulate.Network`."""
        return simulate.Network(self.model, self.values, settings=self.settings)

    def sources(self, texts):
        """The ids of texts, each with the end mark, as C makes them."""
        rows = self._experiment.tokenizer.encode([self.cleaner.clean(line) for line in texts])
        return [[*row[: self.settings.length - 1], tokenizer.EOS] for row in rows]

    def answers(self, sources):
        """The ids that the program in C gives for sources, computed in NumPy."""
        parts = (sources[at : at + RECORDS] for at in range(0, len(sources), RECORDS))
        return [answer for part in parts for answer in self.network.translate(part)]

    def program(self, sentences):
        """The `parts.Program` to write; its self-test translates the sentences."""
        source = weights.Source(self.values)
        made = network.network(self.model, source)
        source.require_all_used()
        settings, tokens = self.settings, bytepair.of(self._experiment.tokenizer, self.cleaner, answers=True)
        answers = self._experiment.tokenizer.decode(self.answers(self.sources(sentences)))
        shape = made.shape | tokens.defines
        shape |= {
            "length": settings.length,
            "width": self.model.width,
            "channels": self.model.width,
            "vocabulary": settings.pieces,
            "int8": settings.activations == "int8",
            "rank": source.rank,
            "operand": -(-shape["inner"] // weights.GROUP) * weights.GROUP + source.rank,
            "beams": settings.beams,
            "choices": settings.beams + 1 if settings.beams > 1 else 1,
            "power_penalty": settings.power,
            "answer_bytes": settings.length * (bytepair.LONGEST * CHARACTER_BYTES + 1),
            "golden_bytes": max(len(answer.encode()) for answer in answers) + 2,  # a longer one would be seen
            "cut_middle": False,
            "remove_html": self.cleaner.remove_html,
            "remove_urls": self.cleaner.remove_urls,
        }
        penalties = ", ".join(literals.number(penalty) for penalty in settings.penalties)
        definitions = f"const float lwt_penalties[LWT_LENGTH + 1] = {{{penalties}}};\n" if settings.beams > 1 else ""
        files = {name: name for stem in FILES for name in (f"{stem}.h", f"{stem}.c")}
        files |= {name: f"translator/{name}" for name in OWN}
        return parts.Program(
            name="translate",
            network=made,
            tokens=tokens,
            shape=shape,
            files=files,
            headers=("seq2seq.h", "search.h", "detokenize.h"),
            definitions=source.text + made.source + definitions,
            goldens=self._goldens(sentences, answers),
            memory=MEMORY,
            board="mps2-an386 0x00000000 4194304 0x20000000 4194304",
            measure=measure,
            report={"beams": shape["beams"], **source.about_factors()},
        )

    def _goldens(self, sentences, answers):
        rows = "".join(
            f"    {{{literals.string(sentence)},\n     {literals.string(answer)}}},\n"
            for sentence, answer in zip(sentences, answers, strict=True)
        )
        return (
            f'#include "golden.h"\n\nconst int lwt_golden_count = {len(answers)};\n'
            f"LWT_IN(golden) const lwt_golden lwt_goldens[] = {{\n{rows}}};\n"
        )


def program(experiment, activations):
    """The `parts.Program` of a run."""
    texts = self_test_texts(experiment)
    if texts is BUILT_IN:
        LOG.warning(
            "the run's test set is not there: built-in English texts replace it; --sentence gives one to measure"
        )
    return Translator(experiment, activations).program(texts)


def self_test_texts(experiment):
    """The sentences of the self-test: the first ones of the run's test set, or built-in ones if it is not there."""
    try:
        return experiment.data.evaluation(experiment.data.test, limit=GOLDENS).sources
    except errors.LwtError:
        return BUILT_IN


def texts_of(experiment, sentences):
    """The text to measure, in a tuple; `sentences` may be empty.

    Raises:
        lwt.errors.ConfigError: there are several.
    """
    if len(sentences) > 1:
        raise errors.ConfigError(f"sentence is given {len(sentences)} times; a translator reads one text")
    return tuple(sentences) or (self_test_texts(experiment)[0],)


def measure(elf, experiment, *, network, texts, prefix, clock):
    """Measures a translation, as `costs.measure` measures a classification."""
    board = emulator.Board(elf, flash=MEMORY[0], ram=MEMORY[1], prefix=prefix)
    stages = board.stages(lambda: board.translate(texts[0]))
    answer, pieces = board.translate(texts[0])
    cleaned = text.Cleaner(**experiment.config.data.clean).clean(texts[0])
    tokens, steps = len(experiment.tokenizer.encode([cleaned])[0]) + 1, pieces + 1
    return {
        "sentence": texts[0],
        "answer": answer,
        "tokens": tokens,
        "steps": steps,
        "instructions": sum(stages),
        "milliseconds": round(sum(stages) * costs.CPI / clock / 1000, 3),
        "macs": network.macs(tokens, steps * experiment.task.beams),
        "instructions_a_token": round(stages[1] / tokens),
        "instructions_a_step": round(stages[2] / steps),
        "stages": dict(zip(("text", "encoder", "search", "answer"), stages, strict=True)),
        "arena": network.arena,
        "estimate": {"clock_mhz": clock, "cycles_per_instruction": costs.CPI},
        "self_test_failures": board.self_test(),
        "stack_used": board.stack_used(),
    }


def folded(experiment):
    """The experiment with the matrices of a K/V projection multiplied into one each, if it has such."""
    if not any(name.endswith("query/rank/kernel") for name in experiment.weights):
        return experiment
    other = copy.copy(experiment)
    other.weights = trees.flatten(kv_projection.fold(trees.unflatten(experiment.weights), heads=experiment.model.heads))
    fold = {
        key: functools.partial(made.func, **made.keywords | {"folded": True})
        for key in network.ATTENTIONS
        if getattr(made := getattr(experiment.model, key), "func", None) is kv_projection.Attention
    }
    other.model = experiment.model.clone(**fold)
    return other


def _check(experiment):
    config, task = experiment.config, experiment.task
    if config.task.name != "translate":
        raise errors.ConfigError(f"task.name={config.task.name!r} must be 'translate' for a 'seq2seq' in C")
    if task.temperature or task.force_end:
        raise errors.ConfigError(
            f"the translator in C decodes greedily or with beams: task.temperature={task.temperature} and "
            f"task.force_end={task.force_end} must be 0 and False"
        )
    if not isinstance(experiment.tokenizer, tokenizer.Tokenizer):
        raise errors.ConfigError("the translator in C has lwt's own byte pairs alone, not the tokenizer of this run")
