"""A wheel, installed away from the checkout: its commands, its configs, and ``lwt quickstart`` in its short form."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

import lwt

ROOT = pathlib.Path(__file__).parents[1]


def call(*command, folder, **environment):
    """Runs a command in `folder`; returns what it printed."""
    path = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GLIBC_TUNABLES")}
    done = subprocess.run(command, cwd=folder, env=path | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel and the sdist, the wheel built from the sdist."""
    folder = tmp_path_factory.mktemp("built")
    for name in ("lwt", "configs", "pretrained"):
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), folder=folder / "source")
    return folder


@pytest.fixture(scope="module")
def console(built, tmp_path_factory, cache):
    """``console(command, *arguments, folder)`` calls lwt in an environment that has the wheel and its dependencies."""
    environment = tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "venv", "--without-pip", str(environment), folder=environment)
    python = environment / "bin/python"
    packages = next(environment.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")  # without an editable lwt there
    (wheel,) = built.glob("*.whl")
    install = (sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install", "--no-index", "--no-deps")
    call(*install, str(wheel), folder=environment)

    def console(*arguments, folder):
        settings = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
        return call(str(environment / "bin/lwt"), *arguments, folder=folder, **settings)

    return console


def test_the_wheel_has_the_configs_and_nothing_of_the_checkout(built):
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"lwt", f"lwt-{lwt.__version__}.dist-info"}
    configs = {path.name for path in (ROOT / "configs").glob("*.py")}
    assert {name.removeprefix("lwt/configs/") for name in names if name.startswith("lwt/configs/")} == configs
    bundles = {name.split("/")[2] for name in names if name.startswith("lwt/pretrained/")}
    assert bundles == {"embbert-encoder"} and "lwt/pretrained/embbert-encoder/model.safetensors" in names
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "lwt/export").glob("*/source/**/*") if path.is_file()}
    assert sources and sources <= set(names) and len(list(built.glob("*.tar.gz"))) == 1


def test_the_command_works_anywhere(console, tmp_path):
    assert "lwt quickstart" in console(folder=tmp_path)
    said = console("train", "--help", "--config=quickstart", folder=tmp_path)
    assert "lwt train --config=" in said and "  stage=base\n" in said and "  model.width=64\n" in said


def test_quickstart_trains_adapts_evaluates_and_draws(console, tmp_path):
    said, folder = console("quickstart", "--smoke", folder=tmp_path), tmp_path / "runs/quickstart"
    assert "1/4" in said and "4/4" in said and "exact match on new tasks" in said
    for name in ("loss.png", "accuracy.png", "adapted/metrics.jsonl", "adapted/adapter/adapter.safetensors"):
        assert (folder / name).stat().st_size > 0, name
    assert f"lwt eval --workdir={folder.relative_to(tmp_path)}/adapted --predict=-" in said
    again = console("train", "--config=quickstart:stage=base,smoke=true", f"--workdir={folder}/base", folder=tmp_path)
    assert "exact_match/copy" in json.loads(again.splitlines()[-1])
