"""Reads docstrings as plain text with Google's sections, not as reStructuredText."""

import inspect
import re

PATH = re.compile(r"lwt/[\w/]+\.py")
NAME = re.compile(r"[A-Za-z_][\w.]*")
LINEN = re.compile(r",? ?(parent|name): [^=,]*(\[.*?\])?[^=,]* = (<.*?>|None)(?=[,)])")
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")
CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
ITEM = re.compile(r"^\s*([-*]|\d+\.) ")


def to_rst(app, what, name, obj, options, lines):
    """Rewrites the lines of a docstring as reStructuredText, with sections that napoleon reads.

    Indented paragraphs and columns are shown verbatim. A name, or a path below lwt/, becomes a link. Characters that
    reStructuredText would take for markup are escaped.
    """
    module = obj if inspect.ismodule(obj) else inspect.getmodule(obj)
    written, in_section = [], False
    for paragraph in paragraphs(lines):
        if SECTION.match(paragraph[0]):
            in_section = True
        elif not paragraph[0].startswith(" "):
            in_section = False
        if not in_section and is_verbatim(paragraph):
            written += ["::", "", *(f"    {line}" for line in paragraph), ""]
        else:
            written += [*inline("\n".join(paragraph), vars(module) if module else {}).split("\n"), ""]
    lines[:] = written


def paragraphs(lines):
    """The lines in groups that blank lines separate."""
    return [text.split("\n") for text in re.split(r"\n(?:\s*\n)+", "\n".join(lines).strip("\n")) if text.strip()]


def is_verbatim(paragraph):
    """Whether a paragraph is code, output, a formula or a table in columns."""
    if ITEM.match(paragraph[0]):
        return False
    return all(line.startswith(" ") for line in paragraph) or any(re.search(r"\S {2,}\S", line) for line in paragraph)


def inline(text, names):
    """A paragraph with its code and links marked and the rest escaped; `names` are those of its module."""
    parts = CODE.split(text)
    for i, part in enumerate(parts):
        parts[i] = code(part, names) if i % 2 else escape(part)
        if i and not i % 2 and part[:1].isalnum():
            parts[i] = f"\\ {parts[i]}"  # markup has to end before a letter
    return "".join(parts)


def escape(text):
    """Plain text, without markup."""
    text = re.sub(r"(?<=\w)_(?!\w)|[|\\]", lambda match: f"\\{match.group()}", text)
    return re.sub(r"(?<!^)\*(?! )", r"\\*", text)


def code(marked, names):
    """Code in backticks as reStructuredText: a link if it names something of lwt."""
    inner = " ".join(marked.strip("`").split())
    if PATH.fullmatch(inner):
        return f":py:mod:`{inner} <{inner.removesuffix('.py').replace('/', '.')}>`"
    if marked.startswith("``") or not NAME.fullmatch(inner):
        return f"``{inner}``"
    first, _, rest = inner.partition(".")
    imported = names.get(first)
    return f"`{inner} <{imported.__name__}.{rest}>`" if rest and inspect.ismodule(imported) else f"`{inner}`"


def shorten(app, what, name, obj, options, signature, return_annotation):
    """Drops the two fields that linen adds to each module from a signature, and calls arrays `Array`."""
    parts = (signature, return_annotation)
    return tuple(text and LINEN.sub("", text).replace("jaxlib._jax.Array", "Array") for text in parts)


def skip(app, what, name, obj, skipped, options):
    """Shows `__call__` too: its annotations are the shapes of inputs and outputs."""
    return False if name == "__call__" else None
