"""Writes an exported folder: sources, weights, tables, golden vectors, README and report."""

import dataclasses
import pathlib
import shutil
import zlib

from lwt import errors, files
from lwt.data import hf_tokenizer, text
from lwt.export import folders
from lwt.export.c import (
    bert,
    bytepair,
    costs,
    embbert,
    embedder,
    emulator,
    layout,
    literals,
    reference,
    toolchain,
    weights,
    wordpiece,
)
from lwt.models import bert as bert_model
from lwt.models import embbert as embbert_model
from lwt.models import embedder as embedder_model

SOURCES = pathlib.Path(__file__).parent / "source"
ACTIVATIONS = ("fp16", "int8")
TOLERANCES = {"fp16": 0.02, "int8": 0.1}  # of the self-test, relative to the largest logit
NETWORKS = {
    embbert_model.Embbert: embbert.network,
    embedder_model.Embedder: embedder.network,
    bert_model.Bert: bert.network,
}
COMMON = (
    *("half.h", "engine.h", "engine.c", "states.h", "text.h", "text.c", "lookup.h", "lookup.c"),
    *("encode.h", "encode.c", "row.h", "row.c", "embed.h", "embed.c", "lwt.h", "lwt.c", "stage.c"),
    *("golden.h", "golden.c", "main.c", "firmware.c", "firmware.ld", "README.md"),
    *("CMakeLists.txt", "library.properties", "classify.ino", "module.yml", "Kconfig", "zephyr.cmake"),
)
REPORT = "report.json"
DEVICE_BYTES = emulator.FLASH_BYTES + emulator.RAM_BYTES
UNLIMITED = 1 << 30  # bytes


def export(experiment, out, *, activations="fp16", budget=None, prefix=layout.PREFIX, sentences=(), clock=costs.CLOCK):
    """Writes a run as C; the folder appears whole or not at all.

    With a compiler for the device, the firmware is linked, and the report has the size of each part; with an emulator,
    also the stack and the number of instructions. `firmware.map` lists where everything lies.

    Args:
        experiment: an `experiment.Experiment` of a text classifier or text regression.
        out: the folder; an earlier export there is replaced.
        activations: "fp16" or "int8": the type that states between the layers are rounded to.
        budget: most bytes of flash and RAM together; None: the memory of the device.
        prefix: of all names in C, so that one program can contain several models.
        sentences: the text to measure, or the two of a record of two; empty: a built-in one.
        clock: of the device in MHz, for the estimate of the time.

    Returns:
        The report, as in the folder's ``report.json``.

    Raises:
        lwt.errors.ConfigError: the engine does not support the model; or it exceeds the budget; or no compiler is
            installed to check the budget; or the folder holds something else.
    """
    if activations not in ACTIVATIONS:
        raise errors.ConfigError(f"activations={activations!r}; {errors.suggest(activations, ACTIVATIONS)}")
    texts = costs.texts_of(experiment, sentences)
    with folders.new(out, marker=REPORT) as folder:
        network = write(experiment, folder, activations=activations, budget=budget, prefix=prefix)
        options = {"texts": texts, "prefix": prefix, "clock": clock}
        report = measure(folder, experiment, network=network, budget=budget, **options)
        names = {"model": network.name, "activations": activations, "checkpoint": experiment.step, "prefix": prefix}
        names["texts"] = len(texts)
        report = {**names, "classes": list(experiment.labels), **report}
        files.write_json(folder / REPORT, report)
    return report


def write(experiment, folder, *, activations, budget=None, prefix=layout.PREFIX):
    """Writes all files except the report into an empty folder; returns the `parts.Network`."""
    _check(experiment)
    values, _ = weights.of(experiment)
    source = weights.Source(values)
    network = NETWORKS[type(experiment.model)](experiment.model, source)
    classifier = source.linear("head/classifier")
    unused = values.keys() - source.used
    if unused:
        raise errors.ConfigError(f"the engine in C does not use the weights {sorted(unused)}")
    tokens = _tables(experiment)
    _copy(folder, network.name, tokenizer=tokens.name, activations=activations, budget=budget)
    shape = network.shape | _shape(experiment) | {"int8": activations == "int8"} | tokens.defines
    shape["tolerance"] = TOLERANCES[activations]
    longest = max(shape["inner"], shape["features"])  # of the rows that are multiplied by weights
    shape["operand"] = -(-longest // weights.GROUP) * weights.GROUP
    (folder / "model.h").write_text(_header(shape, network.name, tokens.name))
    labels = ", ".join(literals.string(printed(label)) for label in experiment.labels or [""])
    definitions = (
        f"{network.source}const lwt_linear lwt_classifier = {classifier};\n"
        f"const char *const lwt_labels[LWT_OUTPUTS] = {{{labels}}};\n"
    )
    (folder / "model.c").write_text(f'#include "model.h"\n\n{source.text}{definitions}')
    (folder / "tables.c").write_text(f'#include "model.h"\n\n{tokens.source()}')
    (folder / "goldens.c").write_text(_goldens(experiment, values))
    constants = "".join((folder / name).read_text() for name in ("model.c", "tables.c"))
    arena = layout.arena(shape, network=network.name, tokenizer=tokens.name)
    public = layout.public(
        shape,
        arena=arena,
        network=network.name,
        tokenizer=tokens.name,
        classes=len(experiment.labels),
        fingerprint=zlib.crc32(constants.encode()),
    )
    layout.arrange(folder, values=public, prefix=prefix)
    return dataclasses.replace(network, arena=arena)


def printed(label):
    """A label as the program prints it: in one line, without tabs."""
    return " ".join(label.split())


def _tables(experiment):
    """The `tables.Tables` of the run's tokenizer."""
    if isinstance(experiment.tokenizer, hf_tokenizer.Tokenizer):
        return wordpiece.of(experiment.tokenizer)
    return bytepair.of(experiment.tokenizer, text.Cleaner(**experiment.config.data.clean))


def _copy(folder, name, *, tokenizer, activations, budget):
    """Copies the sources of a network and a tokenizer, and writes the Makefile that lists them."""
    own = (f"states_{activations}.c", *(f"{part}{end}" for part in (name, tokenizer) for end in (".c", ".h")))
    for file in (*COMMON, *own):
        shutil.copyfile(SOURCES / file, folder / file)
    makefile = (SOURCES / "Makefile").read_text()
    (folder / "Makefile").write_text(makefile.replace("@BUDGET@", str(budget or DEVICE_BYTES)))


def measure(folder, experiment, *, network, budget=None, **options):
    """Links the firmware and measures its memory and instructions; without a compiler, says why it did not.

    `options` are those of `costs.measure`.

    Raises:
        lwt.errors.ConfigError: the firmware exceeds the budget; or there is one and no compiler builds the firmware.
    """
    try:
        path, compiler = toolchain.firmware(folder, BUDGET=UNLIMITED, FLASH=UNLIMITED // 4, RAM=UNLIMITED // 4)
    except errors.ConfigError as error:
        if budget:
            raise errors.ConfigError(f"the budget cannot be checked: {error}") from error
        return {"not_measured": str(error)}
    elf = toolchain.read(path)
    sizes = elf.sizes()
    if budget and sizes["total"] > budget:
        raise errors.ConfigError(
            f"flash {sizes['flash_total']:,} + RAM {sizes['ram_total']:,} = {sizes['total']:,} bytes, "
            f"{sizes['total'] - budget:,} above the budget of {budget:,}: {sizes['flash']}, {sizes['ram']}"
        )
    (folder / "firmware.map").write_text(elf.map())
    path.unlink()
    fits = sizes["flash_total"] <= emulator.FLASH_BYTES and sizes["ram_total"] <= emulator.RAM_BYTES
    report = {"compiler": compiler, **sizes, "budget": budget, "fits_emulator": fits}
    if fits and emulator.available():
        try:
            report |= costs.measure(elf, experiment, network=network, **options)
        except errors.ConfigError as error:
            report["not_measured"] = str(error)
    return report


def _check(experiment):
    if type(experiment.model) not in NETWORKS:
        names = ", ".join(cls.__module__.rpartition(".")[2] for cls in NETWORKS)
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


def _header(shape, network, tokenizer):
    return f"""/* The model's shape, and all that the engine declares. */
#ifndef LWT_MODEL_H
#define LWT_MODEL_H

{literals.defines(shape)}
/* The section of constants: their part is weights, scales, tokenizer or golden. A program may define it differently, to
   place them in external flash: -D'LWT_IN(part)=__attribute__((section(".external")))' */
#ifndef LWT_IN
#if defined(__ELF__)
#define LWT_IN(part) __attribute__((section(".lwt_" #part)))
#else
#define LWT_IN(part)
#endif
#endif

#include "lwt.h"
#include "engine.h"
#include "text.h"
#include "{tokenizer}.h"
#include "lookup.h"
#include "encode.h"
#include "states.h"
#include "{network}.h"

#endif
"""


def _goldens(experiment, values):
    records = [(sentence,) * reference.sides(experiment) for sentence in reference.TEXTS]
    logits = reference.logits(experiment, values, records=records, batch=len(records))
    rows = []
    for texts, row in zip(records, logits, strict=True):
        sides, numbers = ", ".join(map(literals.string, texts)), ", ".join(map(literals.number, row))
        rows.append(f"    {{{{{sides}}},\n     {{{numbers}}}}},\n")
    return f"""#include "golden.h"

const int lwt_golden_count = {len(rows)};
LWT_IN(golden) const lwt_golden lwt_goldens[] = {{
{"".join(rows)}}};
"""
