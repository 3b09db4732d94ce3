"""Writes the folder: sources, weights, tables, golden vectors, README and report."""

import pathlib
import shutil

from lwt import errors, files
from lwt.data import text
from lwt.export import folders
from lwt.export.c import bert, embbert, embedder, emulator, literals, reference, tables, toolchain, weights
from lwt.models import bert as bert_model
from lwt.models import embbert as embbert_model
from lwt.models import embedder as embedder_model

SOURCES = pathlib.Path(__file__).parent / "source"
ACTIVATIONS = ("fp16", "int8")
TOLERANCES = {"fp16": 0.02, "int8": 0.1}  # of the self-test: of the largest logit
NETWORKS = {
    embbert_model.Embbert: embbert.network,
    embedder_model.Embedder: embedder.network,
    bert_model.Bert: bert.network,
}
COMMON = (
    *("half.h", "engine.h", "engine.c", "states.h", "text.h", "text.c", "tokenizer.h", "tokenizer.c", "lwt.h", "lwt.c"),
    *("golden.h", "golden.c", "main.c", "firmware.c", "cortex_m4.ld", "README.md"),
)
PROGRAMS = ("main.c", "firmware.c")  # every other source belongs to both
REPORT = "report.json"
DEVICE_BYTES = emulator.FLASH_BYTES + emulator.RAM_BYTES
ANY = 1 << 30  # bytes, where no limit is meant


def export(opened, out, *, activations="fp16", budget=None):
    """Writes a run as C; the folder appears whole or not at all.

    Where there is a compiler for the device, the firmware is linked, and the report has the sizes of all its parts;
    with an emulator, also its stack and its instructions.

    Args:
        opened: an `experiment.Experiment` of a classifier (or of a regression) of texts.
        out: the folder; one that this function has written before is replaced.
        activations: "fp16" or "int8": what the states of the positions are rounded to.
        budget: bytes that flash and RAM together may take; None: as many as the device has.

    Returns:
        The report, as in the folder's ``report.json``.

    Raises:
        lwt.errors.ConfigError: the model cannot be written as C, does not fit into the budget, or there is no compiler
            to say whether it does; or the folder is something else's.
    """
    if activations not in ACTIVATIONS:
        raise errors.ConfigError(f"activations={activations!r}; {errors.suggest(activations, ACTIVATIONS)}")
    with folders.new(out, marker=REPORT) as folder:
        network = write(opened, folder, activations=activations, budget=budget)
        report = measure(folder, opened, network, budget=budget)
        names = {"model": network.name, "activations": activations, "checkpoint": opened.step}
        report = {**names, "classes": list(opened.labels), **report}
        files.write_json(folder / REPORT, report)
    return report


def write(opened, folder, *, activations, budget=None):
    """Writes all files but the report into an empty folder; returns the `parts.Network`.

    Raises:
        lwt.errors.ConfigError: the model cannot be written as C.
    """
    _check(opened)
    values, quantization = weights.of(opened)
    source = weights.Source(values)
    network = NETWORKS[type(opened.model)](opened.model, source)
    classifier = source.linear("head/classifier")
    unused = values.keys() - source.used
    if unused:
        raise errors.ConfigError(f"the engine in C has no use for the weights {sorted(unused)}")
    found = tables.of(opened.tokenizer, text.Cleaner(**opened.config.data.clean))
    _copy(folder, network.name, activations=activations, budget=budget)
    shape = network.shape | _shape(opened, quantization) | {"int8": activations == "int8"} | found.defines
    shape["tolerance"] = TOLERANCES[activations]
    shape["operand"] = max(shape["inner"], shape["features"])  # the longest row that meets weights
    (folder / "model.h").write_text(_header(shape, network.name))
    labels = ", ".join(map(literals.string, opened.labels or [""]))
    definitions = (
        f"{network.source}const lwt_linear lwt_classifier = {classifier};\n"
        f"const char *const lwt_labels[LWT_OUTPUTS] = {{{labels}}};\n"
    )
    (folder / "model.c").write_text(f'#include "model.h"\n\n{source.text}{definitions}')
    (folder / "tables.c").write_text(f'#include "model.h"\n\n{found.source()}')
    (folder / "goldens.c").write_text(_goldens(opened, values))
    return network


def _copy(folder, name, *, activations, budget):
    """The sources of a network, and the Makefile that lists them."""
    own = (f"states_{activations}.c", f"{name}.c", f"{name}.h")
    for file in (*COMMON, *own):
        shutil.copyfile(SOURCES / file, folder / file)
    units = [file for file in (*COMMON, *own) if file.endswith(".c") and file not in PROGRAMS]
    makefile = (SOURCES / "Makefile").read_text()
    makefile = makefile.replace("@SOURCES@", " ".join([*units, "model.c", "tables.c", "goldens.c"]))
    (folder / "Makefile").write_text(makefile.replace("@BUDGET@", str(budget or DEVICE_BYTES)))


def measure(folder, opened, network, *, budget=None):
    """What a linked firmware takes, if there is a compiler, and does, if there is an emulator.

    Raises:
        lwt.errors.ConfigError: it takes more than the budget.
    """
    if toolchain.device() is None:
        toolchain.require(None if budget else "", "a Cortex-M4F, which tells whether the model is within its budget")
        return {}
    path = toolchain.firmware(folder, BUDGET=ANY, FLASH=ANY // 4, RAM=ANY // 4)
    found = toolchain.read(path)
    sizes = found.sizes()
    if budget and sizes["total"] > budget:
        raise errors.ConfigError(
            f"flash {sizes['flash_total']:,} + RAM {sizes['ram_total']:,} = {sizes['total']:,} bytes, "
            f"{sizes['total'] - budget:,} above the budget of {budget:,}: {sizes['flash']}, {sizes['ram']}"
        )
    path.unlink()
    fits = sizes["flash_total"] <= emulator.FLASH_BYTES and sizes["ram_total"] <= emulator.RAM_BYTES
    report = {**sizes, "budget": budget, "fits_emulator": fits}
    return report | (_run(found, opened, network) if fits and emulator.available() else {})


def _run(elf, opened, network):
    """What a sentence costs on the emulated device."""
    board, sentence = emulator.Board(elf, outputs=opened.model.outputs), reference.TEXTS[0]
    texts = (sentence,) * reference.sides(opened)
    tokens, instructions = len(reference.row(opened, texts)[0]), board.count(*texts)
    return {
        "sentence": sentence,
        "tokens": tokens,
        "instructions": instructions,
        "macs": network.macs(tokens),
        "self_test_failures": board.self_test(),
        "stack_used": board.stack_used(),
    }


def _check(opened):
    if type(opened.model) not in NETWORKS:
        names = ", ".join(cls.__module__.rpartition(".")[2] for cls in NETWORKS)
        raise errors.ConfigError(f"model.name={opened.config.model.name!r}: as C there is {names}")
    if opened.model.head != "classify":
        raise errors.ConfigError(f"model.head={opened.model.head!r} should be 'classify': the run has to be fine-tuned")


def _shape(opened, quantization):
    model, data = opened.model, opened.config.data
    return {
        "length": data.row_length,
        "width": model.width,
        "outputs": model.outputs,
        "block": quantization.block,
        "segments": model.segments,
        "features": model.features,
        "pool_first": model.pool == "first",
        "pool_pair": model.pool == "pair",
        "texts": reference.sides(opened),
        "golden_bytes": max(len(sentence.encode()) for sentence in reference.TEXTS) + 1,
        "cut_middle": data.cut == "middle",
        "remove_html": data.clean.remove_html,
        "remove_urls": data.clean.remove_urls,
    }


def _header(shape, name):
    return f"""/* The model's shape, and all that the engine declares. */
#ifndef LWT_MODEL_H
#define LWT_MODEL_H

{literals.defines(shape)}
#if defined(__ELF__)
#define LWT_IN(part) __attribute__((section(".lwt_" #part)))
#else
#define LWT_IN(part)
#endif

#include "engine.h"
#include "states.h"
#include "{name}.h"
#include "text.h"
#include "tokenizer.h"

extern const char *const lwt_labels[LWT_OUTPUTS];

#endif
"""


def _goldens(opened, values):
    pairs = [(sentence,) * reference.sides(opened) for sentence in reference.TEXTS]
    rows = []
    for texts, logits in zip(pairs, reference.logits(opened, values, pairs, batch=len(pairs)), strict=True):
        sides, numbers = ", ".join(map(literals.string, texts)), ", ".join(map(literals.number, logits))
        rows.append(f"    {{{{{sides}}},\n     {{{numbers}}}}},\n")
    return f"""#include "golden.h"

const int lwt_golden_count = {len(rows)};
LWT_IN(golden) const lwt_golden lwt_goldens[] = {{
{"".join(rows)}}};
"""
