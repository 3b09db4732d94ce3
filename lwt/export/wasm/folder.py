"""Writes an exported folder: the program in C as WebAssembly, the module in JavaScript with its types, and the page."""

import html
import json
import pathlib
import shutil
import subprocess
import tempfile
import zlib

import lwt
from lwt import errors, extras
from lwt.export import folders
from lwt.export.c import export as engine
from lwt.export.c import tasks, toolchain

WASM = "model.wasm"
SOURCES = pathlib.Path(__file__).parent / "source"
STACK = 65536  # bytes; the program takes less than 1,024 on a Cortex-M
COMPILER = (
    *("cc", "-target", "wasm32-freestanding", "-mcpu=generic+simd128+bulk_memory", "-O2", "-s", "-nostdlib"),
    *("-std=c99", "-ffp-contract=off", "-fno-math-errno", "-Isrc", "-Itest"),
    *("-Wl,--no-entry", f"-Wl,-z,stack-size={STACK}", "-Wl,--export=__heap_base"),
)


def export(experiment, out, *, activations="fp16", sentences=(), many=None):
    """Writes a run as WebAssembly with a module in JavaScript and a page; the folder appears whole or not at all.

    Args:
        experiment: an `experiment.Experiment` of a text classifier, text regression or translator.
        out: the folder; an earlier export there is replaced.
        activations: "fp16" or "int8": the type that states between the layers are rounded to.
        sentences: the text that the page starts with, or the two of a record of two; empty: a built-in one.
        many: the `tasks.Tasks` of a program of many tasks, on the base `experiment`.

    Returns:
        ``{"model", "activations", "checkpoint", "files": {name: bytes}, "gzip": bytes of model.wasm}``.

    Raises:
        lwt.errors.ConfigError: the engine does not support the model; ziglang is missing; or the folder holds something
            else.
    """
    if not extras.available("ziglang"):
        raise errors.ConfigError(f"lwt.export.wasm needs ziglang, which is not installed: {extras.install('c')}")
    experiment = many.largest if many else experiment
    texts = engine.texts_of(experiment, sentences)
    with folders.new(out, marker="package.json", key="exports") as folder, tempfile.TemporaryDirectory() as place:
        program = engine.write(experiment, pathlib.Path(place), activations=activations, many=many)
        build(pathlib.Path(place), folder / WASM)
        translates = program.name == "translate"
        name = "A translator" if translates else "A text classifier" if experiment.labels else "A text regression"
        fields = {
            "TITLE": f"{name} in the browser",
            "TEXTS": html.escape(json.dumps(texts, ensure_ascii=False)),
            "KIND": "Translator" if translates else "Tasks" if many else "Classifier",
            "ANSWER": "Classification" if experiment.labels else "Regression",
        }
        for path in ("model.js", "model.d.ts", "element.js", "index.html"):
            text = (SOURCES / path).read_text()
            for field, value in fields.items():
                text = text.replace(f"@{field}@", value)
            (folder / path).write_text(text)
        if many:
            shutil.copyfile(pathlib.Path(place, tasks.FILE), folder / tasks.FILE)
        package = {"name": "lwt-model", "version": lwt.__version__, "type": "module", "types": "./model.d.ts"}
        package |= {"exports": {".": "./model.js", "./element.js": "./element.js", f"./{WASM}": f"./{WASM}"}}
        if many:
            package["exports"][f"./{tasks.FILE}"] = f"./{tasks.FILE}"
        (folder / "package.json").write_text(json.dumps(package, indent=2) + "\n")
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
        packed = len(zlib.compress((folder / WASM).read_bytes(), 9, wbits=31))
    names = {"model": program.network.name, "activations": activations, "checkpoint": experiment.step}
    return {**names, "files": sizes, "gzip": packed}


def build(folder, path):
    """Compiles an exported folder of C to the file `path`; both are `pathlib.Path`.

    Raises:
        lwt.errors.ConfigError: the compiler fails; with the end of its message.
    """
    # Zig caches the object of a file outside the folder with the headers of the program that was compiled first.
    shutil.copyfile(SOURCES / "exports.c", folder / "exports.c")
    files = ["exports.c", *sorted((folder / "src").glob("*.c")), "test/golden.c", "test/goldens.c"]
    command = [*toolchain.ZIG, *COMPILER, *map(str, files), "-o", str(path.absolute())]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise errors.ConfigError(f"ziglang does not compile the program: {done.stderr.strip()[-2000:]}")
