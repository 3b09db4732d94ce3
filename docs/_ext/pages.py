"""Prepares Markdown pages for Sphinx: expands lists of modules, and redirects links that leave docs/."""

import ast
import os
import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).parents[2]
GUESTS = {  # page of docs/ -> the file outside docs/ whose text it shows
    "contributing": "CONTRIBUTING.md",
    "benchmarks": "benchmarks/README.md",
    "pretrained": "pretrained/README.md",
}
MODULES = re.compile(r"^```\{modules\} (\S+)\n```$", re.MULTILINE)
REFERENCE = ("lwt", "studies", "configs")  # packages with pages in docs/api/
LINK = re.compile(r"(?<=\]\()(\.\.?/[^)#\s]+)(?=\))")
HTML_LINK = re.compile(r"\[([^]]+)\]\((?!\w+:)([^)#\s]+\.html)\)")


def expand(app, docname, source):
    """Rewrites the text of a page, ``source[0]``; GitHub shows it unchanged.

    A fence ``{modules} PACKAGE`` becomes a table of the package's modules and their docstrings. A page of `GUESTS` gets
    the text of a file beside docs/. Links that leave docs/ lead to the same content on the site (`target`), and links
    to HTML pages are left to the browser (`copy_html`).
    """
    path = ROOT / GUESTS[docname] if docname in GUESTS else pathlib.Path(app.env.doc2path(docname))
    text = path.read_text(encoding="utf-8") if docname in GUESTS else source[0]
    text = LINK.sub(lambda match: target(path.parent, match.group(1)), text)
    text = HTML_LINK.sub(r'<a href="\2">\1</a>', text)
    source[0] = MODULES.sub(lambda match: package_page(match.group(1), folder=path.parent), text)


def add_models(app, docname, template, context, doctree):
    """Gives the page `try` the script that answers; the Makefile writes the models beside the page."""
    if docname == "try":
        app.add_js_file("element.js", type="module")


def copy_html(app, error):
    """Copies the HTML pages below docs/ to the same place on the site."""
    if error is None:
        for path in sorted(pathlib.Path(app.srcdir, "results").glob("**/*.html")):
            shutil.copyfile(path, pathlib.Path(app.outdir, path.relative_to(app.srcdir)))


def target(folder, link):
    """Where a relative link from `folder` leads on the site: modules, and folders of modules, to the API reference."""
    path = pathlib.Path(os.path.normpath(folder / link))
    if not path.is_relative_to(ROOT):
        return link
    name = path.relative_to(ROOT).as_posix()
    pages = {guest: f"/{page}.md" for page, guest in GUESTS.items()} | {"README.md": "/index.md"}
    top, _, rest = name.partition("/")
    if top == "docs":
        return f"/{rest}"
    if top in REFERENCE and path.is_dir():
        return f"/api/{top == 'lwt' and rest.split('/')[0] or top}.md"
    if top in REFERENCE and path.suffix == ".py":
        return f"#api-{name.removesuffix('.py').replace('/', '.')}"
    return pages.get(name, link)


def modules(package):
    """Modules of a package and of the packages in it, ``{name: docstring}``; of lwt itself, only its own modules."""
    folder = ROOT.joinpath(*package.split("."))
    paths = folder.glob("*.py") if package == "lwt" else folder.rglob("*.py")
    found = {}
    for path in sorted(path for path in paths if path.stem != "__main__"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return {name: docstring for name, docstring in found.items() if docstring}


def package_page(package, *, folder):
    """Markdown: a table of the modules with the first paragraphs of their docstrings, and a section for each.

    Args:
        package: dotted name.
        folder: that of the page; links to the files start from it.
    """
    found = modules(package)
    rows = [f"| [`{name}`](#api-{name}) | {summary(docstring)} |" for name, docstring in found.items()]
    return "\n".join(["| module | |", "|---|---|", *rows, "", *(section(name, folder) for name in found)])


def section(name, folder):
    """Markdown: a link to a module's file, and its contents."""
    path = ROOT.joinpath(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    link = f"[{path.relative_to(ROOT)}]({os.path.relpath(path, folder)})"
    return f"(api-{name})=\n## {name}\n\n{link}\n\n```{{eval-rst}}\n.. automodule:: {name}\n```\n"


def summary(docstring):
    """The first paragraph of a docstring, on one line of a Markdown table."""
    first = " ".join(docstring.split("\n\n")[0].split())
    return first.rstrip(":").replace("``", "`").replace("|", "\\|")
