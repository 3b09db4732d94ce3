"""Runs compilers through the exported Makefile, and reads the linked firmware."""

import dataclasses
import functools
import shlex
import shutil
import struct
import subprocess
import sys

from lwt import errors, extras

ZIG = (sys.executable, "-m", "ziglang", "cc")
DEVICE = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp")  # Zig's cortex_m4 has no floats
GCC = "arm-none-eabi-gcc"
NOT_LOADED = 8  # type of sections that take no flash
ALLOCATED = 2
FLASH = ("vectors", "code", "constants", "weights", "scales", "tokenizer", "golden")
RAM = ("data", "arena", "bss", "stack")


@functools.cache
def host():
    """The command of a compiler for this machine, or None."""
    return "cc" if shutil.which("cc") else _zig()


@functools.cache
def device():
    """The command of a compiler for a Cortex-M4F, or None; "" is the Makefile's default, GCC."""
    return _zig(*DEVICE) or ("" if shutil.which(GCC) else None)


def require(command, what):
    """Returns `command`, the result of `host` or `device`.

    Raises:
        lwt.errors.ConfigError: it is None; says that a compiler for `what` is missing.
    """
    if command is None:
        raise errors.ConfigError(f"no compiler for {what} is installed: {extras.install('c')}")
    return command


def make(folder, target, **variables):
    """Runs a target of an exported folder's Makefile, with some of its variables; returns what it prints.

    Raises:
        lwt.errors.ConfigError: make is missing, or the target fails; has the end of the compiler's output.
    """
    command = ["make", "-s", "-C", str(folder), target, *(f"{key}={value}" for key, value in variables.items())]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise errors.ConfigError("make is not installed; it builds the exported folder") from error
    if done.returncode:
        raise errors.ConfigError(f"make {target} fails in {folder}: {(done.stderr + done.stdout).strip()[-2000:]}")
    return done.stdout


def program(folder):
    """Builds the program for this machine in a `pathlib.Path`; returns its path."""
    make(folder, "classify", CC=require(host(), "this machine"))
    return folder / "classify"


def firmware(folder, **limits):
    """Builds the firmware in a `pathlib.Path`; returns its path. Limits in bytes: BUDGET, STACK, FLASH, RAM."""
    own = require(device(), "a Cortex-M4F")
    make(folder, "firmware", **limits, **({"CROSS": own} if own else {}))
    return folder / "firmware.elf"


@dataclasses.dataclass(frozen=True)
class Elf:
    """A linked firmware.

    Attributes:
        sections: ``{name without the dot: (address, bytes)}`` of sections that take memory on the device.
        symbols: ``{name: address}``.
        contents: ``[(address, bytes)]`` of the sections in flash.
    """

    sections: dict
    symbols: dict
    contents: list

    def sizes(self):
        """Bytes of each part of flash and RAM, and their sums.

        Raises:
            lwt.errors.ConfigError: a section belongs to no part.
        """
        sizes = {name: size for name, (_, size) in self.sections.items()}
        flash, ram = ({name: sizes.get(name, 0) for name in names} for names in (FLASH, RAM))
        unknown = sizes.keys() - {*FLASH, *RAM}
        if unknown:
            raise errors.ConfigError(f"the report has no part for the sections {sorted(unknown)} of the firmware")
        totals = {"flash_total": sum(flash.values()), "ram_total": sum(ram.values())}
        return {"flash": flash, "ram": ram, **totals, "total": sum(totals.values())}


def read(path):
    """Reads an `Elf` from a file: 32 bits, little-endian (the ELF specification's figures 1-3, 1-9 and 1-15)."""
    data = path.read_bytes()
    start, _, _, _, _, size, count, names = struct.unpack_from("<I I H H H H H H", data, 32)
    headers = [struct.unpack_from("<10I", data, start + i * size) for i in range(count)]
    sections, symbols, contents = {}, {}, []
    for name, kind, flags, address, offset, length, link, *_ in headers:
        if flags & ALLOCATED and length:
            sections[_text(data, headers[names][4] + name).lstrip(".")] = (address, length)
            if kind != NOT_LOADED:
                contents.append((address, data[offset : offset + length]))
        if kind == 2:  # symbols
            for at in range(offset, offset + length, 16):
                symbol, value = struct.unpack_from("<2I", data, at)
                symbols[_text(data, headers[link][4] + symbol)] = value
    return Elf(sections, symbols, contents)


def _text(data, at):
    return data[at : data.index(b"\0", at)].decode()


def _zig(*more):
    return shlex.join([*ZIG, *more]) if extras.available("ziglang") else None
