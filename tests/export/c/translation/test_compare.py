"""The program, NumPy, JAX and the device are compared on a test set."""

import pytest

from lwt import errors
from lwt.export import quantize
from lwt.export.c import check, export
from lwt.reparam.compression import quantize as reparam

pytest.importorskip("ziglang", reason="pip install '.[c]' brings the compiler")
pytest.importorskip("unicorn", reason="pip install '.[c]' brings the emulator")
pytestmark = pytest.mark.usefixtures("compiled_once")


def test_all_sentences_are_equal(tiny, untrained, tmp_path):
    run = untrained(tiny({"data.max_tokens": 16}), tmp_path / "run")
    used = reparam.Quantize(format="int4", block=16)
    quantize.export(run, tmp_path / "int4.safetensors", quantization=used, calibration={"records": 8})
    run = run.with_file(tmp_path / "int4.safetensors")
    report = export.export(run, tmp_path / "out", activations="int8")
    assert report["self_test_failures"] == 0 and report["fits_emulator"] and report["instructions_a_step"] > 10_000
    assert report["macs"] > 1000 and "classes" not in report and report["tokens"] > 3
    figures = check.check(run, tmp_path / "out", emulated=2)
    assert figures["equal"] == figures["sentences"] == 8 and figures["emulated_agree"] == figures["emulated"] == 2
    assert {"exact_match", "model_exact_match"} <= figures.keys()
    with pytest.raises(errors.ConfigError, match="above the budget"):
        export.export(run, tmp_path / "out", activations="int8", budget=report["total"] - 1)
    with pytest.raises(errors.ConfigError, match="sentence is given 2 times; a translator reads one text"):
        export.export(run, tmp_path / "out", sentences=("a", "b"))
