"""What holds for every test. It has to be said before jax is imported."""

import os
import pathlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("NPROC", "16")  # threads of XLA: simulated devices can deadlock when there are fewer than devices

import jaxtyping

# Shapes in annotations are checked here and nowhere else. Not hooked: `layers.linear` and `layers.quantized`, whose
# pytree nodes pass through jax.tree.map with leaves that are no arrays (shapes, labels, None).
LWT = pathlib.Path(__file__).parent.parent / "lwt"
CHECKED = [
    f"lwt.{path.parent.name}.{path.stem}"
    for folder in ("attention", "layers", "models")
    for path in sorted((LWT / folder).glob("[a-z]*.py"))
    if path.stem not in ("linear", "quantized")
]
jaxtyping.install_import_hook(CHECKED, "beartype.beartype")
