"""Runs compilers through the exported Makefile, and reads the linked firmware."""

import dataclasses
import functools
import shlex
import shutil
import struct
import subprocess
import sys

from lwt import errors, extras

ZIG = (sys.executable, "-m", "ziglang")
CORES = ("m0plus", "m3", "m4", "m4f", "m7", "m33", "m33f", "m55")  # as in source/Makefile
QEMU = "qemu-system-arm"
CORE = "m4f"  # which Unicorn emulates
NOT_LOADED = 8  # type of sections that take no flash
ALLOCATED = 2
FLASH = ("vectors", "code", "constants", "weights", "scales", "tokenizer", "golden", "tasks")
RAM = ("data", "arena", "bss", "stack")


@functools.cache
def host():
    """The command of a compiler for this machine, or None."""
    if shutil.which("cc"):
        return "cc"
    return shlex.join([*ZIG, "cc"]) if extras.available("ziglang") else None


@functools.cache
def devices():
    """The compilers for a Cortex-M that are installed: TOOLCHAIN of the Makefile, the preferred one first."""
    found = {"zig": extras.available("ziglang"), "gcc": shutil.which("arm-none-eabi-gcc")}
    return tuple(name for name, there in found.items() if there)


def require(command, what):
    """Returns `command`, the result of `host` or `devices`.

    Raises:
        lwt.errors.ConfigError: no such compiler is installed; the message names `what`.
    """
    if not command:
        raise errors.ConfigError(f"no compiler for {what} is installed: {extras.install('c')}")
    return command


def make(folder, target, **variables):
    """Runs a target of an exported folder's Makefile, with some of its variables; returns what it prints.

    Raises:
        lwt.errors.ConfigError: make is missing, or the target fails; with the end of its output.
    """
    command = ["make", "-s", "-C", str(folder), target, *(f"{key}={value}" for key, value in variables.items())]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise errors.ConfigError("make is not installed; it builds the exported folder") from error
    if done.returncode:
        raise errors.ConfigError(f"make {target} fails in {folder}: {(done.stderr + done.stdout).strip()[-2000:]}")
    return done.stdout


def program(folder, name="classify"):
    """Builds the program for this machine, "classify" or "translate", in a `pathlib.Path`; returns its path."""
    make(folder, name, CC=require(host(), "this machine"))
    return folder / name


def answers(program, texts, *arguments):
    """The lines that a built program prints for texts without line breaks, one for each.

    Raises:
        lwt.errors.ConfigError: the program fails, or prints another number of lines.
    """
    given = "".join(f"{text}\n" for text in texts).encode()
    done = subprocess.run([program, *arguments], input=given, capture_output=True)
    printed = done.stdout.decode().split("\n")[:-1]
    if done.returncode or len(printed) != len(texts):
        raise errors.ConfigError(f"{program} answers {len(printed)} of {len(texts)} texts: {done.stderr.decode()}")
    return printed


def firmware(folder, *, core=CORE, compiler="", **limits):
    """Builds the firmware in a `pathlib.Path`; returns its path, and the compiler that built it.

    Args:
        folder: an exported folder.
        core: one of `CORES`.
        compiler: "zig" or "gcc"; "": the first that is installed and builds it.
        limits: bytes, the Makefile's BUDGET, STACK, FLASH, RAM.

    Raises:
        lwt.errors.ConfigError: no compiler is installed, or none builds it; with the message of the first.
    """
    failures = []
    for name in [compiler] if compiler else require(devices(), "a Cortex-M"):
        try:
            make(folder, "firmware", **_device(core, name), **limits)
        except errors.ConfigError as error:
            failures.append(error)
        else:
            return folder / "firmware.elf", name
    raise failures[0]


def qemu(folder, *, core, compiler):
    """Runs the firmware's self-test on QEMU's board with `core`, and builds it if needed; returns what it prints.

    Raises:
        lwt.errors.ConfigError: QEMU is missing, the firmware is not built, or the self-test fails.
    """
    if not shutil.which(QEMU):
        raise errors.ConfigError(f"{QEMU} is not installed; it emulates boards")
    return make(folder, "qemu", **_device(core, compiler)).strip()


def _device(core, compiler):
    return {"CORE": core, "TOOLCHAIN": compiler, "ZIG": shlex.join(ZIG)}


@dataclasses.dataclass(frozen=True)
class Elf:
    """A linked firmware.

    Attributes:
        sections: ``{name without the dot: (address, bytes)}`` of sections that take memory on the device.
        symbols: ``{name: address}``.
        contents: ``[(address, bytes)]`` of the sections in flash.
        lengths: ``{name: bytes}`` of the symbols that take memory.
    """

    sections: dict
    symbols: dict
    contents: list
    lengths: dict

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

    def map(self):
        """A line for each section and symbol that takes memory, by address: address, bytes, name."""
        rows = [(address, -1, length, f".{name}") for name, (address, length) in self.sections.items()]
        rows += [(self.symbols[name] & ~1, 0, length, f"    {name}") for name, length in self.lengths.items()]
        return "".join(f"{address:#010x} {length:>8} {name}\n" for address, _, length, name in sorted(rows))


def read(path):
    """Reads an `Elf` from a file: 32 bits, little-endian (the ELF specification's figures 1-3, 1-9 and 1-15)."""
    data = path.read_bytes()
    start, _, _, _, _, size, count, names = struct.unpack_from("<I I H H H H H H", data, 32)
    headers = [struct.unpack_from("<10I", data, start + i * size) for i in range(count)]
    sections, symbols, contents, lengths = {}, {}, [], {}
    for name, kind, flags, address, offset, length, link, *_ in headers:
        if flags & ALLOCATED and length:
            sections[_text(data, headers[names][4] + name).lstrip(".")] = (address, length)
            if kind != NOT_LOADED:
                contents.append((address, data[offset : offset + length]))
        if kind == 2:  # symbols
            for at in range(offset, offset + length, 16):
                symbol, value, taken = struct.unpack_from("<3I", data, at)
                symbols[_text(data, headers[link][4] + symbol)] = value
                if taken:
                    lengths[_text(data, headers[link][4] + symbol)] = taken
    return Elf(sections, symbols, contents, lengths)


def _text(data, at):
    return data[at : data.index(b"\0", at)].decode()
