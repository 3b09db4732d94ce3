"""Every notebook runs from its first cell to its last, in smoke mode, and holds what the whole run printed."""

import copy
import fnmatch
import glob
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import nbclient
import nbformat
import pytest

ROOT = pathlib.Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("build", ROOT / "notebooks" / "build.py")
build = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(build)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch, cache):
    monkeypatch.setenv("LWT_SMOKE", "1")
    monkeypatch.setenv("LWT_RUNS", str(tmp_path))
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "made"))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", cache)
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")  # runs of a notebook share programs
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    nbclient.NotebookClient(notebook, timeout=500, resources={"metadata": {"path": path.parent}}).execute()
    shown = [out.data for cell in notebook.cells for out in cell.get("outputs", []) if "data" in out]
    assert any("image/png" in data for data in shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_has_its_badge_the_first_cell_of_all_and_what_it_printed(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    written = copy.deepcopy(notebook)
    build.front(written, path.stem)
    for cell in written.cells:
        build.tidy(cell)
    assert written == notebook, "run notebooks/build.py --keep"
    assert notebook.cells[0].source.count(build.UPLOAD) == 1 and "OWNER" not in notebook.cells[0].source
    assert path.stat().st_size < 200_000
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "run notebooks/build.py"
    outputs = [output for cell in code for output in cell.outputs]
    assert any("image/png" in output.get("data", ()) for output in outputs)
    assert not any(output.output_type == "error" or str(ROOT) in str(output) for output in outputs)


def test_a_published_repository_has_a_badge(monkeypatch):
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    unpublished = notebook.cells[0].source
    address = "https://colab.research.google.com/github/someone/lwt/blob/main/notebooks/x.ipynb"
    with monkeypatch.context() as patch:
        patch.setattr(build, "REPOSITORY", "https://github.com/someone/lwt")
        for _ in range(2):
            build.front(notebook, "x")
            assert notebook.cells[0].source.count(f"]({address})") == 1 and build.UPLOAD not in notebook.cells[0].source
    build.front(notebook, "x")
    assert notebook.cells[0].source == unpublished


def test_tidy_keeps_results_and_drops_progress_and_our_folder():
    printed = ["1/9  loss 2", "5/9  loss 1  0:10 left", f"wrote {ROOT}/runs/a"]
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"{line}\n") for line in printed]
    outputs += [nbformat.v4.new_output("stream", name="stderr", text="a warning\n")]
    outputs += [nbformat.v4.new_output("display_data", data={"image/png": "x"})]
    cell = nbformat.v4.new_code_cell("...", outputs=outputs, metadata={"execution": {}})
    build.tidy(cell)
    assert cell.outputs[0].text == "1/9  loss 2\nwrote runs/a\n" and cell.metadata == {}
    assert [output.output_type for output in cell.outputs] == ["stream", "display_data"]


def test_the_first_cell_installs_what_the_machine_has(tmp_path, monkeypatch):
    """Away from a checkout: it clones, and installs the extra of the accelerator whose device file is there."""
    for files, extra in (
        ([], ""),
        (["/dev/nvidia0"], "[cuda]"),
        (["/dev/accel0"], "[tpu]"),
        (["/dev/vfio/0"], "[tpu]"),
    ):
        folder, asked = tmp_path / f"with{extra}" / str(len(files)), []
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(folder)

        def run(command, *, asked=asked, folder=folder, **options):
            asked.append(command)
            if command[0] == "git":
                pathlib.Path(command[-1]).mkdir(exist_ok=True)
            else:
                assert pathlib.Path.cwd() == folder, "if the installation fails, the cell can be run again"
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.setattr(os.path, "exists", lambda path, files=files: path in files)
        monkeypatch.setattr(glob, "glob", lambda pattern, files=files: fnmatch.filter(files, pattern))
        exec(build.FIRST.format(repository="https://example.org/lwt"), {})
        assert asked[0][:2] == ["git", "clone"] and asked[0][-2] == "https://example.org/lwt"
        assert asked[1][-1] == f"./lwt-checkout{extra}" and pathlib.Path.cwd().name == "lwt-checkout"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://github.com/OWNER/lwt", "REPOSITORY has no address yet"),
        ("no/such", "git cannot clone no/such: fatal: "),
    ],
)
def test_without_a_repository_the_first_cell_says_what_helps(address, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=said) as raised:
        exec(build.FIRST.format(repository=address), {})
    (make,) = re.findall("git archive .*", str(raised.value))
    (unpack,) = re.findall("!(unzip .*)", str(raised.value))
    subprocess.run([*shlex.split(make), "lwt/__init__.py"], cwd=ROOT, check=True)  # of the clone, one file is enough
    shutil.move(ROOT / "checkout.zip", tmp_path)
    shutil.unpack_archive(tmp_path / "checkout.zip", tmp_path)
    assert unpack == "unzip -q checkout.zip"
    monkeypatch.setattr(subprocess, "run", lambda command, **options: None)  # pip
    exec(build.FIRST.format(repository=address), {})
    assert pathlib.Path.cwd() == tmp_path / "lwt-checkout" and pathlib.Path("lwt/__init__.py").exists()


def test_there_is_one_for_each_paper():
    papers = {path.stem for path in (ROOT / "docs" / "papers").glob("*.md") if not path.stem.endswith("_appendix")}
    assert {path.stem for path in NOTEBOOKS} == {"tour", *papers}
