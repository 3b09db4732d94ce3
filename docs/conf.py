"""Settings of the site: `make docs` builds it from the Markdown beside this file and the docstrings of lwt."""

import os
import pathlib
import sys

DOCS = pathlib.Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_ext")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # modules are imported, nothing is computed

import docstrings  # noqa: E402
import pages  # noqa: E402

import lwt  # noqa: E402

project, version = "lwt", lwt.__version__
html_title = f"lwt {version}"
html_theme = "furo"
html_static_path, html_css_files = ["_static", "../lwt/export/wasm/source/element.js"], ["lwt.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_inherit_docstrings = False
autodoc_mock_imports = ["gradio", "torchvision"]  # extras that modules of lwt import at the top
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a plain list of names
default_role = "py:obj"  # a link if the name exists, else code
maximum_signature_line_length = 100
python_use_unqualified_type_names = True
toc_object_entries = False
smartquotes_action = "D"  # dashes only; quoted values stay as typed
suppress_warnings = ["myst.header"]  # a section of a report may skip a level


def setup(app):
    """Connects the extensions beside this file."""
    app.connect("source-read", pages.expand)
    app.connect("html-page-context", pages.add_models)
    app.connect("build-finished", pages.copy_html)
    app.connect("autodoc-process-docstring", docstrings.to_rst, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", docstrings.shorten)
    app.connect("autodoc-skip-member", docstrings.skip)
