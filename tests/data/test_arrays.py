"""Files of arrays: damage, and headers that claim too much, are one error that names the file."""

import io
import zipfile

import numpy as np
import pytest

from lwt import errors
from lwt.data import arrays, sources


@pytest.mark.parametrize("kind", ["npy", "npz", "compressed"])
def test_any_flipped_bit_is_noticed_or_harmless(tmp_path, kind):
    path = tmp_path / ("a.npy" if kind == "npy" else "a.npz")
    save = {"npy": lambda path, image: np.save(path, image), "npz": np.savez, "compressed": np.savez_compressed}[kind]
    content = np.arange(300, dtype=np.uint8).reshape(3, 10, 10)
    save(path, content) if kind == "npy" else save(path, image=content, other=np.arange(3))
    whole, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(150):
        at = int(rng.integers(128 if kind == "npy" else len(whole)))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :])
        try:
            found = arrays.load(path, () if kind == "npy" else ("image",))
            if kind != "npy":
                np.testing.assert_array_equal(found["image"], content)
        except errors.DataError as error:
            refused += 1
            assert path.name in str(error) and "\n" not in str(error)
    assert refused > 30
    for cut in (0, 1, 60, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(errors.DataError, match=path.name):
            arrays.load(path, () if kind == "npy" else ("image",))


def test_arrays_that_are_missing_or_hold_objects(tmp_path):
    np.savez(tmp_path / "a.npz", other=np.arange(3), objects=np.array([{}], object))
    with pytest.raises(errors.DataError, match="must hold the arrays image; it holds other, objects"):
        arrays.load(tmp_path / "a.npz", ("image",))
    with pytest.raises(errors.DataError, match="damaged, holds objects or is too large"):
        arrays.load(tmp_path / "a.npz", ("objects",))
    with pytest.raises(FileNotFoundError):
        arrays.load(tmp_path / "none.npy")


def test_arrays_that_claim_too_much(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    np.savez_compressed(tmp_path / "train.npz", image=np.zeros((4, 64, 64), np.uint8), label=np.arange(4))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 40, 1, 1)})
    with zipfile.ZipFile(tmp_path / "train.npz", "w") as file:
        file.writestr("image.npy", header.getvalue())
        file.writestr("label.npy", b"nothing")
    with pytest.raises(errors.DataError, match="declares 1099511627776 bytes, but 0 follow"):
        len(sources.load("folder:."))
