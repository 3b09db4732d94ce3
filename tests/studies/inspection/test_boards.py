"""The table of cores, compilers and types of states says what was built and what passed."""

import itertools

from lwt import errors
from lwt.export.c import export, toolchain
from studies.inspection import boards


def rows(core, compiler, states, *, config="runs/intents", **figures):
    fixed = {"config": config, "seed": None, "split": "none", "paper": None, "hardware": "h", "seconds": 0}
    fixed["command"] = f"c {config}"
    fixed["overrides"] = {"core": core, "compiler": compiler, "states": states}
    return [fixed | {"metric": name, "value": value} for name, value in figures.items()]


def test_the_table(tmp_path):
    found = []
    for core in toolchain.CORES:
        found += rows(core, "gcc", "fp16", built=1, bytes=1234, passed=1, same_bits=1)
        found += rows(core, "zig", "fp16", built=0)
        found += rows(core, "gcc", "int8", built=1, bytes=1234, passed=0)
        found += rows(core, "zig", "int8", built=1, bytes=1234, passed=1, same_bits=0)
        for compiler, states in itertools.product(boards.COMPILERS, export.ACTIVATIONS):
            found += rows(core, compiler, states, config="runs/other", built=0)
    assert boards.write(tmp_path, found) == ["README.md", "results.json"]
    text = (tmp_path / "README.md").read_text()
    assert "| `m55` | 1,234 | **not built** | **failed** | **other bits** |" in text
    assert "    c runs/intents\n\nA cell" in text and "## other\n\n    c runs/other\n\n| core" in text


def test_a_cell(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise errors.ConfigError("no")

    class Elf:
        def sizes(self):
            return {"total": 5}

    call = {"core": "m3", "compiler": "gcc", "bits": "0a"}
    monkeypatch.setattr(toolchain, "firmware", fail)
    assert boards.cell(tmp_path, **call) == {"built": 0}
    monkeypatch.setattr(toolchain, "firmware", lambda *args, **kwargs: (tmp_path, "gcc"))
    monkeypatch.setattr(toolchain, "read", lambda path: Elf())
    monkeypatch.setattr(toolchain, "qemu", fail)
    assert boards.cell(tmp_path, **call) == {"built": 1, "bytes": 5, "passed": 0}
    for bits in ("0a", "0b"):
        monkeypatch.setattr(toolchain, "qemu", lambda *args, bits=bits, **kwargs: f"self-test: passed, bits {bits}")
        assert boards.cell(tmp_path, **call) == {"built": 1, "bytes": 5, "passed": 1, "same_bits": int(bits == "0a")}
