"""Emulates a Cortex-M4F that runs the firmware's functions, with Unicorn; an access outside flash and RAM stops it."""

import contextlib
import ctypes
import functools
import pathlib
import shlex
import struct
import subprocess
import tempfile

import numpy as np

from lwt import errors, extras
from lwt.export.c import layout, toolchain

FLASH, FLASH_BYTES = 0x0800_0000, 1 << 20
RAM, RAM_BYTES = 0x2000_0000, 192 << 10
INPUT, INPUT_BYTES = 0x6000_0000, 1 << 16  # texts and answers of the caller
PATTERN = 0xA5


COUNTER = """
#include <stdint.h>
void note(void *machine, uint64_t address, uint32_t size, void *blocks)
{
    uint32_t *block = (uint32_t *)blocks + (address & %d) / 2 * 2;
    (void)machine;
    block[0]++;
    block[1] = size;
}
"""  # a hook in Python would take a minute for 256 tokens


def available():
    """Whether Unicorn is installed."""
    return extras.available("unicorn")


class Board:
    """A machine loaded with a firmware.

    Args:
        elf: a `toolchain.Elf`.
        outputs: number of logits of a classifier.
        flash, ram: bytes of memory.
        prefix: of the names in the firmware.

    Raises:
        lwt.errors.ConfigError: Unicorn is not installed.
    """

    def __init__(self, elf, *, outputs=0, flash=FLASH_BYTES, ram=RAM_BYTES, prefix=layout.PREFIX):
        unicorn = extras.load("unicorn", "the emulator")
        from unicorn import arm_const

        self._unicorn, self._registers = unicorn, arm_const
        self._outputs, self._prefix = outputs, prefix
        self._return = FLASH + flash - 4  # address the called function returns to; the emulator stops there
        self._symbols, self._stack = elf.symbols, elf.sections["stack"]
        self._arena = elf.symbols[f"{prefix}_firmware_arena"]
        self._machine = machine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        machine.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M4)
        machine.mem_map(FLASH, flash, unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        machine.mem_map(RAM, ram, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        machine.mem_map(INPUT, INPUT_BYTES, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        for address, data in elf.contents:
            machine.mem_write(address, data)
        start, size = self._stack
        machine.mem_write(start, bytes([PATTERN]) * size)
        self._task = INPUT + INPUT_BYTES // 4 if f"{prefix}_select" in elf.symbols else 0
        if self._task:
            self.select(0)

    def select(self, offset):
        """Selects a task of a program of many, which starts with the first; returns the status.

        Args:
            offset: of its slot from the first slot, in bytes.
        """
        slot = self._symbols[f"{self._prefix}_tasks"] + offset
        return self._call("select", self._task, slot)

    def classify(self, first, second=None):
        """Classifies a text, or a pair of texts; returns ``(class, logits [outputs])``.

        Raises:
            lwt.errors.ConfigError: the program accesses an address outside its memory, or its stack overflows.
            lwt.errors.DataError: the texts do not fit into the board's input.
        """
        places = self._put(first, second)
        if self._task:
            self._call("classify", self._arena, self._task, *places, stacked=INPUT)
        else:
            self._call("classify", self._arena, *places, INPUT)
        *logits, best = struct.unpack(f"<{self._outputs}fi", self._machine.mem_read(INPUT, 4 * self._outputs + 4))
        return best, np.array(logits, np.float32)

    def translate(self, text):
        """Translates a text; returns the answer and its number of pieces. Raises as `classify` does."""
        (place,), size = self._put(text), INPUT_BYTES // 2 - 16
        self._call("translate", self._arena, place, INPUT, size, stacked=INPUT + size)
        _, _, pieces, count = struct.unpack("<4i", self._machine.mem_read(INPUT + size, 16))
        return bytes(self._machine.mem_read(INPUT, count)).decode(), pieces

    def stages(self, run):
        """Counts the instructions of each stage of a call, including those of an IT block whose condition is false.

        A stage may begin several times.

        Args:
            run: makes the call, by one of the methods above.

        Raises:
            lwt.errors.ConfigError: no compiler for this machine is installed, or it fails; or see `classify`.
        """
        blocks, starts = np.zeros((FLASH_BYTES // 2, 2), np.uint32), []  # times and bytes of the block at each address
        machine, stage = self._machine, self._symbols[f"{self._prefix}_stage"] & ~1

        def note(*_):
            starts.append((machine.reg_read(self._registers.UC_ARM_REG_R0), self._executed(blocks)))

        staged = machine.hook_add(self._unicorn.UC_HOOK_CODE, note, begin=stage, end=stage)
        with _counted(machine, blocks):
            run()
        machine.hook_del(staged)
        ends = [start for _, start in starts[1:]] + [self._executed(blocks)]
        sums = dict.fromkeys(sorted(number for number, _ in starts), 0)
        for (number, start), end in zip(starts, ends, strict=True):
            sums[number] += end - start * (number > 0)  # the first stage begins with the call
        return [*sums.values()]

    def _put(self, *texts):
        """Writes texts to the board's input; returns their addresses, 0 for None."""
        address, places = INPUT + INPUT_BYTES // 2, []
        for text in texts:
            if text is None:
                places.append(0)
                continue
            data = text.encode() + b"\0"
            if address + len(data) > INPUT + INPUT_BYTES:
                most = f"{INPUT_BYTES // 2:,} bytes"
                raise errors.DataError(f"the text {text[:30]!r}... does not fit into the board's input of {most}")
            self._machine.mem_write(address, data)
            places.append(address)
            address += len(data)
        return places

    def _executed(self, blocks):
        """The number of instructions in executed blocks."""
        places = np.flatnonzero(blocks[:, 0])
        return sum(int(blocks[i, 0]) * self._instructions(FLASH + 2 * int(i), int(blocks[i, 1])) for i in places)

    def self_test(self):
        """The number of golden vectors that the device fails."""
        return self._call("self_test", self._arena, INPUT)

    @property
    def stack(self):
        """Bytes of the stack."""
        return self._stack[1]

    def stack_used(self):
        """Bytes of the stack that have been written to."""
        start, size = self._stack
        data = bytes(self._machine.mem_read(start, size))
        return len(data.lstrip(bytes([PATTERN])))

    def _instructions(self, address, size):
        """Counts the instructions of a block of code.

        Those that begin with 11101, 11110 or 11111 have two halfwords (ARMv7-M, section A5.1).
        """
        halves = struct.unpack(f"<{size // 2}H", self._machine.mem_read(address, size))
        count, at = 0, 0
        while at < len(halves):
            at += 2 if halves[at] >> 11 in (0b11101, 0b11110, 0b11111) else 1
            count += 1
        return count

    def _call(self, name, *arguments, stacked=None):
        """Runs a function, whose first argument is the arena, until it returns; returns its result."""
        names, machine, name = self._registers, self._machine, f"{self._prefix}_{name}"
        for i, value in enumerate(arguments):
            machine.reg_write(getattr(names, f"UC_ARM_REG_R{i}"), value)
        top = sum(self._stack)
        if stacked is not None:  # the fifth argument, on a stack whose address is a multiple of 8
            top -= 8
            machine.mem_write(top, struct.pack("<I", stacked))
        machine.reg_write(names.UC_ARM_REG_SP, top)
        machine.reg_write(names.UC_ARM_REG_LR, self._return | 1)
        try:
            machine.emu_start(self._symbols[name] | 1, self._return)
        except self._unicorn.UcError as error:
            at = machine.reg_read(names.UC_ARM_REG_PC)
            raise errors.ConfigError(f"{name} stops at {at:#x} on the emulated Cortex-M4F: {error}") from error
        return machine.reg_read(names.UC_ARM_REG_R0)


@contextlib.contextmanager
def _counted(machine, blocks):
    """A context in which a machine counts how often it executes each block of code, in the array `blocks`."""
    from unicorn.unicorn_py3 import unicorn

    hook, callback = ctypes.c_size_t(), ctypes.cast(_counter().note, ctypes.c_void_p)
    kind, data = unicorn.uc.UC_HOOK_BLOCK, blocks.ctypes.data_as(ctypes.c_void_p)
    status = unicorn.uclib.uc_hook_add(machine._uch, ctypes.byref(hook), kind, callback, data, 1, 0)
    if status != unicorn.uc.UC_ERR_OK:
        raise unicorn.UcError(status)
    machine.ctl_flush_tb()  # drops code that was translated without the hook
    yield
    unicorn.uclib.uc_hook_del(machine._uch, hook)
    machine.ctl_flush_tb()


@functools.cache
def _counter():
    """The compiled `COUNTER`."""
    compiler = toolchain.require(toolchain.host(), "this machine")
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder, "counter.c"), pathlib.Path(folder, "counter.so")
        source.write_text(COUNTER % (FLASH_BYTES - 1))
        command = [*shlex.split(compiler), "-O2", "-shared", "-fPIC", "-o", library, source]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise errors.ConfigError(
                f"{compiler} does not build the counter of instructions: {done.stderr.strip()[-1000:]}"
            )
        return ctypes.CDLL(str(library))
