"""Commands in pages, docstrings, messages and notebooks parse; modules, files and make targets that they name exist."""

import ast
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tokenize

from lwt import __main__ as console

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("lwt", "studies", "benchmarks", "configs")
PAGES = [
    path
    for pattern in ("*.md", "docs/**/*.md", "pretrained/**/*.md", "benchmarks/**/*.md", "studies/**/*.md")
    for path in sorted(ROOT.glob(pattern))
    if ROOT / "docs/_build" not in path.parents
]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOURCES = [*sorted(ROOT.glob("*.py")), *(path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py")))]

COMMAND = re.compile(
    r"(?P<python>\bpython3? +)?"
    r"(?:-m +(?P<module>\w+(?:\.\w+)*)|(?<![\w/.])(?P<file>(?:train|eval|export)\.py)(?![\w(]))"
)
CONSOLE = re.compile(r"(?:`|\| *|^ {4,})(?:python -m )?lwt (?=[a-z-]+\b)", re.MULTILINE)  # the console command
SPEC = re.compile(r"`(configs/(?!common)[a-z]\w*\.py(?::[^`\s]+)?)`")
MAKE = re.compile(r"(?:`|^ {4})make (?:-C \w+ )?([a-z]+)\b", re.MULTILINE)
PLACEHOLDER = re.compile(r"(?:[A-Z_]+[/:,@+]?)+|\.\.\.|….*|.*(?:=value|[A-Z]{3,}\.py|=[A-Z]{3,}\b|\{\w+\}).*")
YOURS = re.compile(r"studies.yours|configs/yours")  # what CONTRIBUTING.md gives to copy; test_contributing.py runs it
DOTTED = re.compile(r"(?<![\w./-])(?:lwt|studies|benchmarks)(?:\.(?!(?:c|h|md|py)\b)\w+)+")
PATH = re.compile(r"(?<![\w./*<{-])(?:[\w-]+/)+(?![A-Z]+\.|yours\.)[\w-]+\.(?:py|md|ipynb)\b")


def texts(path):
    """The texts of a file that may hold commands: a page, the cells of a notebook, or the strings of a source."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return [text]
    if path.suffix == ".ipynb":
        return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
    strings, parts = [], set()
    for node in ast.walk(ast.parse(text)):  # a formatted string comes before its parts
        if isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
            strings.append("".join(part.value if isinstance(part, ast.Constant) else "{x}" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            strings.append(node.value)
    return strings


def comments(path):
    """The comments of a source."""
    if path.suffix != ".py":
        return []
    with open(path, "rb") as file:
        return [token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT]


def commands(text):
    """``(program, arguments, strict)`` of each command in a text.

    A command ends with its line, or in a sentence with its code span. There it may be only part of a command, so that
    it need not have all required flags (`strict` is False).
    """
    text = re.sub(r"\\\n\s*", " ", text)
    found = [("train.py", [f"--config={match[1]}"], False) for match in SPEC.finditer(text)]
    for match in CONSOLE.finditer(text):
        in_span, rest = match[0].startswith("`"), text[match.end() :]
        arguments = words(" ".join(rest.split("`")[0].split()) if in_span else rest.split("\n")[0])
        if arguments and not (len(arguments) == 1 and arguments[0] in console.COMMANDS):  # more than its name
            found.append(("lwt", arguments, not in_span and "--help" not in rest))
    for match in COMMAND.finditer(text):
        before = text[: match.start()].rsplit("\n\n", 1)[-1].replace("```", "")
        in_span = len(re.findall("`+", before)) % 2 == 1
        program, rest = match["module"] or match["file"], text[match.end() :]
        if match["module"] and (not match["python"] or program.split(".")[0] not in PACKAGES or program == "lwt"):
            continue
        arguments = words(" ".join(rest.split("`")[0].split()) if in_span else rest.split("\n")[0])
        if not match["python"]:
            if not in_span:
                continue
            arguments = [argument for argument in arguments if argument.startswith("--")]
        found.append(
            (program, arguments, bool(match["python"]) and not in_span and "{x}" not in rest and "--help" not in rest)
        )
    return found


def words(rest):
    """The arguments of a command up to a pipe, ``&&`` or a comment; a flag without a real value is only named."""
    lexer = shlex.shlex(re.sub(r"\$\w+", "1", rest), posix=True, punctuation_chars="|&;>")
    lexer.whitespace_split, lexer.commenters, found = True, "#", []
    for word in lexer:
        if word in ("|", "&&", "&", ";", ">"):
            break
        flag, _, value = word.partition("=")
        if word.startswith("--") and (not value or PLACEHOLDER.fullmatch(value)):
            found.append(f"placeholder:{flag.removeprefix('--').split('.')[0]}")
        elif not PLACEHOLDER.fullmatch(word):
            found.append(word)
    return found


def test_every_command_parses():
    """The modules and flags exist, configs load with their arguments, and changed keys are keys of the config."""
    where = {}
    for path in [*PAGES, *NOTEBOOKS, *SOURCES]:
        for program, arguments, strict in (command for text in texts(path) for command in commands(text)):
            if YOURS.search(" ".join([program, *arguments])):
                continue
            where.setdefault((program, tuple(arguments), strict), str(path.relative_to(ROOT)))
    assert len(where) > 200
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/parse_commands.py")],
        input=json.dumps(list(where)),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    wrong = [
        f"{path}: {program} {shlex.join(arguments)}: {answer}"
        for ((program, arguments, _), path), answer in zip(where.items(), answers, strict=True)
        if answer
    ]
    assert wrong == []


def test_targets_of_make_exist():
    makefiles = (ROOT / "Makefile", ROOT / "lwt/export/c/source/Makefile")
    targets = {name for path in makefiles for name in re.findall(r"^(\w+):", path.read_text(), re.MULTILINE)}
    assert {target for path in PAGES for text in texts(path) for target in MAKE.findall(text)} - targets == set()


def is_there(dotted):
    """Whether ``lwt.data.text.Options`` names a module, or something that a module defines or imports."""
    outside = re.sub(r"^lwt\.(?=(configs|pretrained)\b)", "", dotted)  # a wheel has them inside the package
    place, *rest = ROOT, *outside.split(".")
    for number, name in enumerate(rest):
        if (place / name).is_dir():
            place = place / name
        elif (place / f"{name}.py").exists():
            return number == len(rest) - 1 or rest[number + 1] in names_of(place / f"{name}.py")
        else:
            return (place / "__init__.py").exists() and name in names_of(place / "__init__.py")
    return True


def names_of(path):
    """The names that a module binds at its top level."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for part in ast.walk(node):
            if isinstance(part, ast.FunctionDef | ast.ClassDef):
                found.add(part.name)
            elif isinstance(part, ast.alias):
                found.add((part.asname or part.name).split(".")[0])
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                found.add(part.id)
    return found


def exists(page, path):
    """Whether a path, as a page or a docstring gives it, is there: from the root, from lwt/, or from the page."""
    return any((folder / path).exists() for folder in (ROOT, ROOT / "lwt", ROOT / "docs", page.parent))


def test_modules_and_files_that_are_named_exist():
    lost = {}
    for path in [*PAGES, *NOTEBOOKS, *SOURCES]:
        text = "\n".join([*texts(path), *comments(path)])
        names = {name for name in DOTTED.findall(text) if not YOURS.match(name) and not is_there(name)}
        names |= {name for name in PATH.findall(text) if not YOURS.match(name) and not exists(path, name)}
        if names:
            lost[str(path.relative_to(ROOT))] = sorted(names)
    assert lost == {}
