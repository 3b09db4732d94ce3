"""Compares an exported translator with the run it was made from."""

import copy
import dataclasses

from lwt.export.c import emulator, literals, toolchain
from lwt.export.c.translation import program


def compare(source, folder, *, report, data="", records=0, emulated=0):
    """Translates a data set with the program for this machine, in NumPy and in JAX; returns the figures.

    Args:
        source: an `experiment.Experiment`.
        folder: a `pathlib.Path`, the exported folder.
        report: the folder's report.
        data: a data set ``KIND:NAME@SPLIT``; "": the run's test set.
        records: the number of sentences to draw from the set; 0: all.
        emulated: number of sentences to translate on the emulated device too.

    Returns:
        ``sentences``; of these, ``equal`` whose ids (of the source and of the answer) are those of NumPy, and
        ``as_model`` whose text is that of the run in JAX; the program's figures, and with ``model_`` those of JAX; with
        `emulated`, how many the device translates as the program does.

    Raises:
        lwt.errors.ConfigError: the program fails; or a compiler or the emulator is missing.
    """
    source = copy.copy(source)
    source.task = dataclasses.replace(source.task, beams=report["beams"])
    made = program.Translator(source, report["activations"])
    figures, texts, answers, references = source.evaluate(data, limit=records)
    lines, command = [literals.one_line(text) for text in texts], toolchain.program(folder, "translate")
    rows = toolchain.answers(command, lines, "--ids")
    found = [[[int(i) for i in part.split()] for part in row.split("\t")] for row in rows]
    sources = made.sources(lines)
    wanted = [[ids, answer] for ids, answer in zip(sources, made.answers(sources), strict=True)]
    translations = toolchain.answers(command, lines)
    scores = source.task.score(translations, references)
    result = {
        "sentences": len(lines),
        "equal": sum(a == b for a, b in zip(found, wanted, strict=True)),
        "as_model": sum(a == b for a, b in zip(translations, answers, strict=True)),
        **scores,
        **{f"model_{name}": figures[name] for name in scores if isinstance(scores[name], float)},
    }
    if emulated:
        elf = toolchain.read(toolchain.firmware(folder, FLASH_START=emulator.FLASH)[0])
        board = emulator.Board(elf, flash=program.MEMORY[0], ram=program.MEMORY[1], prefix=report["prefix"])
        device = [board.translate(line)[0] for line in lines[:emulated]]
        result |= {"emulated": len(device), "emulated_agree": sum(map(str.__eq__, device, translations))}
    return result
