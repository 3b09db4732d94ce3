"""Writes the badge and the first cell of the notebooks, runs them, and stores what they print and draw.

    python notebooks/build.py                # all notebooks
    python notebooks/build.py tour           # one
    python notebooks/build.py --keep         # only the badge and the first cell; runs nothing

Needs the extra ``notebooks``: ``pip install '.[notebooks]'``.
"""

import argparse
import pathlib
import re

import nbclient
import nbformat

# The public address of this repository. It is not published yet: put its address here and run the program with --keep.
REPOSITORY = "https://github.com/OWNER/lwt"

FOLDER = pathlib.Path(__file__).resolve().parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
COLAB = "https://colab.research.google.com"
UPLOAD = "*In Colab, upload this file; its first cell says where lwt comes from.*"  # the badge of an unknown address
PROGRESS = re.compile(r"\d+/\d+  .* left")  # lines of a training, but for its first and its last
FIRST = """\
# In Colab, this installs lwt for its CPU, GPU or TPU; in a checkout, it only finds the folder.
REPOSITORY = "{repository}"

import glob
import os
import pathlib
import subprocess
import sys

if pathlib.Path.cwd().name == "notebooks":
    os.chdir("..")  # configs are named relative to the root
if not os.path.exists("lwt/__init__.py"):
    if not os.path.exists("lwt-checkout"):
        remedy = (
            "Set REPOSITORY above to an address that git can clone. Or upload your copy: in your clone, type\\n"
            "    git archive --prefix=lwt-checkout/ --output=checkout.zip HEAD\\n"
            "Upload checkout.zip (in Colab, to the files on the left), and run in a cell of its own\\n"
            "    !unzip -q checkout.zip\\n"
            "Then run this cell again."
        )
        if "/OWNER/" in REPOSITORY:
            raise SystemExit(f"REPOSITORY has no address yet. {{remedy}}")
        done = subprocess.run(["git", "clone", "--quiet", REPOSITORY, "lwt-checkout"], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"git cannot clone {{REPOSITORY}}: {{done.stderr.strip()}}\\n{{remedy}}")
    tpu = glob.glob("/dev/accel*") + glob.glob("/dev/vfio/[0-9]*")  # older and newer TPUs
    extra = "[tpu]" if tpu else "[cuda]" if os.path.exists("/dev/nvidia0") else ""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--editable", f"./lwt-checkout{{extra}}"]
    subprocess.run(install, check=True)
    os.chdir("lwt-checkout")  # last: if a line above fails, this cell can be run again
sys.path.insert(0, os.getcwd())

import jax

print(jax.default_backend(), jax.devices())"""


def front(notebook, name):
    """Puts the badge, or `UPLOAD`, under the title of a notebook, and the first cell of all notebooks after it."""
    title, *rest = notebook.cells[0].source.split("\n")
    if "/OWNER/" in REPOSITORY:  # a badge would lead nowhere
        badge = UPLOAD
    else:
        path = REPOSITORY.removeprefix("https://")  # Colab names GitHub's repositories so
        address = f"{COLAB}/{path.replace('github.com', 'github', 1)}/blob/main/notebooks/{name}.ipynb"
        badge = f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({address})"
    text = "\n".join(line for line in rest if COLAB not in line and line != UPLOAD).strip()
    notebook.cells[0].source = f"{title}\n\n{badge}\n\n{text}"
    notebook.cells[1].source = FIRST.format(repository=REPOSITORY)


def run(notebook):
    """Runs a notebook and keeps what its cells print and draw."""
    metadata = dict(notebook.metadata)
    nbclient.NotebookClient(notebook, timeout=None, resources={"metadata": {"path": FOLDER}}).execute()
    notebook.metadata = metadata


def tidy(cell):
    """Takes out of the outputs of a cell: times, warnings, the progress in the middle of a training, and our folder."""
    cell.metadata.pop("execution", None)
    said, others = "", []
    for output in cell.get("outputs", ()):
        if output.output_type != "stream":
            others.append(output)
        elif output.name == "stdout":
            said += output.text
    lines = [line for line in said.replace(f"{FOLDER.parent}/", "").splitlines() if not PROGRESS.fullmatch(line)]
    if lines:
        others.insert(0, nbformat.v4.new_output("stream", name="stdout", text="\n".join(lines) + "\n"))
    if cell.cell_type == "code":
        cell.outputs = others


def main():
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], help=f"of {', '.join(NAMES)}; without a name, all")
    parser.add_argument("--keep", action="store_true", help="keep the outputs, and run nothing")
    given = parser.parse_args()
    for name in given.names or NAMES:
        path = FOLDER / f"{name}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        front(notebook, name)
        if not given.keep:
            run(notebook)
        for cell in notebook.cells:
            tidy(cell)
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
