"""Tiny runs, in this process and in others; everything is compiled once and kept for all tests of this folder."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TINY = "tests/training/tiny.py"


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(compiled_once):
    pass


@pytest.fixture
def config_file(tmp_path):
    """``config_file(config) -> path`` of a file for the flag ``--config``."""

    def config_file(config):
        path = tmp_path / "config_file.py"
        text = json.dumps(config.to_dict())
        path.write_text(
            f"import json\nimport ml_collections\n\ndef get_config():\n"
            f"    return ml_collections.ConfigDict(json.loads({text!r}))\n"
        )
        return path

    return config_file


@pytest.fixture(scope="session")
def start(cache):
    """``start(program, *arguments, **environment) -> Popen`` of train.py or eval.py."""

    def start(*command, **environment):
        own = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env={**os.environ, **own, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def rows():
    """``rows(workdir) -> [dict]`` of metrics.jsonl, without what a clock says."""

    def rows(workdir):
        clock = ("time", *(f"train/{unit}_per_second" for unit in ("tokens", "examples", "steps")))
        lines = (pathlib.Path(workdir) / "metrics.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(line).items() if k not in clock} for line in lines]

    return rows
