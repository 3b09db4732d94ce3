"""A trained translation model as two files, the encoder and a step of decoding, measured beside JAX.

    python -m lwt.export.phone.translate --runtime=litert --workdir=runs/mt --out=phone --format=dynamic --records=100

``encode.tflite`` takes ``source`` and ``segments`` ``[1 length]`` int32 (ids and 1; 0 and 0 where the text has ended),
and gives what the decoder reads of them. ``step.tflite`` takes that, the ``segments``, the last ``token`` ``[1]``, its
``index`` ``[1]`` and the past, zeros at first; it gives ``logits`` ``[1 v]`` and the new past. What goes from file to
file, or from step to step, has one name in both: ``cross/...`` or ``self/...``. `Translator` is the loop. With
``--runtime=onnx`` the files are ``.onnx``, and the new past is called ``next/self/...``.

The formats are "float32" and "dynamic" of `lwt/export/phone/classify.py`. Decoding is greedy.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from lwt import errors, trees
from lwt.attention.parts import masks
from lwt.data import tokenizer
from lwt.export import folders
from lwt.export.phone import classify
from lwt.machine import command_line, latency
from lwt.runs import experiment

FORMATS = ("float32", "dynamic")
FILES = ("encode", "step")


class Translator:
    """Sources to answers, by the two files and on this machine's CPU.

    Attributes:
        length: tokens of a source, and of an answer.
        allowed: `[v]` bool: the ids that an answer may hold.
        past: what the first step is given of the past, by name.
    """

    def __init__(self, runtime, models, *, length, allowed, past):
        """
        Args:
            runtime: a module of `classify.RUNTIMES`.
            models: the files' bytes by name, one of `FILES`.
        """
        self._encode, self._step = (runtime.runner(models[name]) for name in FILES)
        self.length, self.allowed, self.past = length, allowed, past

    def __call__(self, source, most=None):
        """Ids `[s]` of a source, end mark included -> the ids of its answer, likewise, or cut off at `most`."""
        ids = np.pad(source, (0, self.length - len(source)))[None].astype(np.int32)
        segments = (np.arange(self.length)[None] < len(source)).astype(np.int32)
        state = {**self._encode({"source": ids, "segments": segments}), **self.past, "segments": segments}
        answer = [tokenizer.BOS]
        while answer[-1] != tokenizer.EOS and len(answer) <= min(most or self.length, self.length):
            last = {"token": np.int32([answer[-1]]), "index": np.int32([len(answer) - 1])}
            found = self._step(state | last)
            logits = found.pop("logits")[0]
            state |= found
            answer.append(int(np.where(self.allowed, logits, -np.inf).argmax()))
        return answer[1:]


def export(opened, out, *, runtime="litert", format="float32", length=None, records=None):
    """Writes a run as two files in a new folder, and measures them.

    Args:
        opened: an `experiment.Experiment` of a translation (or another task from text to text) that decodes greedily.
        out: the folder; it appears whole or not at all.
        runtime: one of `classify.RUNTIMES`.
        format: one of `FORMATS`.
        length: most tokens of a source, and of an answer; None: the run's ``data.max_tokens`` and the end mark.
        records: so many of the test set are translated; None: all.

    Returns:
        The report: ``bytes`` by file; ``milliseconds`` of one record, on one thread, and those of JAX (jit, all
        threads); the share of equal answers (``agreement``); and the test set's figures, of the files and of JAX.

    Raises:
        lwt.errors.ConfigError: the runtime is not installed, or lacks an operation; the run does not decode
            greedily, or is no translation; a source is longer than `length`; there is something in the folder.
    """
    runtime = classify.RUNTIMES[runtime]
    classify.require(runtime)
    _check(opened, format)
    length = length or opened.config.data.max_tokens + 1
    with folders.new(out) as new:
        models, past = convert(opened, runtime, format=format, length=length)
        for name in FILES:
            (new / f"{name}.{runtime.SUFFIX}").write_bytes(models[name])
        wanted, _, answers, references = opened.evaluate(limit=records or 0)
        allowed = np.arange(opened.model.vocabulary) < opened.tokenizer.pieces
        allowed[[tokenizer.PAD, tokenizer.BOS]] = False
        translate = Translator(runtime, models, length=length, allowed=allowed, past=past)
        found = opened.tokenizer.decode(_answers(opened, translate, len(references)))
        seconds = _seconds(opened, translate)
    figures = opened.task.score(found, references)
    return {
        "format": format,
        "length": length,
        "bytes": {name: len(models[name]) for name in FILES},
        **{name: round(value * 1e3, 2) for name, value in seconds.items()},
        "records": len(references),
        "agreement": float(np.mean([x == y for x, y in zip(found, answers, strict=True)])),
        **{name: value for name, value in figures.items() if "/" not in name},
        **{f"jax_{name}": wanted[name] for name in figures if "/" not in name},
    }


def convert(opened, runtime, *, format, length):
    """``(the files' bytes by name, what the first step is given of the past)``.

    Raises:
        lwt.errors.ConfigError: the runtime lacks an operation of the model.
    """
    apply = functools.partial(opened.model.apply, {"params": trees.unflatten(classify.weights(opened, format))})

    def start(batch):
        memory = apply(batch["source"], batch["segments"], jnp.arange(length)[None], method="encode")
        return apply(memory, batch["segments"], length, method="start")

    def encode(batch):
        return _arrays("cross", start(batch))

    def step(batch):
        tree = trees.unflatten({name: x for name, x in batch.items() if "/" in name})
        past = {**tree["self"], "index": batch["index"][0]}
        logits, cache = apply(
            batch["token"],
            {"self": past, "cross": {**tree["cross"], "mask": masks.Mask(batch["segments"])}},
            method="step",
        )
        return {"logits": logits, **_arrays("self", cache)}

    source = {name: np.zeros((1, length), np.int32) for name in ("source", "segments")}
    cache = jax.eval_shape(start, source)
    zeros = {
        part: {n: np.zeros(x.shape, x.dtype) for n, x in _arrays(part, cache).items()} for part in ("self", "cross")
    }
    last = {name: np.zeros(1, np.int32) for name in ("token", "index")}
    given = {"encode": source, "step": {**last, "segments": source["segments"], **zeros["self"], **zeros["cross"]}}
    models = {f.__name__: runtime.convert(f, given[f.__name__]) for f in (encode, step)}
    if format == "dynamic":
        models = {name: runtime.quantize(model) for name, model in models.items()}
    return models, zeros["self"]


def _arrays(part, cache):
    """The arrays of a cache's part by name, without what the step makes itself: the mask and the index."""
    return trees.flatten({part: {name: x for name, x in cache[part].items() if name not in ("mask", "index")}})


def _check(opened, format):
    if format not in FORMATS:
        raise errors.ConfigError(f"format={format!r}; {errors.suggest(format, FORMATS)}")
    classify.require_precision(opened)
    if not hasattr(opened.task, "generate"):
        raise errors.ConfigError(f"{opened.workdir}: task.name={opened.config.task.name!r} is no translation")
    if opened.task.decoding() != "greedy":
        raise errors.ConfigError(
            f"{opened.workdir} decodes by {opened.task.decoding()}: to compare, open it with decoding={{'beams': 1}}"
        )


def _sources(batch, length):
    """The ids of each record's source."""
    found = [ids[real > 0] for ids, real in zip(batch["source"], batch["source_segments"], strict=True)]
    longest = max(map(len, found))
    if longest > length:
        raise errors.ConfigError(f"a source has {longest} tokens, more than --length={length}: it should be longer")
    return found


def _answers(opened, translate, count):
    """The ids of the answers to so many records of the test set, cut off where `evaluation` cuts them off."""
    answers = [None] * count
    for batch in opened.batches(opened.test, limit=count):
        most = batch["source"].shape[1] * 3 // 2 + 16
        for example, source in zip(batch["example"].tolist(), _sources(batch, translate.length), strict=True):
            if example >= 0:
                answers[example] = translate(source, most)
    return answers


def _seconds(opened, translate):
    few = latency.records(opened, latency.ALONE)
    alone, _ = latency.answers(opened, few)
    sources = _sources(few, translate.length)
    calls = {"milliseconds": lambda: [translate(source) for source in sources], "jax_milliseconds": alone}
    return {name: value / latency.ALONE for name, value in latency.interleaved(calls).items()}


def main():
    """The program: writes the folder, and prints the report."""
    values = flags.FLAGS
    decoding = {"beams": 1, "temperature": 0.0}
    opened = experiment.load(
        values.workdir, checkpoint=values.checkpoint, decoding=decoding, precision=classify.PRECISION
    )
    report = export(
        opened, values.out, **{name: values[name].value for name in ("runtime", "format", "length", "records")}
    )
    command_line.report({"folder": values.out, "checkpoint": opened.step, **report})


if __name__ == "__main__":  # flags belong to the program
    flags.DEFINE_string("workdir", None, "Folder of a run.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
    flags.DEFINE_string("out", None, "The folder to write.")
    flags.DEFINE_enum("runtime", "litert", classify.RUNTIMES, "What runs the files.")
    flags.DEFINE_enum("format", "float32", FORMATS, "What weights are rounded to.")
    flags.DEFINE_integer("length", None, "Tokens of a source or an answer; default: the run's own.", lower_bound=1)
    flags.DEFINE_integer("records", None, "Of the test set, to compare; default: all.", lower_bound=1)
    command_line.run(main, required=["workdir", "out"])
