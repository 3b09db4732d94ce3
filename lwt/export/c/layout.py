"""Arranges an exported folder: which file lies where, the prefix of all names, and the public constants.

`src/` is the library: a program compiles all of its files. `test/` has the programs that test it, on this machine and
on a device. The other files are what build systems look for.
"""

import re

import lwt
from lwt import errors
from lwt.export.c import literals, parts

PREFIX = "lwt"  # of the names in source/
STACK = 1024  # bytes of the device's stack, unless logits of many classes need more
WORD = 1024  # characters of a word in byte pairs, as in source/bytepair.h
PLACES = {
    **dict.fromkeys(("README.md", "Makefile", "CMakeLists.txt", "library.properties"), ""),
    **dict.fromkeys(("main.c", "firmware.c", "firmware.ld", "golden.h", "golden.c", "goldens.c"), "test/"),
    "classify.ino": "examples/classify/",
    "translate.ino": "examples/translate/",
    "module.yml": "zephyr/",
    "Kconfig": "zephyr/",
    "zephyr.cmake": "zephyr/",
}
NAMES = {"zephyr.cmake": "CMakeLists.txt"}  # where a file would have the name of another
ONE = {  # fields of the classifier's files: the program has one task
    **dict.fromkeys(("FOR_TASKS", "PARAMETER", "ARGUMENT", "TASK", "CHOICE", "USAGE", "OPTIONS", "TASKS"), ""),
    "LABEL": "lwt_labels[answer.best]",
}
ANSWERS = {"translator": "UTF-8", "text classifier": "classes", "text regression": "a number"}
TAKEN = (  # no prefix: system headers that the engine includes, and targets of CMake and Make
    *("stdint", "stdio", "stdlib", "string", "stddef", "stdbool", "math", "limits", "float", "assert", "errno", "time"),
    *("test", "all", "clean", "install", "help", "package"),
)
ALONE = {"SECOND": "NULL", "SECOND_TEXT": "NULL", "CUT": ""}  # a record is one text
PAIR = {  # or two
    "SECOND": "second",
    "SECOND_TEXT": '"how are you"',
    "CUT": """  char *second = strchr(line, '\\t'); // between the two texts
  if (!second) {
    return;
  }
  *second++ = 0;
""",
}
MANY = {  # or many
    "FOR_TASKS": " for several tasks",
    "PARAMETER": "const lwt_task *task, ",
    "ARGUMENT": "&task, ",
    "TASK": "static lwt_task task;\n",
    "CHOICE": "    lwt_select(&task, lwt_tasks[0]); /* returns LWT_OK if the slot is whole */\n",
    "LABEL": "lwt_label(&task, answer.best)",
    "USAGE": "\n       classify TASK < texts     answers with the task of this name; without one, with the first\n"
    "       classify TASK tasks.bin < texts     the same, with the slots of a file in place of the program's",
    "OPTIONS": " | TASK [tasks.bin]",
    "TASKS": """## Tasks

There is one network, and for each task a slot of `LWT_SLOT_BYTES` bytes: what the task changes in the network, its
head, and the names of the task and of its classes. `lwt_select` reads a slot of `lwt_tasks`, or one that lies
elsewhere. Its status says if the slot is damaged (by a checksum) or was made for another network.

`tasks.bin` holds the slots. Another one replaces them, and nothing is built anew: export other adapters of the same
base, as many as here, and write their `tasks.bin` to the address of the section `.tasks` in flash, or into the file
with `arm-none-eabi-objcopy --update-section .tasks=tasks.bin firmware.elf`. The self-test still expects the old tasks.

""",
}
NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")


def check_prefix(prefix):
    """Refuses a prefix that cannot begin names in C, or with which a build fails.

    Raises:
        lwt.errors.ConfigError: says what would be right.
    """
    if not NAME.fullmatch(prefix):
        raise errors.ConfigError(
            f"prefix={prefix!r} must be a lower-case letter, and at most 29 letters, digits and underscores"
        )
    if prefix in TAKEN:
        raise errors.ConfigError(f"prefix={prefix!r} is a system header or a target of CMake: choose another one")


def arrange(folder, *, values, prefix=PREFIX):
    """Moves the files of a `pathlib.Path` to their places, and fills in their fields ``@NAME@`` and the prefix.

    Args:
        folder: all files lie in it.
        values: ``{NAME: text}`` of the fields.
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


def public(program, *, classes, fingerprint):
    """The fields of the public header and of the description that the program gives of itself.

    Args:
        program: a `parts.Program`.
        classes: their number; 0: the model predicts a number, or translates.
        fingerprint: 32 bits that identify the weights and the vocabulary.
    """
    shape, network, tokenizer = program.shape, program.network.name, program.tokens.name
    translates, pairs = program.name == "translate", shape.get("texts") == 2
    kind = "translator" if translates else "text classifier" if classes or shape.get("tasks") else "text regression"
    many = shape.get("tasks", 0)
    keys = ("length", "answer_bytes") if translates else ("outputs", "texts", "length", "tasks")
    keys += ("places", "slot_bytes") if many else ()
    constants = {key: shape[key] for key in keys} | ({} if translates else {"classes": classes})
    arena = program.network.arena
    rest = sum(size for part, size in arena.items() if part not in ("ids", "search", "words"))
    constants["arena_bytes"] = arena["ids"] + arena.get("search", 0) + max(arena["words"], rest)
    states = "int8" if shape["int8"] else "fp16"
    fields = [*map(literals.string, (network, states, tokenizer)), f"{fingerprint:#010x}u"]
    stack = STACK if translates else max(STACK, 640 + 4 * shape["outputs"] * (2 if shape["ngram_rows"] else 1))
    fields += ["LWT_BEAMS"] if translates else ["LWT_CLASSES", "LWT_TEXTS"]
    return {
        "SHAPE": literals.defines(constants),
        "DESCRIPTION": ", ".join([*fields, "LWT_LENGTH", "LWT_ARENA_BYTES"]),
        "ABOUT": f"A {kind}, from UTF-8 to {ANSWERS[kind]}.",
        "KIND": kind,
        "ECHO": r'printf "what a day\thow are you\n"' if pairs else 'echo "what a day"',
        "PRINTED": "label and logits, with tabs between" if kind == "text classifier" else "the number",
        "STACK": str(-(-stack // 64) * 64),
        **_examples(many=many, classes=classes, pairs=pairs),
    }


def _examples(*, many, classes, pairs):
    """The fields of the examples, by what a record and its answer are."""
    own, labelled = (MANY if many else ONE), many or classes
    answer = own["LABEL"] if labelled else "answer.logits[0]"
    shown = f"puts({answer});" if labelled else f'printf("%g\\n", {answer});'
    return own | (PAIR if pairs else ALONE) | {"ANSWER": answer, "PRINT": shown}


def arena(program):
    """Bytes of the arena's parts: "ids", and the tokenizer's "words", then in their place "states" and "rows".

    `lwt.c` checks the sum.
    """
    shape, network, tokenizer = program.shape, program.network.name, program.tokens.name
    length, width, channels, inner = (shape[key] for key in ("length", "width", "channels", "inner"))
    rows = length if shape["rows"] == parts.LENGTH else shape["rows"]
    arrays = {"embedder": 1, "embbert": 2, "mamba": shape.get("layers")}.get(network)
    arrays = arrays or (2 if shape["efficient"] else 3)
    cells = rows * channels * (1 if shape["int8"] else 2)
    scanned = channels * shape.get("state", 0)
    states = arrays * (4 * (rows if shape["int8"] else 1) + _aligned(cells) + 4 * scanned)
    floats = shape["features"] + width + inner
    if network == "mamba":
        floats += width + channels + shape["time_rank"] + 2 * shape["state"]
    elif network != "embedder":
        floats += length + (inner if network == "bert" else width)
    buffers = 4 * floats + _aligned(2 * shape["operand"])
    words = _aligned(2 * length + 6 * shape["word"]) if tokenizer == "wordpiece" else _byte_pairs(shape)
    return {
        "ids": _aligned(2 * length),
        "states": states,
        "rows": buffers,
        "words": words,
    }


def _byte_pairs(shape):
    """Bytes of the working memory of ``source/bytepair.c``."""
    return _aligned(2 * shape["length"] + (4 + shape["code_bytes"]) * WORD + 2)


def _aligned(size):
    return -(-size // 4) * 4


def translation(shape):
    """The same for a translator: "ids" of source and answer, "search", and in the place of "words" then "cross",
    "past" and "rows"; the states of the encoder lie in "past".
    """
    length, width, inner, beams = (shape[key] for key in ("length", "width", "inner", "beams"))
    states = 4 * (length if shape["int8"] else 1) + _aligned(length * width * (1 if shape["int8"] else 2))
    answers = 2 * beams * (_aligned(2 * length) + 8) + 3 * beams * 12
    return {
        "ids": 2 * _aligned(2 * length),
        "search": answers if beams > 1 else 12,
        "cross": 2 * shape["decoder_layers"] * states,
        "past": max(3, 2 * beams * shape["decoder_layers"]) * states,
        "rows": 4 * (1 + length + width + 2 * inner) + _aligned(2 * shape["operand"]),
        "words": _byte_pairs(shape),
    }
