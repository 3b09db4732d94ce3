"""The package itself: it is cheap to import, and `lwt.load` opens a run."""

import subprocess
import sys

import pytest

import lwt
from lwt import errors


def test_importing_the_package_does_not_import_jax():
    command = "import sys, lwt; print(lwt.__version__, 'jax' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [lwt.__version__, "False"]


def test_load_says_what_is_not_there(tmp_path):
    with pytest.raises(errors.CheckpointError, match=f"{tmp_path} is not the workdir of a run"):
        lwt.load(tmp_path)
