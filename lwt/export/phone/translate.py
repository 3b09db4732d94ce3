"""Writes a trained translation model as two files, encoder and decoding step, and compares them with JAX.

    python -m lwt.export.phone.translate --runtime=litert --workdir=runs/mt --out=phone --format=dynamic --records=100
    python -m lwt.export.phone.translate --runtime=onnx --workdir=runs/mt --out=onnx

``encode.tflite`` takes ``source`` and ``segments`` ``[1 length]`` int32 (ids and 1; padding has 0 and 0), and gives the
decoder's view of the source, ``cross/...``. ``step.tflite`` takes these, the ``segments``, the last ``token`` ``[1]``,
its ``index`` ``[1]`` and the past, ``self/...``, zeros at first; it gives ``logits`` ``[1 v]`` and the new past under
the same names. `Translator` is the loop. With ``--runtime=onnx`` the files are ``.onnx``, and the new past is called
``next/self/...``.

The metadata of both hold the settings of `lwt.export.phone.settings`. The formats are "float32" and "dynamic" of
`classify`. Decoding is greedy.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from lwt import errors, registry, trees
from lwt.attention.parts import masks
from lwt.data import tokenizer
from lwt.export import folders
from lwt.export.phone import classify, settings
from lwt.machine import command_line, latency
from lwt.runs import assembly, experiment, run_config

FORMATS = ("float32", "dynamic")
FILES = ("encode", "step")


class Translator:
    """Translates with the two files, on this machine's CPU.

    Attributes:
        length: most tokens of a source, and of an answer.
        allowed: `[v]` bool, the ids that an answer may contain.
        past: ``{name: array}`` of the past before the first step.
    """

    def __init__(self, runtime, models, *, length, allowed, past):
        """
        Args:
            runtime: a module of `classify.RUNTIMES`.
            models: ``{name: bytes}`` of the files, by `FILES`.
        """
        self._encode, self._step = (runtime.runner(models[name]) for name in FILES)
        self.length, self.allowed, self.past = length, allowed, past

    def __call__(self, source, most=None):
        """Translates ids `[s]` of a source, with its end mark, to a list of at most `most` ids."""
        ids = np.pad(source, (0, self.length - len(source)))[None].astype(np.int32)
        segments = (np.arange(self.length)[None] < len(source)).astype(np.int32)
        state = {**self._encode({"source": ids, "segments": segments}), **self.past, "segments": segments}
        answer = [tokenizer.BOS]
        while answer[-1] != tokenizer.EOS and len(answer) <= min(most or self.length, self.length):
            last = {"token": np.int32([answer[-1]]), "index": np.int32([len(answer) - 1])}
            new = self._step(state | last)
            logits = new.pop("logits")[0]
            state |= new
            answer.append(int(np.where(self.allowed, logits, -np.inf).argmax()))
        return answer[1:]


def export(trained, out, *, runtime="litert", format="float32", length=None, records=None):
    """Writes a run as two files in a new folder, whole or not at all, and measures them.

    Args:
        trained: an `experiment.Experiment` of a translation (or another text-to-text task) that decodes greedily.
        out: the folder.
        runtime: one of `classify.RUNTIMES`.
        format: one of `FORMATS`.
        length: most tokens of a source, and of an answer; None: the run's ``data.max_tokens`` plus the end mark.
        records: number of test records to translate; None: all.

    Returns:
        The report: ``bytes`` per file; ``milliseconds`` per record on one thread, and those of JAX (jit, all threads);
        the share of equal answers (``agreement``); and the figures on the test set, of the files and of JAX.

    Raises:
        lwt.errors.ConfigError: the runtime is not installed or does not support the model; the run does not translate
            or does not decode greedily; a source is longer than `length`; the folder holds something already.
    """
    runtime = classify.RUNTIMES[runtime]
    classify.require(runtime)
    _check(trained, format)
    length = length or trained.config.data.max_tokens + 1
    with folders.new(out) as new:
        models, past = convert(trained, runtime, format=format, length=length)
        about = settings.as_metadata(settings.of(trained, length=length) | {"format": format})
        models = {name: runtime.describe(model, **about) for name, model in models.items()}
        for name in FILES:
            (new / f"{name}.{runtime.SUFFIX}").write_bytes(models[name])
        jax_figures, _, answers, references = trained.evaluate(limit=records or 0)
        allowed = np.arange(trained.model.vocabulary) < trained.tokenizer.pieces
        allowed[[tokenizer.PAD, tokenizer.BOS]] = False
        translate = Translator(runtime, models, length=length, allowed=allowed, past=past)
        texts = trained.tokenizer.decode(_answers(trained, translate, len(references)))
        seconds = _seconds(trained, translate)
    figures = trained.task.score(texts, references)
    return {
        "format": format,
        "length": length,
        "bytes": {name: len(models[name]) for name in FILES},
        **{name: round(value * 1e3, 2) for name, value in seconds.items()},
        "records": len(references),
        "agreement": float(np.mean([x == y for x, y in zip(texts, answers, strict=True)])),
        **{name: value for name, value in figures.items() if "/" not in name},
        **{f"jax_{name}": jax_figures[name] for name in figures if "/" not in name},
    }


def convert(trained, runtime, *, format, length):
    """Converts a run; returns the files' bytes, and the arrays of the past before the first step, both by name."""
    apply = functools.partial(trained.model.apply, {"params": trees.unflatten(classify.weights(trained, format))})

    def start(batch):
        memory = apply(batch["source"], batch["segments"], positions=jnp.arange(length)[None], method="encode")
        return apply(memory, batch["segments"], length=length, method="start")

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
    """The arrays of a part of the cache by name, without the mask and the index, which the step makes itself."""
    return trees.flatten({part: {name: x for name, x in cache[part].items() if name not in ("mask", "index")}})


def _check(trained, format):
    if format not in FORMATS:
        raise errors.ConfigError(f"format={format!r}; {errors.suggest(format, FORMATS)}")
    classify.require_precision(trained)
    _check_task(trained.workdir, trained.task, trained.config.task.name)
    if trained.task.decoding() != "greedy":
        raise errors.ConfigError(
            f"{trained.workdir} decodes by {trained.task.decoding()}; open it with decoding={{'beams': 1}}"
        )


def _check_task(workdir, task, name):
    if not hasattr(task, "generate"):
        raise errors.ConfigError(f"{workdir}: task.name={name!r} must be a translation; see lwt.export.phone.classify")


def _sources(batch, length):
    """The ids of the source of each record."""
    sources = [ids[real > 0] for ids, real in zip(batch["source"], batch["source_segments"], strict=True)]
    longest = max(map(len, sources))
    if longest > length:
        raise errors.ConfigError(f"a source has {longest} tokens; --length={length} must be at least as many")
    return sources


def _answers(trained, translate, count):
    """The ids of the answers to the first `count` test records, cut off where `evaluation` cuts them off."""
    answers = [None] * count
    for batch in trained.batches(trained.test, limit=count):
        most = batch["source"].shape[1] * 3 // 2 + 16
        for example, source in zip(batch["example"].tolist(), _sources(batch, translate.length), strict=True):
            if example >= 0:
                answers[example] = translate(source, most)
    return answers


def _seconds(trained, translate):
    """Seconds per record: ``{"milliseconds": of the files, "jax_milliseconds": of JAX}``."""
    few = latency.records(trained, latency.ALONE)
    alone, _ = latency.answers(trained, few)
    sources = _sources(few, translate.length)
    calls = {"milliseconds": lambda: [translate(source) for source in sources], "jax_milliseconds": alone}
    return {name: value / latency.ALONE for name, value in latency.interleaved(calls).items()}


def main():
    """The program: writes the folder, and prints the report."""
    values = flags.FLAGS
    task = assembly.task_section(run_config.read(values.workdir).task).name
    _check_task(values.workdir, registry.TASKS.find(task, key="task.name"), task)
    decoding = {"beams": 1, "temperature": 0.0}
    trained = experiment.load(
        values.workdir,
        checkpoint=values.checkpoint,
        base=values.base,
        decoding=decoding,
        precision=classify.PRECISION,
    )
    report = export(
        trained, values.out, **{name: values[name].value for name in ("runtime", "format", "length", "records")}
    )
    command_line.report({"folder": values.out, "checkpoint": trained.step, **report})


if __name__ == "__main__":  # flags belong to the program
    command_line.define_run(out="Folder to write.")
    flags.DEFINE_enum("runtime", "litert", classify.RUNTIMES, "Runtime that the files are for.")
    flags.DEFINE_enum("format", "float32", FORMATS, "Number format of the weights.")
    flags.DEFINE_integer("length", None, "Most tokens of a source or an answer; default: the run's own.", lower_bound=1)
    flags.DEFINE_integer("records", None, "Number of test records to compare; default: all.", lower_bound=1)
    command_line.run(main, required=["workdir", "out"])
