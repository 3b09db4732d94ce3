"""Compilers, by way of the exported Makefile, and what a linked firmware holds."""

import dataclasses
import functools
import importlib.util
import shlex
import shutil
import struct
import subprocess
import sys

from lwt import errors

ZIG = (sys.executable, "-m", "ziglang", "cc")
DEVICE = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp")  # Zig's cortex_m4 is without floats
GCC = "arm-none-eabi-gcc"
NOT_LOADED = 8  # the section type of what takes no flash
ALLOCATED = 2
FLASH = ("vectors", "code", "constants", "weights", "scales", "tokenizer", "golden")
RAM = ("data", "arena", "bss", "stack")


@functools.cache
def host():
    """The command of a compiler for this machine, or None."""
    return "cc" if shutil.which("cc") else _zig()


@functools.cache
def device():
    """The command of a compiler for a Cortex-M4F, or None; "" stands for the Makefile's own, GCC."""
    return _zig(*DEVICE) or ("" if shutil.which(GCC) else None)


def require(command, what):
    """The command, if there is one.

    Raises:
        lwt.errors.ConfigError: there is none.
    """
    if command is None:
        raise errors.ConfigError(f"there is no compiler for {what}; pip install 'lwt[c]' brings one")
    return command


def make(folder, target, **variables):
    """Runs the folder's Makefile.

    Raises:
        lwt.errors.ConfigError: it fails; with the compiler's words.
    """
    given = [f"{key}={value}" for key, value in variables.items()]
    done = subprocess.run(["make", "-s", "-C", str(folder), target, *given], capture_output=True, text=True)
    if done.returncode:
        raise errors.ConfigError(f"make {target} fails in {folder}: {(done.stderr + done.stdout).strip()[-2000:]}")
    return done.stdout


def program(folder):
    """Builds the program for this machine; returns its path."""
    make(folder, "classify", CC=require(host(), "this machine"))
    return folder / "classify"


def firmware(folder, **limits):
    """Builds the firmware; returns its path. `limits` are variables of the Makefile: BUDGET, STACK, FLASH, RAM."""
    own = require(device(), "a Cortex-M4F")
    make(folder, "firmware", **limits, **({"CROSS": own} if own else {}))
    return folder / "firmware.elf"


@dataclasses.dataclass(frozen=True)
class Elf:
    """A linked firmware.

    Attributes:
        sections: name, without the dot -> ``(address, bytes)``, of what takes memory on the device.
        symbols: name -> address.
        contents: ``(address, bytes)`` of what lies in flash.
    """

    sections: dict
    symbols: dict
    contents: list

    def sizes(self):
        """Bytes of every part of flash and RAM, and their sums."""
        sizes = {name: size for name, (_, size) in self.sections.items()}
        flash, ram = ({name: sizes.get(name, 0) for name in names} for names in (FLASH, RAM))
        unknown = sizes.keys() - {*FLASH, *RAM}
        if unknown:
            raise errors.ConfigError(f"the firmware has sections that the report does not know: {sorted(unknown)}")
        totals = {"flash_total": sum(flash.values()), "ram_total": sum(ram.values())}
        return {"flash": flash, "ram": ram, **totals, "total": sum(totals.values())}


def read(path):
    """An `Elf` from a file: 32 bits, little-endian (the ELF specification's figures 1-3, 1-9 and 1-15)."""
    data = path.read_bytes()
    start, _, _, _, _, size, count, names = struct.unpack_from("<I I H H H H H H", data, 32)
    headers = [struct.unpack_from("<10I", data, start + i * size) for i in range(count)]
    label = lambda table, at: _text(data, headers[table][4] + at)  # noqa: E731
    sections, symbols, contents = {}, {}, []
    for name, kind, flags, address, offset, length, link, *_ in headers:
        if flags & ALLOCATED and length:
            sections[label(names, name).lstrip(".")] = (address, length)
            if kind != NOT_LOADED:
                contents.append((address, data[offset : offset + length]))
        if kind == 2:  # symbols
            for at in range(offset, offset + length, 16):
                symbol, value = struct.unpack_from("<2I", data, at)
                symbols[label(link, symbol)] = value
    return Elf(sections, symbols, contents)


def _text(data, at):
    return data[at : data.index(b"\0", at)].decode()


def _zig(*more):
    return shlex.join([*ZIG, *more]) if importlib.util.find_spec("ziglang") else None
