"""Compiled programs are kept: where, unless the user says otherwise, and that a second process reads them."""

import os
import pathlib
import subprocess
import sys

import jax

from lwt.machine import compiled

STEP = """
import jax
jax.monitoring.register_event_listener(lambda event, **_: event.endswith("cache_hits") and print("read"))
from lwt.machine import compiled
compiled.SETTINGS |= {"jax_persistent_cache_min_compile_time_secs": 0}
compiled.keep()
print(jax.jit(lambda x: jax.lax.fori_loop(0, 9, lambda _, x: jax.numpy.sin(x @ x), x))(jax.numpy.ones((3, 3)))[0, 0])
"""


def run(program, **environment):
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_COMP", "JAX_PERS"))}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=inherited | environment, capture_output=True, text=True, check=True).stdout


def test_a_second_process_reads_what_the_first_has_compiled(tmp_path):
    first, second = run(STEP, LWT_CACHE=str(tmp_path)), run(STEP, LWT_CACHE=str(tmp_path))
    assert "read" not in first and second.startswith("read\n") and second.splitlines()[-1] == first.strip()
    (folder,) = (tmp_path / "compiled").iterdir()
    assert folder.name == compiled.processor() and len(folder.name) == 12 and any(folder.iterdir())


def test_before_jax_is_imported(tmp_path):
    program = (
        "from lwt.machine import compiled; compiled.keep(); import jax; print(jax.config.jax_compilation_cache_dir)"
    )
    assert run(program, LWT_CACHE=str(tmp_path)).strip() == str(tmp_path / "compiled" / compiled.processor())


def test_the_user_s_folder_stays_and_none_is_no_error(tmp_path):
    program = (
        "import jax; from lwt.machine import compiled; compiled.keep(); print(jax.config.jax_compilation_cache_dir)"
    )
    assert run(program, JAX_COMPILATION_CACHE_DIR="own", LWT_CACHE=str(tmp_path)) == "own\n"
    (tmp_path / "file").write_text("")
    assert run(program, LWT_CACHE=str(tmp_path / "file")) == "None\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_user_without_a_home(monkeypatch):
    def expanduser(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("LWT_CACHE", raising=False)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setattr(pathlib.Path, "expanduser", expanduser)
    before = jax.config.jax_compilation_cache_dir
    compiled.keep()
    assert jax.config.jax_compilation_cache_dir == before
