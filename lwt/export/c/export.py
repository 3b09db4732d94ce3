"""Writes an exported folder: sources, weights, tables, golden vectors, README and report."""

import dataclasses
import pathlib
import shutil
import zlib

from lwt import errors, files
from lwt.data import hf_tokenizer, text
from lwt.export import folders
from lwt.export.c import (
    bytepair,
    costs,
    emulator,
    layout,
    literals,
    parts,
    reference,
    tasks,
    toolchain,
    weights,
    wordpiece,
)
from lwt.export.c.networks import network as networks
from lwt.export.c.translation import program as translator
from lwt.models import seq2seq as seq2seq_model

SOURCES = pathlib.Path(__file__).parent / "source"
ACTIVATIONS = ("fp16", "int8")
TOLERANCES = {"fp16": 0.02, "int8": 0.1}  # of the self-test, relative to the largest logit
COMMON = (
    *("half.h", "engine.h", "engine.c", "states.h", "text.h", "text.c", "lookup.h", "lookup.c"),
    *("encode.h", "encode.c", "firmware.c", "firmware.ld", "stage.c", "Makefile"),
    *("CMakeLists.txt", "library.properties", "module.yml", "Kconfig", "zephyr.cmake"),
)
CLASSIFIER = (
    *("row.h", "row.c", "embed.h", "embed.c", "lwt.h", "lwt.c", "golden.h", "golden.c", "main.c", "README.md"),
    "classify.ino",
)
REPORT = "report.json"
UNLIMITED = 1 << 30  # bytes


def export(
    experiment,
    out,
    *,
    activations="fp16",
    budget=None,
    prefix=layout.PREFIX,
    sentences=(),
    clock=costs.CLOCK,
    many=None,
):
    """Writes a run as C; the folder appears whole or not at all.

    With a compiler for the device, the firmware is linked, and the report has the size of each part; with an emulator,
    also the stack and the number of instructions. `firmware.map` lists where everything lies.

    Args:
        experiment: an `experiment.Experiment` of a text classifier, text regression or translator.
        out: the folder; an earlier export there is replaced.
        activations: "fp16" or "int8": the type that states between the layers are rounded to.
        budget: most bytes of flash and RAM together; None: the memory of the emulated device.
        prefix: of all names in C, so that one program can contain several models.
        sentences: the text to measure, or the two of a record of two; empty: a built-in one.
        clock: of the device in MHz, for the estimate of the time.
        many: the `tasks.Tasks` of a program of many tasks, on the base `experiment`.

    Returns:
        The report, as in the folder's ``report.json``.

    Raises:
        lwt.errors.ConfigError: the engine does not support the model; or it exceeds the budget; or no compiler is
            installed to check the budget; or the folder holds something else.
    """
    experiment = many.largest if many else experiment
    texts = texts_of(experiment, sentences)
    with folders.new(out, marker=REPORT, key="prefix") as folder:
        program = write(experiment, folder, activations=activations, budget=budget, prefix=prefix, many=many)
        options = {"texts": texts, "prefix": prefix, "clock": clock}
        report = measure(folder, experiment, program=program, budget=budget, **options)
        names = {"model": program.network.name, "activations": activations, "checkpoint": experiment.step}
        report = {**names, "prefix": prefix, "texts": len(texts), **program.report, **report}
        files.write_json(folder / REPORT, report)
    return report


def texts_of(experiment, sentences):
    """The texts of a record that stands for others: `sentences`, or where they are empty, built-in ones.

    Raises:
        lwt.errors.ConfigError: the run reads another number of texts, or the engine does not support its model.
    """
    translates = isinstance(experiment.model, seq2seq_model.Seq2Seq)
    if not translates:
        _check(experiment)
    return (translator if translates else costs).texts_of(experiment, sentences)


def write(experiment, folder, *, activations, budget=None, prefix=layout.PREFIX, many=None):
    """Writes all files except the report into an empty folder; returns the `parts.Program`."""
    if activations not in ACTIVATIONS:
        raise errors.ConfigError(f"activations={activations!r}; {errors.suggest(activations, ACTIVATIONS)}")
    experiment = many.largest if many else experiment
    translates = isinstance(experiment.model, seq2seq_model.Seq2Seq)
    program = translator.program(experiment, activations) if translates else _classifier(experiment, activations, many)
    arena = layout.translation(program.shape) if translates else layout.arena(program)
    program = dataclasses.replace(program, network=dataclasses.replace(program.network, arena=arena))
    own = (*COMMON, f"states_{activations}.c", f"{program.tokens.name}.h", f"{program.tokens.name}.c")
    for name, source in {**dict(zip(own, own, strict=True)), **program.files}.items():
        shutil.copyfile(SOURCES / source, folder / name)
    (folder / "model.h").write_text(_header(program))
    (folder / "model.c").write_text(f'#include "model.h"\n\n{program.definitions}')
    (folder / "tables.c").write_text(f'#include "model.h"\n\n{program.tokens.source()}')
    (folder / "goldens.c").write_text(program.goldens)
    constants = "".join((folder / name).read_text() for name in ("model.c", "tables.c"))
    shape = {key: value for key, value in program.shape.items() if key not in tasks.OWN}
    fingerprint = zlib.crc32((literals.defines(shape) + constants).encode())
    if many:
        slots, about = many.slots(program.places, fingerprint)
        (folder / "slots.c").write_text(f'#include "model.h"\n\n{tasks.source(slots)}')
        program = dataclasses.replace(program, report={"tasks": about})
    public = layout.public(program, classes=len(experiment.labels), fingerprint=fingerprint)
    public |= {"PROGRAM": program.name, "BOARD": program.board, "BUDGET": str(budget or sum(program.memory))}
    layout.arrange(folder, values=public, prefix=prefix)
    if many:
        (folder / tasks.FILE).write_bytes(b"".join(slots))
    return program


def _classifier(experiment, activations, many):
    """The `parts.Program` of a text classifier, or of text regression; or of many tasks."""
    _check(experiment)
    if many and experiment.model.ngram_weights:
        raise errors.ConfigError(
            f"model.ngram_weights={experiment.model.ngram_weights} must be 0 for a program of many tasks, whose slots "
            "have no n-grams"
        )
    values = many.base if many else weights.of(experiment)[0]
    source = weights.Source(values, numbered=bool(many))
    network = networks.of(experiment.model, source)
    head = "" if many else _head(experiment, source)
    source.require_all_used()
    tokens = _tables(experiment)
    shape = {"channels": experiment.model.width} | network.shape | _shape(experiment)
    shape |= {"int8": activations == "int8"} | tokens.defines
    shape["tolerance"] = TOLERANCES[activations]
    longest = max(shape["inner"], shape["features"])  # of the rows that are multiplied by weights
    shape["rank"] = source.rank
    shape["operand"] = -(-longest // weights.GROUP) * weights.GROUP + source.rank
    shape |= many.shape(source.places) if many else {"tasks": 0}
    own = ("tasks.h", "tasks.c") if many else ()
    copied = (*CLASSIFIER, f"{network.name}.h", f"{network.name}.c", *own)
    return parts.Program(
        name="classify",
        network=network,
        tokens=tokens,
        shape=shape,
        files=dict(zip(copied, copied, strict=True)),
        headers=(f"{network.name}.h", *own[:1]),
        definitions=source.text + network.source + head,
        goldens=_goldens(experiment, values, many),
        memory=(emulator.FLASH_BYTES, emulator.RAM_BYTES),
        board="netduinoplus2 0x08000000 1048576 0x20000000 196608",
        places=source.places,
        report={"classes": list(experiment.labels), **source.about_factors()},
    )


def _head(experiment, source):
    """The definitions of the head and the names of the classes."""
    classifier, ngrams = source.linear(tasks.HEAD), ""
    if experiment.model.ngram_weights:
        ngrams = f"const lwt_table lwt_ngrams = {source.table('head/ngrams/embedding')};\n"
    labels = ", ".join(literals.string(literals.one_line(label)) for label in experiment.labels or [""])
    names = f"const char *const lwt_labels[LWT_OUTPUTS] = {{{labels}}};\n"
    return f"const lwt_linear lwt_classifier = {classifier};\n{ngrams}{names}"


def _tables(experiment):
    """The `tables.Tables` of the run's tokenizer."""
    if isinstance(experiment.tokenizer, hf_tokenizer.Tokenizer):
        return wordpiece.of(experiment.tokenizer)
    return bytepair.of(experiment.tokenizer, text.Cleaner(**experiment.config.data.clean))


def measure(folder, experiment, *, program, budget=None, **options):
    """Links the firmware and measures its memory and instructions; without a compiler, says why it did not.

    `options` are those of `costs.measure`.

    Raises:
        lwt.errors.ConfigError: the firmware exceeds the budget; or there is one and no compiler builds the firmware.
    """
    limits = {"BUDGET": UNLIMITED, "FLASH": UNLIMITED // 4, "RAM": UNLIMITED // 4}
    try:
        path, compiler = toolchain.firmware(folder, FLASH_START=emulator.FLASH, **limits)
    except errors.ConfigError as error:
        if budget:
            raise errors.ConfigError(f"the budget cannot be checked: {error}") from error
        return {"not_measured": str(error)}
    elf = toolchain.read(path)
    sizes = elf.sizes()
    if budget and sizes["total"] > budget:
        parts = sizes["flash"] | sizes["ram"]
        largest = sorted(parts, key=parts.get, reverse=True)[:3]
        raise errors.ConfigError(
            f"flash {sizes['flash_total']:,} + RAM {sizes['ram_total']:,} = {sizes['total']:,} bytes, "
            f"{sizes['total'] - budget:,} above the budget of {budget:,}; the largest parts: "
            + ", ".join(f"{name} {parts[name]:,}" for name in largest)
        )
    (folder / "firmware.map").write_text(elf.map())
    path.unlink()
    fits = sizes["flash_total"] <= program.memory[0] and sizes["ram_total"] <= program.memory[1]
    report = {"compiler": compiler, **sizes, "budget": budget, "fits_emulator": fits}
    if fits and emulator.available():
        try:
            report |= (program.measure or costs.measure)(elf, experiment, network=program.network, **options)
        except (errors.ConfigError, errors.DataError) as error:
            report["not_measured"] = str(error)
    return report


def _check(experiment):
    if type(experiment.model) not in networks.NETWORKS:
        names = ", ".join(networks.NAMES)
        raise errors.ConfigError(
            f"model.name={experiment.config.model.name!r} must be one of {names} for the engine in C"
        )
    if experiment.model.head != "classify":
        raise errors.ConfigError(f"model.head={experiment.model.head!r} must be 'classify': fine-tune the run first")
    if experiment.config.task["name"] == "multilabel":
        raise errors.ConfigError("task.name='multilabel': the engine in C gives one class; train with 'classify'")


def _shape(experiment):
    model, data = experiment.model, experiment.config.data
    return {
        "length": data.row_length,
        "width": model.width,
        "outputs": model.outputs,
        "ngram_rows": model.ngram_weights // model.outputs,
        "segments": model.segments,
        "features": model.features,
        "pool_first": model.pool == "first",
        "pool_mean": model.pool == "mean",
        "pool_pair": model.pool == "pair",
        "texts": reference.sides(experiment),
        "golden_bytes": max(len(sentence.encode()) for sentence in reference.TEXTS) + 1,
        "cut_middle": data.cut == "middle",
        "remove_html": data.clean.remove_html,
        "remove_urls": data.clean.remove_urls,
    }


def _header(program):
    tokens = f"{program.tokens.name}.h"
    headers = ("lwt.h", "engine.h", "text.h", tokens, "lookup.h", "encode.h", "states.h", *program.headers)
    includes = "".join(f'#include "{name}"\n' for name in headers)
    return f"""/* The model's shape, and all that the engine declares. */
#ifndef LWT_MODEL_H
#define LWT_MODEL_H

{literals.defines(program.shape)}
/* The section of constants: their part is weights, scales, tokenizer or golden. A program may define it differently, to
   place them in external flash: -D'LWT_IN(part)=__attribute__((section(".external")))' */
#ifndef LWT_IN
#if defined(__ELF__)
#define LWT_IN(part) __attribute__((section(".lwt_" #part)))
#else
#define LWT_IN(part)
#endif
#endif

{includes}
#endif
"""


def _goldens(experiment, values, many):
    """``goldens.c``; of many tasks, the texts are the first two."""
    members = [(task.experiment, task.weights) for task in many.tasks] if many else [(experiment, values)]
    records = [(sentence,) * reference.sides(experiment) for sentence in reference.TEXTS[: 2 if many else None]]
    rows = []
    for i, (source, own) in enumerate(members):
        logits = reference.logits(source, own, records=records, batch=len(records))
        for texts, row in zip(records, logits, strict=True):
            sides, numbers = ", ".join(map(literals.string, texts)), ", ".join(map(literals.number, row))
            rows.append(f"    {{{f'{i}, ' * bool(many)}{{{sides}}},\n     {{{numbers}}}}},\n")
    return f"""#include "golden.h"

const int lwt_golden_count = {len(rows)};
LWT_IN(golden) const lwt_golden lwt_goldens[] = {{
{"".join(rows)}}};
"""
