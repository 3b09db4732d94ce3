"""Writes constant data as C source."""

import numpy as np

TYPES = {
    np.dtype(t): c
    for t, c in (
        *(("int8", "int8_t"), ("uint8", "uint8_t"), ("uint16", "uint16_t"), ("uint32", "uint32_t")),
        ("float32", "float"),
    )
}
COLUMNS = 120


def array(name, values, *, part=""):
    """Defines a constant array of integers or float32, flattened; float16 is written as its bits.

    The report counts it under `part`: "weights", "scales" or "tokenizer".
    """
    values = np.asarray(values)
    values = (values.view(np.uint16) if values.dtype == np.float16 else values).reshape(-1)
    lines, line = [], ""
    for item in map(number if values.dtype == np.float32 else str, values.tolist()):
        if len(line) + len(item) + 1 > COLUMNS:
            lines.append(line)
            line = ""
        line += item + ","
    place = f"LWT_IN({part}) " if part else ""
    body = "\n".join([*lines, line])
    return f"{place}const {TYPES[values.dtype]} {name}[{max(values.size, 1)}] = {{\n{body}\n}};\n"


def string(text):
    """Writes a text as a C string literal; all but plain ASCII becomes octal escapes of its UTF-8."""
    return '"' + "".join(_character(byte) for byte in text.encode()) + '"'


def one_line(text):
    """A text or label as programs read and print it: in one line, without tabs."""
    return " ".join(text.replace("\0", " ").split())


def number(value):
    """Writes a float32 literal that reads back as the same number."""
    return f"{float(np.float32(value)).hex()}f"


def defines(values):
    """Writes ``#define LWT_KEY value`` lines; a str is an expression."""
    return "".join(f"#define LWT_{key.upper()} {_define(value)}\n" for key, value in values.items())


def _define(value):
    return number(value) if isinstance(value, float) else str(value) if isinstance(value, str) else str(int(value))


def _character(byte):
    plain = (
        32 <= byte < 127 and chr(byte) not in '"\\?@_.'
    )  # ??x would be a trigraph; layout.py would change @x@, lwt_ and lwt.h
    return chr(byte) if plain else f"\\{byte:03o}"
