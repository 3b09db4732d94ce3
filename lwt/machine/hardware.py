"""Describes the machine a run was computed on, and records it in the workdir's ``hardware.txt``."""

import collections
import contextlib
import functools
import os
import pathlib
import platform
import re

import jax

from lwt import files

NAME = "hardware.txt"


def describe():
    """The processor and accelerators of this machine, such as ``"Intel Xeon 6975P-C, 2 cores"``; no host names."""
    parts = [processor(), f"{cores()} core{'s' if cores() > 1 else ''}"]
    accelerators = collections.Counter(device.device_kind for device in jax.devices() if device.platform != "cpu")
    return ", ".join([*parts, *(f"{count} × {kind}" for kind, count in accelerators.items())])


def cores():
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def record(workdir):
    """Adds this machine to those of a run, one per line."""
    known = _known(workdir)
    if jax.process_index() == 0 and describe() not in known:
        files.write_text(pathlib.Path(workdir, NAME), "".join(f"{line}\n" for line in [*known, describe()]))


def of_run(workdir):
    """The machines of a run in one line, for a row of results."""
    return "; then ".join(_known(workdir)) or "a machine not recorded"


def _known(workdir):
    path = pathlib.Path(workdir, NAME)
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []


def slow_in_bfloat16():
    """Whether bfloat16 products are known to be slower here than float32 ones: on x86 processors without AMX.

    AMD's with AVX512-BF16 are an exception: EmbBERT's step took 139 ms on Zen 5, and 184 ms in float32.
    """
    if jax.default_backend() != "cpu":
        return False
    found = re.search(r"^flags\s*:(.+)$", _cpuinfo(), re.MULTILINE)
    flags = found[1].split() if found else []
    amd = re.search(r"^vendor_id\s*:\s*AuthenticAMD", _cpuinfo(), re.MULTILINE)
    return bool(flags) and "amx_bf16" not in flags and not (amd and "avx512_bf16" in flags)


def processor():
    """The processor's model, or its architecture if the model is unknown.

    A name without a number, such as "AMD EPYC" of a virtual machine, is that of many: it gets ``(family 25, model 1)``.
    """
    found = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    if not found:
        return platform.machine()
    name = " ".join(re.sub(r"\((R|TM|r|tm)\)|\bCPU\b|@.*", "", found[1]).split())
    numbers = [re.search(rf"^{key}\s*:\s*(\d+)", _cpuinfo(), re.MULTILINE) for key in ("cpu family", "model")]
    if re.search(r"\d", name) or None in numbers:
        return name
    return f"{name} (family {numbers[0][1]}, model {numbers[1][1]})"


@functools.cache
def _cpuinfo():
    """Linux's description of the processors; "" on other systems."""
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc/cpuinfo").read_text()
    return ""
