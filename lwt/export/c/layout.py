"""Arranges an exported folder: which file lies where, the prefix of all names, and the public constants.

`src/` is the library: a program compiles all of its files. `test/` has the programs that test it, on this machine and
on a device. The other files are what build systems look for.
"""

import re

import lwt
from lwt import errors
from lwt.export.c import literals, parts

PREFIX = "lwt"  # of the names in source/
PLACES = {
    **dict.fromkeys(("README.md", "Makefile", "CMakeLists.txt", "library.properties"), ""),
    **dict.fromkeys(("main.c", "firmware.c", "firmware.ld", "golden.h", "golden.c", "goldens.c"), "test/"),
    "classify.ino": "examples/classify/",
    "module.yml": "zephyr/",
    "Kconfig": "zephyr/",
    "zephyr.cmake": "zephyr/",
}
NAMES = {"zephyr.cmake": "CMakeLists.txt"}  # where a file would have the name of another
NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")


def check_prefix(prefix):
    """Refuses a prefix that cannot begin names in C.

    Raises:
        lwt.errors.ConfigError: says what would be right.
    """
    if not NAME.fullmatch(prefix):
        raise errors.ConfigError(
            f"prefix={prefix!r} must be a lower-case letter, and at most 29 letters, digits and underscores"
        )


def arrange(folder, *, values, prefix=PREFIX):
    """Moves the files of a `pathlib.Path` to their places, and fills in their placeholders and the prefix.

    Args:
        folder: all files lie in it.
        values: ``{placeholder without @: text}``.
        prefix: replaces "lwt" at the start of all names in C, and of the public header.

    Raises:
        lwt.errors.ConfigError: the prefix cannot begin names, or is the name of another file.
    """
    check_prefix(prefix)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    if prefix != PREFIX and prefix in {path.stem for path in files}:
        raise errors.ConfigError(f"prefix={prefix!r} is the name of a file of the engine: choose another one")
    values = {"NAME": prefix, "MACRO": prefix.upper(), "VERSION": lwt.__version__, **values}
    for path in files:
        text = path.read_text()
        path.unlink()
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        place = folder / PLACES.get(path.name, "src/") / renamed(NAMES.get(path.name, path.name), prefix)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(renamed(text, prefix))


def renamed(text, prefix):
    """Changes the prefix in a text: of names as ``lwt_x`` and ``LWT_X``, and of the files ``lwt.h`` and ``lwt.c``."""
    text = re.sub(r"(?<![A-Za-z0-9_])lwt(?=_|\.[ch]\b)", prefix, text)
    return re.sub(r"(?<![A-Za-z0-9_])LWT(?=_)", prefix.upper(), text)


def public(shape, *, arena, network, classes, tokenizer, fingerprint):
    """The placeholders of the public header and of what the program says of itself.

    Args:
        shape: ``{macro without LWT_: value}`` of the model.
        arena: bytes of its parts.
        network: name of its source files.
        classes: their number; 0: the model predicts a number.
        tokenizer: name of its source files.
        fingerprint: 32 bits that identify the weights and the vocabulary.
    """
    constants = {
        "outputs": shape["outputs"],
        "classes": classes,
        "texts": shape["texts"],
        "length": shape["length"],
        "arena_bytes": arena["ids"] + max(arena["words"], arena["states"] + arena["rows"]),
    }
    states = "int8" if shape["int8"] else "fp16"
    fields = [*map(literals.string, (network, states, tokenizer)), f"{fingerprint:#010x}u", "LWT_CLASSES", "LWT_TEXTS"]
    return {
        "SHAPE": literals.defines(constants),
        "DESCRIPTION": ", ".join([*fields, "LWT_LENGTH", "LWT_ARENA_BYTES"]),
    }


def arena(shape, *, network, tokenizer):
    """Bytes of the arena's parts: "ids", and the tokenizer's "words", then in their place "states" and "rows".

    `lwt.c` checks the sum.
    """
    length, width, inner = shape["length"], shape["width"], shape["inner"]
    rows = length if shape["rows"] == parts.LENGTH else shape["rows"]
    arrays = {"embedder": 1, "embbert": 2}.get(network) or (2 if shape["efficient"] else 3)
    cells = rows * width * (1 if shape["int8"] else 2)
    floats = shape["features"] + width + inner
    if network != "embedder":
        floats += length + (inner if network == "bert" else width)
    states = arrays * (4 * (rows if shape["int8"] else 1) + _aligned(cells))
    buffers = 4 * floats + _aligned(2 * shape["operand"])
    word = shape.get("word", 1024)
    words = _aligned(2 * length + (6 * word if tokenizer == "wordpiece" else 5 * word + 2))
    return {
        "ids": _aligned(2 * length),
        "states": states,
        "rows": buffers,
        "words": words,
    }


def _aligned(size):
    return -(-size // 4) * 4
