"""A manifest finds every kind of damage to the files that it lists, and to itself."""

import jax
import jax.numpy as jnp
import pytest

from lwt import errors
from lwt.runs import manifest


@pytest.fixture
def folder(tmp_path):
    """A folder of three files with its manifest."""
    for name, text in {"state/a": "first", "state/deep/b": "second", "data/c": "third", "notes": "not covered"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    leaves = {"w": jnp.zeros((2, 3), jnp.bfloat16), "key": jax.random.key(0)}
    manifest.write(tmp_path, manifest.describe(7, leaves, metrics={"loss": 1.5, "bleu": float("nan"), "how": "13a"}))
    return tmp_path


def test_what_is_written_is_read(folder):
    contents = manifest.verify(folder)
    assert contents == manifest.read(folder) and contents["step"] == 7
    assert contents["metrics"] == {"loss": 1.5, "bleu": None, "how": "13a"}
    assert set(contents["files"]) == {"state/a", "state/deep/b", "data/c"}
    shapes = manifest.shapes(contents)
    assert shapes["w"].shape == (2, 3) and shapes["w"].dtype == jnp.bfloat16
    assert shapes["key"].dtype == jax.random.key(0).dtype


def test_damage_is_named(folder):
    def complaint(call=manifest.verify):
        with pytest.raises(errors.CheckpointError) as caught:
            call(folder)
        return str(caught.value)

    (folder / "notes").write_text("changed")
    manifest.verify(folder)
    (folder / "state/a").write_text("fIrst")
    assert "state/a: damaged" in complaint()
    (folder / "state/a").write_text("longer than it was")
    assert "state/a: 18 bytes instead of 5" in complaint()
    (folder / "state/a").unlink()
    assert "state/a: missing" in complaint()
    path = folder / manifest.NAME
    path.write_text(path.read_text().replace('"step": 7', '"step": 8'))
    assert "its own checksum differs" in complaint(manifest.read)
    path.write_text("{")
    assert "damaged" in complaint(manifest.read)
    path.unlink()
    assert "its save never finished" in complaint(manifest.read)
