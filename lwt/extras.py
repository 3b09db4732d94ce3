"""Packages that only some features need: an extra of lwt installs them, and `load` says which one."""

import importlib
import importlib.metadata
import importlib.util

from lwt import errors

EXTRAS = {  # package, as it is imported -> the extra of setup.py
    "tensorflow_datasets": "data",
    "pyarrow": "data",
    "sklearn": "sklearn",
    "rouge_score": "rouge",
    "huggingface_hub": "hf",
    "gradio": "demo",
    "torchvision": "augment",
    "unicorn": "c",
    "ziglang": "c",
    "ai_edge_litert": "litert",
    "ai_edge_quantizer": "litert",
    "litert_converter": "litert",
    "onnxruntime": "onnx",
    "jax2onnx": "onnx",
}
NO_DEPS = {
    "litert": "litert-converter==0.5.0",
    "onnx": "jax2onnx==0.17.1",
}  # extra -> what it needs besides, see setup.py


def available(name):
    """Whether the package `name` is installed."""
    return importlib.util.find_spec(name) is not None


def load(module, purpose):
    """Imports a module of an extra.

    Args:
        module: its full name, such as ``pyarrow.parquet``.
        purpose: what needs it, for the message: "data.randaugment", "a Parquet file".

    Raises:
        lwt.errors.ConfigError: it is not installed, or fails; the message says how to install it.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError) as error:  # RuntimeError: torch and torchvision of incompatible builds
        why = f"which fails ({errors.first_line(error)})" if available(package) else "which is not installed"
        raise errors.ConfigError(f"{purpose} needs {package}, {why}: {install(EXTRAS[package])}") from error


def install(extra):
    """The command that installs an extra: of the installed lwt, or in the clone if none is installed.

    Without an installed lwt, ``pip install 'lwt[EXTRA]'`` would bring PyPI's package of that name, another program.
    """
    found = importlib.metadata.distributions(name="lwt")  # what a build leaves in a clone has no INSTALLER
    ours = any(one.read_text("INSTALLER") and extra in one.metadata.get_all("Provides-Extra", ()) for one in found)
    more = f" && pip install --no-deps {NO_DEPS[extra]}" if extra in NO_DEPS else ""
    return f"pip install '{'lwt' if ours else '.'}[{extra}]'{more}"
