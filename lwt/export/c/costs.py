"""What a text costs on the emulated device: instructions by layer, an estimate of the time, and the memory in use."""

from lwt import errors
from lwt.export.c import emulator, layout, reference

CLOCK = 168.0  # MHz, of an STM32F405
CPI = 1.5  # cycles for an instruction; an assumption, since the emulator has no clock


def texts_of(experiment, sentences):
    """The texts to measure, one for each side of a record; `sentences` may be empty.

    Raises:
        lwt.errors.ConfigError: their number is not that of the sides.
    """
    sides = reference.sides(experiment)
    texts = tuple(sentences) or (reference.TEXTS[0],) * sides
    if len(texts) != sides:
        raise errors.ConfigError(f"sentence is given {len(texts)} times; a record of the run has {sides}")
    return texts


def measure(elf, experiment, *, network, texts, prefix=layout.PREFIX, clock=CLOCK):
    """Measures texts, and the same texts repeated until they fill the row; returns this part of the report.

    Args:
        elf: a `toolchain.Elf`.
        experiment: an `experiment.Experiment`.
        network: a `parts.Network` with its arena.
        texts: one for each side of a record.
        prefix: of the names in C.
        clock: of the device, in MHz.
    """
    board = emulator.Board(elf, outputs=experiment.model.outputs, prefix=prefix)
    sentence, stages = _run(board, experiment, network, texts, clock)
    worst, worst_stages = _run(board, experiment, network, _longest(experiment, texts), clock)
    names = ["text", "embedding", *(f"layer {i}" for i in range(len(stages) - 3)), "head"]
    rows = zip(names, stages, worst_stages, _memory(network.arena, len(stages)), strict=True)
    failures, stack = board.self_test(), board.stack_used()
    if stack == board.stack:
        raise errors.ConfigError(
            f"the program may need more than its stack of {stack} bytes; pass make a larger STACK="
        )
    return {
        "sentence": texts[0] if len(texts) == 1 else list(texts),
        **sentence,
        "worst_case": worst,
        "layers": [dict(zip(("name", "instructions", "worst_case", "arena"), row, strict=True)) for row in rows],
        "arena": network.arena,
        "estimate": {"clock_mhz": clock, "cycles_per_instruction": CPI},
        "self_test_failures": failures,
        "stack_used": stack,
    }


def _run(board, experiment, network, texts, clock):
    """``(figures, instructions of each stage)``."""
    stages = board.stages(lambda: board.classify(*texts))
    tokens, instructions = len(reference.row(experiment, texts)[0]), sum(stages)
    milliseconds = round(instructions * CPI / clock / 1000, 3)
    macs = network.macs(tokens)
    return {"tokens": tokens, "instructions": instructions, "milliseconds": milliseconds, "macs": macs}, stages


def _longest(experiment, texts):
    """The texts, repeated until they fill the row; built-in ones in place of texts that cleaning leaves empty."""
    length = experiment.config.data.row_length
    for some in (texts, reference.TEXTS[:1] * len(texts)):
        before = 0
        while (found := len(reference.row(experiment, some)[0])) > before:
            if found >= length:
                return some
            before, some = found, tuple(f"{text} {text}" for text in some)
    return some


def _memory(arena, stages):
    """Bytes of the arena that each stage uses: the head needs no states."""
    most = arena["ids"] + arena["states"] + arena["rows"]
    return [arena["ids"] + arena["words"], *[most] * (stages - 2), arena["ids"] + arena["rows"]]
