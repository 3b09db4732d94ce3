"""Keeps compiled programs, so that the second start of a command reads them instead of compiling them again.

They lie in ``$LWT_CACHE/compiled`` (default: ``~/.cache/lwt/compiled``), in a folder for each kind of processor: a home
may be shared by machines with other instructions. Beyond a gigabyte, JAX deletes the least recently
used. ``JAX_COMPILATION_CACHE_DIR`` names another folder, and ``JAX_ENABLE_COMPILATION_CACHE=false`` keeps none.
"""

import hashlib
import os
import pathlib
import platform
import sys

from lwt import files

FOLDER = "jax_compilation_cache_dir"
SETTINGS = {
    "jax_compilation_cache_max_size": 1 << 30,  # bytes
    "jax_persistent_cache_min_compile_time_secs": 0.1,  # with JAX's 1.0, a second start takes half as long again
}


def keep():
    """Keeps the programs that this process compiles, unless the environment names a folder or none can be written."""
    if FOLDER.upper() in os.environ:
        return
    try:
        folder = files.first_writable(files.cache_folder() / "compiled" / processor())
    except (OSError, RuntimeError):  # pathlib's error for a user without a home
        return
    settings = {FOLDER: str(folder)} | SETTINGS
    if "jax" in sys.modules:
        import jax

        for name, value in settings.items():
            jax.config.update(name, value)
    else:
        os.environ |= {name.upper(): str(value) for name, value in settings.items()}


def processor():
    """A short name for what the processor can execute: equal names, equal instructions."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        found = sorted({line for line in lines if line.startswith(("vendor_id", "model name", "flags", "Features"))})
    except OSError:  # not Linux
        found = []
    text = "\n".join([platform.machine(), platform.processor(), *found])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
