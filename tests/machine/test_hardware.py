"""Descriptions of machines, their record in a run, and processors with slow bfloat16."""

import re
import socket

import pytest

from lwt.machine import hardware


def test_the_description_leaves_out_the_host_name():
    assert re.fullmatch(r"\S.*, \d+ cores?.*", hardware.describe())
    assert socket.gethostname() not in hardware.describe()


def test_a_run_records_its_machines(tmp_path, monkeypatch):
    assert hardware.of_run(tmp_path) == "a machine not recorded"
    for _ in range(2):
        hardware.record(tmp_path)
    assert hardware.of_run(tmp_path) == hardware.describe()
    monkeypatch.setattr(hardware, "describe", lambda: "Abacus, 1 core")
    first = hardware.of_run(tmp_path)
    hardware.record(tmp_path)
    assert hardware.of_run(tmp_path) == f"{first}; then Abacus, 1 core"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ("cpu family\t: 6\nmodel\t\t: 173\nmodel name\t: Intel(R) Xeon(R) 6975P-C\n", "Intel Xeon 6975P-C"),
        ("cpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n", "AMD EPYC (family 25, model 1)"),
        ("model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\n", "Intel Xeon"),
    ],
)
def test_a_processor_s_name_tells_it_from_others(monkeypatch, lines, name):
    monkeypatch.setattr(hardware, "_cpuinfo", lambda: lines)
    assert hardware.processor() == name


@pytest.mark.parametrize(
    ("processor", "slow"),
    [
        ("flags\t\t: fpu avx512_bf16 avx512f\n", True),
        ("flags\t\t: fpu avx512_bf16 amx_bf16 amx_tile\n", False),
        ("vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx2 avx512_bf16\n", False),
        ("vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx2 avx512f\n", True),
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu avx2 avx512_bf16\n", True),
        ("Features\t: fp asimd bf16\n", False),
        ("", False),
    ],
)
def test_bfloat16_is_slow_only_on_known_processors(monkeypatch, processor, slow):
    monkeypatch.setattr(hardware, "_cpuinfo", lambda: processor)
    assert hardware.slow_in_bfloat16() == slow
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    assert not hardware.slow_in_bfloat16()


def test_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(hardware.os, "sched_getaffinity", lambda process: {3}, raising=False)
    assert hardware.cores() == 1 and hardware.describe().endswith(", 1 core")
    monkeypatch.setattr(hardware.os, "sched_getaffinity", lambda process: {0, 3}, raising=False)
    assert hardware.cores() == 2 and ", 2 cores" in hardware.describe()
