"""Exports a trained run: one flag names the target, the others are the target's own.

    python export.py --target=bundle --workdir=runs/mt --out=mt-bundle                         # a folder to share
    python export.py --target=safetensors --workdir=runs/snips --out=snips.safetensors         # one file of integers
    python export.py --target=litert --workdir=runs/snips --out=snips.tflite --format=dynamic  # phones and desktops
    python export.py --target=onnx --workdir=runs/snips --out=snips.onnx                       # the same for ONNX
    python export.py --target=litert-translate --workdir=runs/mt --out=phone                   # encoder, decoding step
    python export.py --target=service --workdir=runs/snips --out=service                       # to serve, without JAX
    python export.py --target=c --workdir=runs/snips --out=firmware --budget=565000            # microcontroller
    python export.py --target=wasm --workdir=runs/snips --out=browser                          # browser and Node
    python export.py --target=litert --help

The last line is one JSON object.
"""

import argparse
import runpy
import sys

from lwt import errors
from lwt.machine import command_line

TARGETS = {  # module, and flags that it is given
    "bundle": ("lwt.export.bundle",),
    "c": ("lwt.export.c",),
    "litert": ("lwt.export.phone.classify", "--runtime=litert"),
    "litert-translate": ("lwt.export.phone.translate", "--runtime=litert"),
    "onnx": ("lwt.export.phone.classify", "--runtime=onnx"),
    "onnx-translate": ("lwt.export.phone.translate", "--runtime=onnx"),
    "safetensors": ("lwt.export.quantize",),
    "service": ("lwt.export.service",),
    "wasm": ("lwt.export.wasm",),
}


def main():
    """The program: starts that of the target."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--target", default="")
    own, rest = parser.parse_known_args()
    if not own.target and command_line.HELP & {*rest}:
        print(f"{command_line.as_called(__doc__.strip())}\n\nflags:\n  --target: {', '.join(TARGETS)}")
        return
    if own.target not in TARGETS:
        wrong = f"--target={own.target}: " if own.target else "give --target; "
        command_line.fail(wrong + errors.suggest(own.target, TARGETS))
    module, *given = TARGETS[own.target]
    sys.argv[1:] = given + rest
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
